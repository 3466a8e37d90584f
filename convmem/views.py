"""From what is asked to what is known: the answers to queries. Nothing here changes anything."""

from typing import assert_never

from convmem import cursors, ids
from convmem.errors import Code, Refusal
from convmem.message import Message
from convmem.operations import JsonObject, ReadContent, ReadHistory, ReadSessions
from convmem.pages import Page, excerpt, message_item
from convmem.state import State
from convmem.state.overview import SessionOverview, newest_rows, overview

StateQuery = ReadHistory | ReadContent | ReadSessions


def answer(state: State, query: StateQuery) -> JsonObject:
    """The reply to a query. Raises Refusal: NOT_FOUND, CONFLICT, INVALID_ARGUMENT, STALE_CURSOR."""
    match query:
        case ReadHistory():
            return _history(state, query)
        case ReadContent():
            return _content(state, query)
        case ReadSessions():
            return _sessions(state, query)
        case _:
            assert_never(query)


def _history(state: State, query: ReadHistory) -> JsonObject:
    session = state.sessions.number(query.session_id)
    if session is None:
        raise Refusal(
            Code.NOT_FOUND,
            f"session_id: nothing was ever written to session {query.session_id!r}; "
            "view 'sessions' lists those there are",
        )
    scope = f"history {query.order} {query.session_id}"
    oldest_first = query.order == "oldest_first"
    rows = state.sessions.rows(session)
    if query.cursor is not None:
        anchor, _ = cursors.decode(query.cursor, scope)
        place = int(rows.searchsorted(_row_of_anchor(state, anchor)))
        rows = rows[place + 1 :] if oldest_first else rows[:place]
    if not oldest_first:
        rows = rows[::-1]
    page = Page(query.max_bytes, query.limit)
    for row in rows:
        if page.full or not _add_message(page, state.message(int(row))):
            break
    reply: JsonObject = {
        "view": "history",
        "session_id": query.session_id,
        "order": query.order,
        "messages": page.items,
    }
    if len(page.items) < len(rows):
        last = int(rows[len(page.items) - 1])
        reply["next_cursor"] = cursors.encode(scope, state.messages.id(last))
    return reply


def _add_message(page: Page, message: Message) -> bool:
    return page.add(message_item(message), lambda: message_item(message, whole=False))


def _content(state: State, query: ReadContent) -> JsonObject:
    message = _message(state, query.message_id)
    if query.expected_revision not in (None, message.revision):
        raise Refusal(
            Code.CONFLICT,
            f"expected_revision {query.expected_revision} is not the message's revision "
            f"{message.revision}; read it again from offset 0",
            current_revision=message.revision,
        )
    data = message.content.encode()
    end = _window_end(data, query.offset, query.limit)
    return {
        "view": "content",
        "message_id": ids.to_text(query.message_id),
        "revision": message.revision,
        "offset": query.offset,
        "content": data[query.offset : end].decode(),
        "next_offset": end,
        "total_bytes": len(data),
    }


def _window_end(data: bytes, offset: int, limit: int) -> int:
    """Where a window of ``limit`` bytes ends: at a code point, and after at least one."""
    if len(data) < offset or not _is_boundary(data, offset):
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"offset {offset} is not 0, a next_offset, or another boundary of a code point "
            f"within the content's {len(data)} bytes",
        )
    end = min(offset + limit, len(data))
    while offset < end and not _is_boundary(data, end):
        end -= 1
    if end == offset < len(data):
        end += 1
        while not _is_boundary(data, end):
            end += 1
    return end


def _is_boundary(data: bytes, offset: int) -> bool:
    """Whether a code point starts here: UTF-8 continues one with bytes of the form 10xxxxxx."""
    return offset == len(data) or data[offset] & 0xC0 != 0x80


def _sessions(state: State, query: ReadSessions) -> JsonObject:
    """The sessions by their newest message as of the first page: later writes move none of them.

    The cursor therefore carries two anchors: the newest message of the store when the first
    page was read, and the newest message (of then) of the last session listed.
    """
    messages, sessions = state.messages, state.sessions
    prefix = query.prefix or ""
    scope = f"sessions {prefix}"
    end, before = len(messages), len(messages)
    if query.cursor is not None:
        newest, last = cursors.decode(query.cursor, scope)
        end, before = _row_of_anchor(state, newest) + 1, _row_of_anchor(state, last)
    newest_row = newest_rows(messages, len(sessions), end)
    listed = [
        session
        for session in newest_row.argsort()[::-1].tolist()
        if 0 <= newest_row[session] < before and sessions.name(session).startswith(prefix)
    ]
    page = Page(query.max_bytes, query.limit)
    for session in listed:
        if page.full or not page.add(_session_item(state, session)):
            break
    reply: JsonObject = {"view": "sessions", "sessions": page.items}
    if len(page.items) < len(listed):
        last_row = int(newest_row[listed[len(page.items) - 1]])
        reply["next_cursor"] = cursors.encode(scope, messages.id(end - 1), messages.id(last_row))
    return reply


def _session_item(state: State, session: int) -> JsonObject:
    seen = overview(state.messages, state.sessions.rows(session))
    item: JsonObject = {
        "session_id": state.sessions.name(session),
        "messages": seen.messages,
        "kinds": seen.kinds,
        "first_timestamp": seen.first_timestamp,
        "last_timestamp": seen.last_timestamp,
    }
    return item | _representative(state, seen)


def _representative(state: State, seen: SessionOverview) -> JsonObject:
    """The few words that stand for a session, and what they were taken from."""
    if seen.newest_summary is not None:
        message = state.message(seen.newest_summary)
        return {"summary": excerpt(message.content), "summary_from": "summary_message"}
    if seen.newest_with_summary is not None:
        message = state.message(seen.newest_with_summary)
        return {"summary": excerpt(message.metadata.summary or ""), "summary_from": "summary_field"}
    if seen.first_user is not None:
        first_line = state.message(seen.first_user).content.strip().partition("\n")[0]
        return {"summary": excerpt(first_line.rstrip()), "summary_from": "first_user_message"}
    return {}


def _message(state: State, message_id: bytes) -> Message:
    row = state.messages.row(message_id)
    if row is None:
        raise Refusal(
            Code.NOT_FOUND,
            f"message_id: the store holds no message {ids.to_text(message_id)}",
        )
    return state.message(row)


def _row_of_anchor(state: State, anchor: bytes) -> int:
    row = state.messages.row(anchor)
    if row is None:
        raise cursors.stale()
    return row
