"""Who points to whom: relations and sources, findable from their target.

One row a link, from a message's row to an id; the type of a relation stands in the body of
the message it comes from. A target may be gone, or written later: it is kept as an id.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.state.columns import Columns

COLUMNS: dict[str, Any] = {
    "source": np.uint32,  # row of the message that holds the link
    "kind": np.uint8,
    "target_high": np.uint64,  # id of the message it points to, as two halves
    "target_low": np.uint64,
}
NO_ROW = 0xFFFF_FFFF
_HALF_BYTES = 8


class LinkKind(IntEnum):
    """Which field of the message holds the link."""

    RELATION = 0
    SOURCE = 1


class LinkTable:
    """All links of the store, those of deleted messages left out."""

    def __init__(self) -> None:
        self._columns = Columns(COLUMNS)

    def add(self, source: int, kind: LinkKind, targets: Iterable[bytes]) -> None:
        """Note links that a message holds."""
        for target in targets:
            high = int.from_bytes(target[:_HALF_BYTES], "big")
            low = int.from_bytes(target[_HALF_BYTES:], "big")
            self._columns.append(source, kind, high, low)

    def drop(self, source: int, kind: LinkKind) -> None:
        """Forget links that a message holds. Their rows go when the log is compacted.

        A scan: 0.6 ms at a million links, less than the flush of the record that asks for it.
        """
        sources = self._columns["source"]
        sources[(sources == source) & (self._columns["kind"] == kind)] = NO_ROW

    def sources(self, target: bytes) -> list[int]:
        """The rows of the messages that point to an id, each once, oldest first."""
        high = np.uint64(int.from_bytes(target[:_HALF_BYTES], "big"))
        low = np.uint64(int.from_bytes(target[_HALF_BYTES:], "big"))
        columns = self._columns
        found = (columns["target_low"] == low) & (columns["target_high"] == high)
        return sorted(set(columns["source"][found].tolist()) - {NO_ROW})

    def targets(self) -> set[bytes]:
        """The ids that anything points to."""
        columns = self._columns
        held = columns["source"] != NO_ROW
        halves = zip(
            columns["target_high"][held].tolist(), columns["target_low"][held].tolist(), strict=True
        )
        return {
            high.to_bytes(_HALF_BYTES, "big") + low.to_bytes(_HALF_BYTES, "big")
            for high, low in halves
        }

    def save(self) -> Mapping[str, NDArray[Any]]:
        """The columns, for a snapshot."""
        return self._columns.save()

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot. Raises InvalidRecord if they do not fit together."""
        self._columns.restore(saved)

    def memory_bytes(self) -> int:
        """What the table occupies, as allocated."""
        return self._columns.memory_bytes()
