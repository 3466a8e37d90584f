"""Cursors: where a page ended, as text that a caller hands back unread.

    cursor := base64url( version: u16   scope: u32   anchors: 2 x id of 16 bytes   crc: u32 )

Anchors are message ids, so a cursor survives writes, updates, deletes and restarts between two
pages. ``scope`` is a CRC-32 of the question it belongs to: a cursor of another session, order
or view is refused, never followed. The last CRC-32 tells a mistyped cursor from a real one.
"""

import base64
import struct
from zlib import crc32

from convmem.errors import Code, Refusal
from convmem.ids import NO_ID

_VERSION = 1
_CURSOR = struct.Struct("<HI16s16sI")  # 42 bytes: base64 of it has no spare bits
_CHECKED_BYTES = _CURSOR.size - 4


def encode(scope: str, anchor: bytes, second: bytes = NO_ID) -> str:
    """The cursor for what follows ``anchor`` in the question that ``scope`` describes."""
    body = _CURSOR.pack(_VERSION, crc32(scope.encode()), anchor, second, 0)[:_CHECKED_BYTES]
    return base64.urlsafe_b64encode(body + crc32(body).to_bytes(4, "little")).decode()


def decode(cursor: str, scope: str) -> tuple[bytes, bytes]:
    """The two anchors of a cursor. Raises Refusal (INVALID_ARGUMENT) if it is not one of ours."""
    try:
        data = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        version, scope_crc, anchor, second, crc = _CURSOR.unpack(data)
    except (ValueError, struct.error):  # not Unicode, not base64, or of another size
        raise _not_ours("it is mistyped or cut") from None
    if version != _VERSION or crc != crc32(data[:_CHECKED_BYTES]):
        raise _not_ours("it is mistyped or from another version")
    if scope_crc != crc32(scope.encode()):
        raise _not_ours("it belongs to a request with other arguments")
    return anchor, second


def stale() -> Refusal:
    """The refusal for a cursor whose anchor the store no longer holds."""
    return Refusal(
        Code.STALE_CURSOR,
        "cursor: the message it stands at is gone from the store; read again without a cursor",
    )


def _not_ours(reason: str) -> Refusal:
    return Refusal(
        Code.INVALID_ARGUMENT,
        f"cursor: {reason}; pass next_cursor back unchanged, with the same other arguments",
    )
