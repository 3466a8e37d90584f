"""The message tools: how what a host asks reaches the memory."""

import re
from dataclasses import dataclass, fields
from typing import Any, assert_never

from convmem import limits
from convmem.memory import Memory
from convmem.message import Metadata, Relation
from convmem.operations import (
    JsonObject,
    Query,
    ReadContent,
    ReadHistory,
    ReadSessions,
    WriteMessage,
)
from convmem.protocol import Call, Tool
from convmem.tools.arguments import (
    MetadataArguments,
    ReadMessagesArguments,
    View,
    WriteMessageArguments,
    WriteMessageResult,
)
from convmem.tools.replies import client_id, invalid, parse_id, refusing

_RELATION_TYPE = re.compile("[a-z][a-z0-9_]*")


def message_tools(memory: Memory, configured_client: str | None) -> list[Tool[Any]]:
    """The tools that write and read messages."""

    async def write(arguments: WriteMessageArguments, call: Call) -> JsonObject:
        return await memory.execute(write_command(arguments, client_id(configured_client, call)))

    async def read(arguments: ReadMessagesArguments, call: Call) -> JsonObject:
        return await memory.query(read_query(arguments))

    return [
        Tool(
            name="write_message",
            title="Remember a message",
            description=(
                "Store one message of a conversation durably, word for word. Use it for what "
                "was said or decided and should be found again in later conversations. When it "
                "returns, the message is safe on disk. Returns the message_id."
            ),
            arguments=WriteMessageArguments,
            result=WriteMessageResult,
            handler=refusing(write),
            read_only=False,
            destructive=False,
            idempotent=False,
        ),
        Tool(
            name="read_messages",
            title="Read remembered messages",
            description=(
                "Read what was stored. view 'sessions' lists the conversations with a summary "
                "each; 'history' pages through one of them; 'content' reads a message that is "
                "too long for a page (content_truncated) in windows. A next_cursor in the reply "
                "means there is more."
            ),
            arguments=ReadMessagesArguments,
            handler=refusing(read),
            read_only=True,
            destructive=False,
            idempotent=True,
        ),
    ]


def write_command(arguments: WriteMessageArguments, client: str | None) -> WriteMessage:
    """The command that a call asks for. Raises Refusal (INVALID_ARGUMENT)."""
    return WriteMessage(
        session_id=arguments.session_id,
        role=arguments.role,
        content=arguments.content,
        metadata=_metadata(arguments.metadata or MetadataArguments()),
        message_id=parse_id(arguments.message_id, "message_id") if arguments.message_id else None,
        client_id=client,
    )


def _metadata(arguments: MetadataArguments) -> Metadata:
    tags = arguments.tags or ()
    relations = arguments.relations or ()
    sources = arguments.source_message_ids or ()
    problems = [
        f"metadata.tags[{place}]: {tag!r} is there already"
        for place, tag in enumerate(tags)
        if tag in tags[:place]
    ]
    problems += [
        f"metadata.relations[{place}].type: {relation.type!r} is not a lower-case word of "
        "a-z, 0-9 and _ that begins with a letter"
        for place, relation in enumerate(relations)
        if not _RELATION_TYPE.fullmatch(relation.type)
    ]
    if problems:
        raise invalid(problems)
    return Metadata(
        tool_call_id=arguments.tool_call_id,
        tags=tags,
        memory_tier=arguments.memory_tier,
        memory_kind=arguments.memory_kind,
        importance=arguments.importance,
        summary=arguments.summary,
        relations=tuple(
            Relation(
                relation.type,
                parse_id(relation.message_id, f"metadata.relations[{place}].message_id"),
            )
            for place, relation in enumerate(relations)
        ),
        source_message_ids=tuple(
            parse_id(source, f"metadata.source_message_ids[{place}]")
            for place, source in enumerate(sources)
        ),
    )


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
        case "sessions":
            return ReadSessions(
                limit=arguments.limit or limits.PAGE_ITEMS_DEFAULT,
                max_bytes=arguments.max_bytes or limits.REPLY_BYTES_DEFAULT,
                prefix=arguments.prefix,
                cursor=arguments.cursor,
            )
        case _:
            assert_never(arguments.view)


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
