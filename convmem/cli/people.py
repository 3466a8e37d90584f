"""The commands of a person that looks into a memory: what it holds, what was said, how it is.

All of them read, but ``rebuild``, and none makes a store. A server may have the memory open:
its owner is asked then. They speak the tools' own language through ``convmem.api``, so an answer
says the same here as to a host; ``--json`` gives it as it came, a list one item a line.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from convmem.api import Memory, open_memory
from convmem.cli.ended import ended
from convmem.cli.progress import Progress
from convmem.cli.terminal import Style, Terminal, local_time, safe_line, safe_text, terminal_of
from convmem.errors import Code, Refusal
from convmem.health import unreadable_told
from convmem.limits import PAGE_ITEMS_MAX, REPLY_BYTES_MAX, WINDOW_BYTES_MAX
from convmem.operations import Order

Json = dict[str, Any]
Row = tuple[str, ...]
Styles = tuple[Style | None, ...]

_INDENT = "    "
_STYLES = {"user": Style.USER, "assistant": Style.ASSISTANT, "system": Style.SYSTEM}


def answer(options: argparse.Namespace) -> int:
    """Run one of the commands; the exit status."""

    def work() -> None:
        require_store(options.data_dir)
        with open_memory(options.data_dir) as memory:
            _COMMANDS[options.command](memory, options, terminal_of(sys.stdout))

    return ended(work)


def require_store(data_dir: Path) -> None:
    """Opening a folder without a store would make one. Raises Refusal."""
    if not data_dir.is_dir():
        raise Refusal(Code.NOT_FOUND, f"{data_dir} is not a directory")
    if not any(data_dir.glob("*.cv[ls]")):  # a log or a snapshot
        raise Refusal(Code.NOT_FOUND, f"no memory is in {data_dir}; `convmem serve` makes one")


def _sessions(memory: Memory, options: argparse.Namespace, out: Terminal) -> None:
    def row(session: Json) -> Row:
        return (
            local_time(session["last_timestamp"]),
            f"{session['messages']:>5}",
            safe_line(session["session_id"]),
            safe_line(session.get("summary", "")),
        )

    pages = _pages(memory, "read_messages", "sessions", view="sessions")
    styles = (Style.FAINT, None, Style.STRONG, None)
    if not _print_list(out, pages, styles, None if options.json else row):
        _say("No session yet.")


def _show(memory: Memory, options: argparse.Namespace, out: Terminal) -> None:
    messages: Iterable[Json]
    if options.last is None:
        messages = chain.from_iterable(_history_pages(memory, options.session, "oldest_first"))
    else:
        newest = chain.from_iterable(_history_pages(memory, options.session, "newest_first"))
        messages = [*islice(newest, options.last)][::-1]
    for message in messages:
        whole = _whole(memory, message)
        if options.json:
            _print_lines([whole])
        else:
            _print_message(out, whole, whole["content"])


def _history_pages(memory: Memory, session: str, order: Order) -> Iterator[list[Json]]:
    unknown = f"there is no session {session!r}; `convmem sessions` lists them"
    asked = {"view": "history", "session_id": session, "order": order}
    return _pages(memory, "read_messages", "messages", unknown=unknown, **asked)


def _search(memory: Memory, options: argparse.Namespace, out: Terminal) -> None:
    reply = memory.search_messages(
        " ".join(options.query),
        session_id=options.session,
        role=options.role,
        tags=options.tag,
        since=options.since,
        until=options.until,
        limit=options.limit,
        max_bytes=REPLY_BYTES_MAX,
    )
    if options.json:
        _print_lines([reply])
    else:
        _print_found(out, reply)
    if unreadable := reply.get("unreadable"):  # an answer, but not the whole one
        damage = {"file": str(options.data_dir)}
        raise Refusal(Code.STORE_FAILED, unreadable_told(unreadable), **damage)


def _print_found(out: Terminal, reply: Json) -> None:
    for result in reply["results"]:
        field = result["excerpt_field"]
        text = result["excerpt"] if field == "content" else f"({field}) {result['excerpt']}"
        _print_message(out, result, text, session=result["session_id"])
    _say(f"{len(reply['results'])} of {reply['total']} found, {reply['searched']} searched.")
    near = ", ".join(map(safe_line, reply.get("near_session_ids", [])))
    if near:
        _say(f"No such session. Spelled much like it: {near}")


def _facts(memory: Memory, options: argparse.Namespace, out: Terminal) -> None:
    def row(fact: Json) -> Row:
        return (
            local_time(fact["set_at"]),
            safe_line(fact.get("client_id", "-")),
            safe_line(fact["key"]),
            safe_line(fact["value"]),
        )

    pages = _pages(memory, "memory_list", "facts", prefix=options.prefix)
    styles = (Style.FAINT, Style.FAINT, Style.STRONG, None)
    if not _print_list(out, pages, styles, None if options.json else row):
        _say("No fact." if options.prefix is None else "No fact whose key begins so.")


def _history(memory: Memory, options: argparse.Namespace, out: Terminal) -> None:
    def row(event: Json) -> Row:
        return (
            local_time(event["at"]),
            safe_line(event.get("client_id", "-")),
            event["action"],
            safe_line(_outcome(event)),
        )

    unknown = f"nothing is known of a key {options.key!r}; `convmem facts` lists the keys"
    pages = _pages(memory, "memory_history", "events", key=options.key, unknown=unknown)
    styles = (Style.FAINT, Style.FAINT, Style.STRONG, None)
    _print_list(out, pages, styles, None if options.json else row)


def _outcome(event: Json) -> str:
    """What an event came to: the value set; of a refusal what was tried and why it was not done."""
    if event["action"] == "refused":
        value = f": {event['value']}" if "value" in event else ""
        return f"{event['tried']}, {event['reason'].replace('_', ' ')}{value}"
    return str(event.get("value", "and its history purged" if event.get("purged") else ""))


def _stats(memory: Memory, options: argparse.Namespace, out: Terminal) -> None:
    health = memory.get_system_health()
    if options.json:
        _print_lines([health])
        return
    store, sharing = health["store"], health["sharing"]
    rows: list[Row] = [
        ("status", f"{health['status']}, {health['recovery']['outcome']} when it was opened"),
        ("messages", f"{health['messages']:,} in {health['sessions']:,} sessions"),
        ("deleted", f"{health['deleted']:,} until the next rebuild"),
        ("facts", f"{health['facts']:,}"),
        ("log", f"{store['log_bytes']:,} bytes, generation {store['generation']}"),
        ("snapshot", f"{store['snapshot']['bytes']:,} bytes"),
        ("in use", _in_use(sharing)),
        ("memory", f"{sum(health['memory_bytes'].values()):,} bytes, with the search index"),
        ("folder", store["directory"]),
    ]
    quarantine = store["quarantine"]
    if quarantine["files"]:
        rows.append(("quarantine", f"{quarantine['files']} files, {quarantine['bytes']:,} bytes"))
    rows += [("warning", warning) for warning in health.get("warnings", [])]
    rows += [("failed", health["failed"])] if "failed" in health else []
    _print_table(out, [(name, safe_line(told)) for name, told in rows], (Style.STRONG, None))


def _in_use(sharing: Json) -> str:
    if sharing["role"] == "guest":
        return f"by process {sharing['owner_pid']}, which was asked"
    return "by nobody else"


def _rebuild(memory: Memory, options: argparse.Namespace, out: Terminal) -> None:
    with Progress() as progress:
        done = memory.rebuild_index(partial(progress.show, "rebuilding"))
    if options.json:
        _print_lines([done])
    elif done["rebuilt"]:
        sizes = f"{done['bytes_before']:,} to {done['bytes_after']:,}"
        print(f"Written anew. Messages: {done['live']:,}. Bytes: {sizes}.")
    else:
        print(f"Nothing to tidy up. Messages: {done['live']:,}. Bytes: {done['bytes_after']:,}.")


def _pages(
    memory: Memory,
    tool: str,
    items: str,
    *,
    unknown: str | None = None,
    **arguments: Any,
) -> Iterator[list[Json]]:
    """The pages of a list, as long as they may be. ``unknown`` says that there is no such list."""
    asked = {**arguments, "limit": PAGE_ITEMS_MAX, "max_bytes": REPLY_BYTES_MAX}
    try:
        page = memory.call(tool, **asked)
    except Refusal as refusal:
        if refusal.code is Code.NOT_FOUND and unknown is not None:
            raise Refusal(refusal.code, unknown) from refusal
        raise
    yield page[items]
    while "next_cursor" in page:
        page = memory.call(tool, **asked, cursor=page["next_cursor"])
        yield page[items]


def _whole(memory: Memory, message: Json) -> Json:
    """The message with all of its content, where a page had no room for it."""
    if "content_truncated" not in message:
        return message
    parts: list[str] = []
    offset = 0
    while offset < message["content_bytes"]:
        window = memory.read_messages(
            "content",
            message_id=message["message_id"],
            expected_revision=message["revision"],
            offset=offset,
            limit=WINDOW_BYTES_MAX,
        )
        parts.append(window["content"])
        offset = window["next_offset"]
    cut = ("content_bytes", "content_truncated")
    kept = {name: value for name, value in message.items() if name not in cut}
    return kept | {"content": "".join(parts)}


def _print_message(out: Terminal, message: Json, text: str, session: str | None = None) -> None:
    """A heading with who, when and where; below it what was said, set in."""
    role = message["role"]
    heading = [
        out.styled(local_time(message["timestamp"]), Style.FAINT),
        out.styled(role, _STYLES[role]),
        *([] if session is None else [out.styled(safe_line(session), Style.STRONG)]),
        *(f"#{safe_line(tag)}" for tag in message["metadata"].get("tags", [])),
        out.styled(message["message_id"], Style.FAINT),
    ]
    print("  ".join(heading))
    for line in safe_text(text).split("\n"):
        print(f"{_INDENT}{line}".rstrip())
    print()


def _print_list(
    out: Terminal,
    pages: Iterator[list[Json]],
    styles: Styles,
    row: Callable[[Json], Row] | None,
) -> bool:
    """Items as rows, aligned page by page, or as JSON where there is no row; False for no item."""
    found = False
    for page in pages:
        found = found or bool(page)
        if row is None:
            _print_lines(page)
        else:
            _print_table(out, [row(item) for item in page], styles)
    return found


def _print_table(out: Terminal, rows: list[Row], styles: Styles) -> None:
    for line in out.table(rows, styles):
        print(line)


def _print_lines(values: list[Json]) -> None:
    """Each as one line of JSON in printable ASCII, which every console can show."""
    for value in values:
        print(json.dumps(value).replace("\x7f", "\\u007f"))


def _say(sentence: str) -> None:
    """A sentence about the answer. It goes where it cannot be taken for a part of it."""
    print(sentence, file=sys.stderr)


_COMMANDS: dict[str, Callable[[Memory, argparse.Namespace, Terminal], None]] = {
    "sessions": _sessions,
    "show": _show,
    "search": _search,
    "facts": _facts,
    "history": _history,
    "stats": _stats,
    "rebuild": _rebuild,
}
