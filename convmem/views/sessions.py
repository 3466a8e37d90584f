"""The view of sessions: one line each, most recently written first; and their names alone."""

from collections.abc import Iterator
from itertools import islice

from convmem import cursors
from convmem.operations import JsonObject, ListSessionIds, ReadSessions
from convmem.pages import Page, excerpt
from convmem.state import State
from convmem.state.overview import SessionOverview, newest_first, overview
from convmem.views.rows import anchor_row


def sessions(state: State, query: ReadSessions) -> JsonObject:
    """The sessions by their newest message as of the first page: later writes move none of them.

    The cursor therefore carries two anchors: the newest message of all that are listed, and
    the newest message (of then) of the last session on the page.
    """
    prefix = query.prefix or ""
    scope = f"sessions {prefix}"
    end = before = len(state.messages)
    if query.cursor is not None:
        newest, last = cursors.decode(query.cursor, scope)
        end, before = anchor_row(state, newest) + 1, anchor_row(state, last)
    page: Page[JsonObject] = Page(query.max_bytes, query.limit)
    reply: JsonObject = {"view": "sessions", "sessions": page.items}
    for session, row in _listed(state, end, before, prefix):
        if query.cursor is None and not page.items:
            end = row + 1
        if page.full or not page.add(_session_item(state, session)):
            newest, last = state.messages.id(end - 1), state.messages.id(before)
            reply["next_cursor"] = cursors.encode(scope, newest, last)
            break
        before = row
    return reply


def session_ids(state: State, query: ListSessionIds) -> JsonObject:
    """The names of sessions, in the order of the view."""
    everything = len(state.messages)
    listed = islice(_listed(state, everything, everything, query.prefix), query.limit)
    return {"session_ids": [state.sessions.name(session) for session, _ in listed]}


def _listed(state: State, end: int, before: int, prefix: str) -> Iterator[tuple[int, int]]:
    """Sessions of a prefix with their newest row, as ``newest_first`` has them."""
    return (
        (session, row)
        for session, row in newest_first(state.messages, len(state.sessions), end, before)
        if state.sessions.name(session).startswith(prefix)
    )


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
