"""From the checked arguments of a tool to the command or query that they ask for.

Here is checked what a schema cannot say: which arguments go together, words of a certain
form, ids. All problems are told at once where they can be known at once.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never

from convmem import limits
from convmem.message import NO_METADATA, Metadata, Relation
from convmem.operations import (
    Query,
    ReadContent,
    ReadContext,
    ReadExport,
    ReadHistory,
    ReadSessions,
    SearchMessages,
    UpdateMessage,
    WriteMessage,
)
from convmem.tools.arguments import (
    MetadataArguments,
    ReadMessagesArguments,
    SearchMessagesArguments,
    UpdateMessageArguments,
    View,
    WriteMessageArguments,
)
from convmem.tools.replies import invalid, parse_id

_RELATION_TYPE = re.compile("[a-z][a-z0-9_]*")
_MILLISECONDS = re.compile("-?[0-9]{1,15}")
_RFC_3339 = re.compile(
    "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_command(arguments: WriteMessageArguments, client: str | None) -> WriteMessage:
    """The command that a call asks for. Raises Refusal (INVALID_ARGUMENT)."""
    return WriteMessage(
        session_id=arguments.session_id,
        role=arguments.role,
        content=arguments.content,
        metadata=Metadata(**_metadata_changes(arguments.metadata)),
        message_id=parse_id(arguments.message_id, "message_id") if arguments.message_id else None,
        client_id=client,
    )


def update_command(arguments: UpdateMessageArguments) -> UpdateMessage:
    """The command that a call asks for. Raises Refusal (INVALID_ARGUMENT)."""
    changes = _metadata_changes(arguments.metadata)
    cleared = arguments.clear or ()
    both = [name for name in cleared if name in changes]
    if both:
        raise invalid([f"clear: {name} is given a new value in metadata as well" for name in both])
    changes |= {name: getattr(NO_METADATA, name) for name in cleared}
    if arguments.content is not None:
        changes["content"] = arguments.content
    if not changes:
        raise invalid(["nothing to change: give content, metadata or clear"])
    return UpdateMessage(
        message_id=parse_id(arguments.message_id, "message_id"),
        expected_revision=arguments.expected_revision,
        changes=changes,
    )


def _metadata_changes(arguments: MetadataArguments | None) -> dict[str, Any]:
    """The fields of metadata that are given, by name, as the domain has them."""
    if arguments is None:
        return {}
    _check_metadata(arguments)
    given = {
        field.name: getattr(arguments, field.name)
        for field in fields(arguments)
        if getattr(arguments, field.name) is not None
    }
    if "relations" in given:
        given["relations"] = tuple(
            Relation(link.type, parse_id(link.message_id, f"metadata.relations[{n}].message_id"))
            for n, link in enumerate(given["relations"])
        )
    if "source_message_ids" in given:
        given["source_message_ids"] = tuple(
            parse_id(source, f"metadata.source_message_ids[{n}]")
            for n, source in enumerate(given["source_message_ids"])
        )
    return given


def _check_metadata(arguments: MetadataArguments) -> None:
    tags = arguments.tags or ()
    problems = [
        f"metadata.tags[{n}]: {tag!r} is there already"
        for n, tag in enumerate(tags)
        if tag in tags[:n]
    ]
    problems += [
        f"metadata.relations[{n}].type: {link.type!r} is not a lower-case word of a-z, 0-9 "
        "and _ that begins with a letter"
        for n, link in enumerate(arguments.relations or ())
        if not _RELATION_TYPE.fullmatch(link.type)
    ]
    if problems:
        raise invalid(problems)


def read_query(arguments: ReadMessagesArguments) -> Query:
    """The query that a call asks for. Raises Refusal (INVALID_ARGUMENT)."""
    _check_arguments_of_view(arguments)
    match arguments.view:
        case "history":
            return ReadHistory(
                session_id=arguments.session_id or "",
                order=arguments.order or "newest_first",
                limit=arguments.limit or limits.PAGE_ITEMS_DEFAULT,
                max_bytes=arguments.max_bytes or limits.REPLY_BYTES_DEFAULT,
                cursor=arguments.cursor,
            )
        case "content":
            return ReadContent(
                message_id=parse_id(arguments.message_id or "", "message_id"),
                offset=arguments.offset or 0,
                limit=arguments.limit or limits.WINDOW_BYTES_DEFAULT,
                expected_revision=arguments.expected_revision,
            )
        case "context":
            return ReadContext(
                message_id=parse_id(arguments.message_id or "", "message_id"),
                before=_or(arguments.before, limits.NEIGHBOURS_DEFAULT),
                after=_or(arguments.after, limits.NEIGHBOURS_DEFAULT),
                relation_depth=_or(arguments.relation_depth, limits.RELATION_DEPTH_DEFAULT),
                max_bytes=arguments.max_bytes or limits.REPLY_BYTES_DEFAULT,
            )
        case "export":
            return ReadExport(
                limit=arguments.limit or limits.PAGE_ITEMS_DEFAULT,
                max_bytes=arguments.max_bytes or limits.REPLY_BYTES_DEFAULT,
                cursor=arguments.cursor,
            )
        case "sessions":
            return ReadSessions(
                limit=arguments.limit or limits.PAGE_ITEMS_DEFAULT,
                max_bytes=arguments.max_bytes or limits.REPLY_BYTES_DEFAULT,
                prefix=arguments.prefix,
                cursor=arguments.cursor,
            )
        case _:
            assert_never(arguments.view)


def search_query(arguments: SearchMessagesArguments) -> SearchMessages:
    """The query that a call asks for. Raises Refusal (INVALID_ARGUMENT)."""
    problems: list[str] = []
    since = _time_ms(arguments.since, "since", problems)
    until = _time_ms(arguments.until, "until", problems)
    if since is not None and until is not None and until < since:
        problems.append("until: lies before since")
    if problems:
        raise invalid(problems)
    return SearchMessages(
        query=arguments.query,
        limit=arguments.limit or limits.SEARCH_RESULTS_DEFAULT,
        max_bytes=arguments.max_bytes or limits.REPLY_BYTES_DEFAULT,
        mode=arguments.mode or "auto",
        session_id=arguments.session_id,
        role=arguments.role,
        memory_kind=arguments.memory_kind,
        memory_tier=arguments.memory_tier,
        tags=arguments.tags or (),
        min_importance=arguments.min_importance,
        since=since,
        until=until,
        before=arguments.before or 0,
        after=arguments.after or 0,
    )


def _time_ms(text: str | None, name: str, problems: list[str]) -> int | None:
    """The UTC milliseconds of an argument: RFC 3339 with an offset, or the number itself."""
    if text is None:
        return None
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if _RFC_3339.fullmatch(text):
        with suppress(ValueError):  # the 30th of February
            return (datetime.fromisoformat(text.upper()) - _EPOCH) // timedelta(milliseconds=1)
    problems.append(
        f"{name}: {text!r} is neither a time with its offset, like 2026-03-01T09:00:00Z or "
        "2026-03-01T09:00:00+09:00, nor UTC milliseconds"
    )
    return None


def _or(given: int | None, default: int) -> int:
    return default if given is None else given


@dataclass(frozen=True, slots=True)
class _ViewRules:
    """What a view needs, what else it takes, and the greatest ``limit`` it allows."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    limit_max: int


