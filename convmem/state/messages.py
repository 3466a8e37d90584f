"""The message table: one row a message, in the order of writing, in numpy columns.

A row holds what filters, orders and finds: labels, times and the place of the body in the
log. Text stays on disk. Rows are only ever added; row numbers are the order of writing, and
a deleted message keeps its row until the log is compacted.
"""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.message import KINDS, ROLES, TIERS, Message
from convmem.records import Place, UpdateMessage
from convmem.state.columns import Columns
from convmem.state.id_table import IdTable

COLUMNS: dict[str, Any] = {
    "id_high": np.uint64,  # the id as two big-endian halves
    "id_low": np.uint64,
    "timestamp": np.int64,  # UTC milliseconds
    "updated_at": np.int64,
    "frame_offset": np.uint64,  # where the frame with the PUT record stands in the log
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
DELETED = 1
HAS_SUMMARY = 2
TIER_CODES = {None: 0} | {tier: code for code, tier in enumerate(TIERS, start=1)}
_ROLE_CODES = {role: code for code, role in enumerate(ROLES)}
_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
_HALVES = struct.Struct(">QQ")


class MessageTable:
    """Rows by number and by id. Columns are read through ``column``."""

    def __init__(self) -> None:
        self._columns = Columns(COLUMNS)
        self._ids = IdTable()
        self.deleted = 0

    def __len__(self) -> int:
        """Rows, those of deleted messages included."""
        return len(self._columns)

    def row(self, message_id: bytes) -> int | None:
        """The row of a message, deleted or not; None for an id that the store never held."""
        return self._ids.row(message_id, self._columns["id_high"], self._columns["id_low"])

    def live_row(self, message_id: bytes) -> int | None:
        """The row of a message that is there, None for one that is not."""
        row = self.row(message_id)
        return None if row is None or self.is_deleted(row) else row

    def is_deleted(self, row: int) -> bool:
        return bool(self._columns["flags"][row] & DELETED)

    def id(self, row: int) -> bytes:
        high, low = self._columns["id_high"][row], self._columns["id_low"][row]
        return _HALVES.pack(int(high), int(low))

    def place(self, row: int) -> Place:
        """Where the PUT record of a row stands in the log."""
        columns = self._columns
        return Place(int(columns["frame_offset"][row]), int(columns["frame_start"][row]))

    def revision(self, row: int) -> int:
        return int(self._columns["revision"][row])

    def column(self, name: str) -> NDArray[Any]:
        """All values of one column, in row order. A view: valid until the next ``append``."""
        return self._columns[name]

    def live(self, rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Those of the rows whose message is not deleted."""
        there: NDArray[np.bool_] = self._columns["flags"][rows] & DELETED == 0
        return rows[there]

    def append(self, message: Message, session: int, place: Place) -> int:
        """Add a row; its number. The id must be new: the caller has looked."""
        metadata = message.metadata
        row = self._columns.append(
            *_HALVES.unpack(message.message_id),
            message.timestamp,
            message.updated_at,
            place.frame_offset,
            place.start,
            len(message.content.encode()),
            message.revision,
            session,
            _ROLE_CODES[message.role],
            TIER_CODES[metadata.memory_tier],
            _KIND_CODES[metadata.memory_kind],
            metadata.importance,
            _summary_flag(metadata.summary),
        )
        self._ids.add(message.message_id, row)
        if self._ids.is_crowded:
            self._ids.settle(self._columns["id_high"], self._columns["id_low"])
        return row

    def update(self, row: int, update: UpdateMessage) -> None:
        """Take over what changed of a message; its identity and place stay."""
        columns = self._columns
        columns["updated_at"][row] = update.updated_at
        columns["revision"][row] = update.revision
        for name, value in update.changes.items():
            match name:
                case "content":
                    columns["content_bytes"][row] = len(value.encode())
                case "memory_tier":
                    columns["tier"][row] = TIER_CODES[value]
                case "memory_kind":
                    columns["kind"][row] = _KIND_CODES[value]
                case "importance":
                    columns["importance"][row] = value
                case "summary":
                    columns["flags"][row] = _summary_flag(value)
                case _:
                    pass  # read from the body when it is wanted

    def delete(self, row: int) -> None:
        self._columns["flags"][row] |= DELETED
        self.deleted += 1

    def save(self) -> Mapping[str, NDArray[Any]]:
        """The columns, for a snapshot."""
        return self._columns.save()

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot. Raises InvalidRecord if they do not fit together."""
        self._columns.restore(saved)
        self._ids.settle(self._columns["id_high"], self._columns["id_low"])
        self.deleted = int(np.count_nonzero(self._columns["flags"] & DELETED))

    def memory_bytes(self) -> int:
        """What the table occupies, as allocated."""
        return self._columns.memory_bytes() + self._ids.memory_bytes()


def _summary_flag(summary: str | None) -> int:
    return 0 if summary is None else HAS_SUMMARY
