"""The view of everything: lines of JSON in pages, a manifest first, then message after message.

The lines are those of an export file. A message larger than the reply's budget is marked
``content_truncated`` (and ``metadata_truncated``, if need be): ask with a larger ``max_bytes``,
or read it with view ``content``.
"""

import json

from convmem import cursors
from convmem.ids import NO_ID
from convmem.message import Message
from convmem.operations import JsonObject, ReadExport
from convmem.pages import Page, message_item
from convmem.state import State
from convmem.views.rows import anchor_row

FORMAT = "convmem"
VERSION = 1
_SCOPE = "export"


def export(state: State, query: ReadExport) -> JsonObject:
    """The lines after the cursor; without one, the manifest and the first messages."""
    page: Page[str] = Page(query.max_bytes, query.limit)
    last = -1
    if query.cursor is None:
        live = len(state.messages) - state.messages.deleted
        manifest = {"type": "manifest", "format": FORMAT, "version": VERSION, "messages": live}
        page.add(_line(manifest))
    else:
        anchor, _ = cursors.decode(query.cursor, _SCOPE)
        last = -1 if anchor == NO_ID else anchor_row(state, anchor)
    reply: JsonObject = {"view": "export", "lines": page.items}
    for row in state.live_rows(last + 1):
        if page.full or not _add(page, state.message(row)):
            anchor = NO_ID if last < 0 else state.messages.id(last)
            reply["next_cursor"] = cursors.encode(_SCOPE, anchor)
            break
        last = row
    return reply


def _add(page: Page[str], message: Message) -> bool:
    return page.add_detailed(
        lambda detail: _line({"type": "message"} | message_item(message, detail))
    )


def _line(record: JsonObject) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
