"""The views of messages: a session's history in pages, one message's content in windows."""

from convmem import cursors, ids
from convmem.errors import Code, Refusal
from convmem.operations import JsonObject, ReadContent, ReadHistory
from convmem.pages import Page, add_message
from convmem.state import State
from convmem.views.rows import anchor_row, found_row


def history(state: State, query: ReadHistory) -> JsonObject:
    """The messages of a session, after the cursor. Rows of deleted messages may be anchors."""
    rows = state.live_rows_of(query.session_id)
    if not len(rows) and query.cursor is None:
        raise Refusal(
            Code.NOT_FOUND,
            f"session_id: there is no message in session {query.session_id!r}; "
            "view 'sessions' lists the sessions there are",
        )
    scope = f"history {query.order} {query.session_id}"
    oldest_first = query.order == "oldest_first"
    if query.cursor is not None:
        anchor, _ = cursors.decode(query.cursor, scope)
        row = anchor_row(state, anchor)
        rows = rows[rows > row] if oldest_first else rows[rows < row]
    if not oldest_first:
        rows = rows[::-1]
    page: Page[JsonObject] = Page(query.max_bytes, query.limit)
    for row in rows:
        if page.full or not add_message(page, state.message(int(row))):
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


def content(state: State, query: ReadContent) -> JsonObject:
    """A window of a message's content, from and to a code point."""
    message = state.message(found_row(state, query.message_id))
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
