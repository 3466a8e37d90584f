"""The message table: one row a message, in the order of writing, in numpy columns.

A row holds what filters, orders and finds: labels, times and the place of the body in the
log. Text stays on disk. Rows are only ever added; row numbers are the order of writing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.ids import NO_ID
from convmem.message import KINDS, ROLES, TIERS, Message
from convmem.records import Place

COLUMNS: dict[str, Any] = {
    "timestamp": np.int64,  # UTC milliseconds
    "updated_at": np.int64,
    "frame_offset": np.uint64,  # where the frame with the body stands in the log
    "frame_start": np.uint32,  # and where in that frame's payload the record does
    "content_bytes": np.uint32,
    "revision": np.uint32,
    "session": np.uint32,  # place in the session table
    "role": np.uint8,  # codes as in the log
    "tier": np.uint8,
    "kind": np.uint8,
    "importance": np.uint8,
    "flags": np.uint8,
}
FLAG_SUMMARY = 1  # has a summary field
_TIER_CODES = {None: 0} | {tier: code for code, tier in enumerate(TIERS, start=1)}
_ROWS_AT_FIRST = 1024


class MessageTable:
    """Rows by number and by id. Columns are read through ``column``."""

    def __init__(self) -> None:
        self._columns = {name: np.zeros(_ROWS_AT_FIRST, kind) for name, kind in COLUMNS.items()}
        self._ids: list[bytes] = []
        self._rows: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def row(self, message_id: bytes) -> int | None:
        """The row of a message, None for an id that the store does not hold."""
        return self._rows.get(message_id)

    def id(self, row: int) -> bytes:
        return self._ids[row]

    def place(self, row: int) -> Place:
        """Where the body of a row stands in the log."""
        columns = self._columns
        return Place(int(columns["frame_offset"][row]), int(columns["frame_start"][row]))

    def column(self, name: str) -> NDArray[Any]:
        """All values of one column, in row order. A view: valid until the next ``append``."""
        return self._columns[name][: len(self._ids)]

    def append(self, message: Message, session: int, place: Place) -> int:
        """Add a row; its number. The id must be new: the caller has looked."""
        row = len(self._ids)
        if row == len(self._columns["flags"]):
            self._columns = {
                name: np.concatenate((column, np.zeros_like(column)))
                for name, column in self._columns.items()
            }
        metadata = message.metadata
        columns = self._columns
        columns["timestamp"][row] = message.timestamp
        columns["updated_at"][row] = message.updated_at
        columns["frame_offset"][row] = place.frame_offset
        columns["frame_start"][row] = place.start
        columns["content_bytes"][row] = len(message.content.encode())
        columns["revision"][row] = message.revision
        columns["session"][row] = session
        columns["role"][row] = ROLES.index(message.role)
        columns["tier"][row] = _TIER_CODES[metadata.memory_tier]
        columns["kind"][row] = KINDS.index(metadata.memory_kind)
        columns["importance"][row] = metadata.importance
        columns["flags"][row] = FLAG_SUMMARY if metadata.summary is not None else 0
        self._ids.append(message.message_id)
        self._rows[message.message_id] = row
        return row

    def memory_bytes(self) -> int:
        """What the table occupies, as allocated: columns, ids and the way from id to row."""
        columns = sum(column.nbytes for column in self._columns.values())
        id_objects = len(self._ids) * NO_ID.__sizeof__()
        return columns + id_objects + self._ids.__sizeof__() + self._rows.__sizeof__()