_VIEWS: dict[View, _ViewRules] = {
    "history": _ViewRules(
        ("session_id",), ("order", "limit", "cursor", "max_bytes"), limits.PAGE_ITEMS_MAX
    ),
    "content": _ViewRules(
        ("message_id",), ("offset", "limit", "expected_revision"), limits.WINDOW_BYTES_MAX
    ),
    "context": _ViewRules(
        ("message_id",), ("before", "after", "relation_depth", "max_bytes"), limits.PAGE_ITEMS_MAX
    ),
    "export": _ViewRules((), ("limit", "cursor", "max_bytes"), limits.PAGE_ITEMS_MAX),
    "sessions": _ViewRules((), ("prefix", "limit", "cursor", "max_bytes"), limits.PAGE_ITEMS_MAX),
}


def _check_arguments_of_view(arguments: ReadMessagesArguments) -> None:
    """An argument that another view has would be passed over in silence: refuse it instead."""
    rules = _VIEWS[arguments.view]
    given = [
        field.name
        for field in fields(arguments)
        if field.name != "view" and getattr(arguments, field.name) is not None
    ]
    problems = [
        f"{name}: required by view {arguments.view!r}"
        for name in rules.required
        if name not in given
    ]
    problems += [
        f"{name}: not an argument of view {arguments.view!r}, which takes "
        + ", ".join(rules.required + rules.optional)
        for name in given
        if name not in rules.required + rules.optional
    ]
    if arguments.limit is not None and rules.limit_max < arguments.limit:
        problems.append(f"limit: at most {rules.limit_max} in view {arguments.view!r}")
    if problems:
        raise invalid(problems)
