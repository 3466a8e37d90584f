"""The view of sessions: one line each, most recently written first."""

from convmem import cursors
from convmem.operations import JsonObject, ReadSessions
from convmem.pages import Page, excerpt
from convmem.state import State
from convmem.state.overview import SessionOverview, live_messages, newest_rows, overview
from convmem.views.rows import anchor_row


def sessions(state: State, query: ReadSessions) -> JsonObject:
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
        end, before = anchor_row(state, newest) + 1, anchor_row(state, last)
    newest_row = newest_rows(messages, len(sessions), end)
    live = live_messages(messages, len(sessions))
    listed = [
        session
        for session in newest_row.argsort()[::-1].tolist()
        if 0 <= newest_row[session] < before
        and live[session]
        and sessions.name(session).startswith(prefix)
    ]
    page: Page[JsonObject] = Page(query.max_bytes, query.limit)
    for session in listed:
        if page.full or not page.add(_session_item(state, session)):
            break
    reply: JsonObject = {"view": "sessions", "sessions": page.items}
    if len(page.items) < len(listed):
        last_row = int(newest_row[listed[len(page.items) - 1]])
        reply["next_cursor"] = cursors.encode(scope, messages.id(end - 1), messages.id(last_row))
    return reply


def _session_item(state: State, session: int) -> JsonObject:
    seen = overview(state.messages, state.live_rows_of(state.sessions.name(session)))
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
