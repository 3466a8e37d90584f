"""From a message id to its row, in next to no memory.

Ids are given out in ascending order, so the id columns are sorted already, but for ids that
callers brought along. Settled rows are found by binary search in the columns themselves,
through a permutation only where they are out of order; rows since then lie in a dict, and
are settled when they have become many.
"""

import numpy as np
from numpy.typing import NDArray

from convmem.limits import IDS_UNSETTLED_MAX

Halves = NDArray[np.uint64]

_HALF_BYTES = 8


class IdTable:
    """The rows of ids; the ids themselves are the caller's two columns, high and low half."""

    def __init__(self) -> None:
        self._recent: dict[bytes, int] = {}
        self._settled = 0
        self._order: NDArray[np.uint32] | None = None  # None: as they stand

    def row(self, message_id: bytes, high: Halves, low: Halves) -> int | None:
        """The row of an id, None if it has none. The columns are those of all rows."""
        row = self._recent.get(message_id)
        return self._search(message_id, high, low) if row is None else row

    def add(self, message_id: bytes, row: int) -> None:
        """Note a new id. Rows are noted in the order of their numbers, without a gap."""
        self._recent[message_id] = row

    @property
    def is_crowded(self) -> bool:
        """Whether it is time to ``settle``."""
        return len(self._recent) > IDS_UNSETTLED_MAX

    def settle(self, high: Halves, low: Halves) -> None:
        """Make every row findable by search, and forget the dict."""
        ascends = (high[:-1] < high[1:]) | ((high[:-1] == high[1:]) & (low[:-1] < low[1:]))
        self._order = None if ascends.all() else np.lexsort((low, high)).astype(np.uint32)
        self._settled = len(high)
        self._recent.clear()

    def memory_bytes(self) -> int:
        """What the table occupies, as allocated."""
        ids = len(self._recent) * bytes(2 * _HALF_BYTES).__sizeof__()
        order = 0 if self._order is None else self._order.nbytes
        return self._recent.__sizeof__() + ids + order

    def _search(self, message_id: bytes, high: Halves, low: Halves) -> int | None:
        wanted_high = np.uint64(int.from_bytes(message_id[:_HALF_BYTES], "big"))
        wanted_low = np.uint64(int.from_bytes(message_id[_HALF_BYTES:], "big"))
        high = high[: self._settled]
        first = int(high.searchsorted(wanted_high, "left", self._order))
        last = int(high.searchsorted(wanted_high, "right", self._order))
        rows = np.arange(first, last) if self._order is None else self._order[first:last]
        place = int(low[rows].searchsorted(wanted_low))
        if place == len(rows) or low[rows[place]] != wanted_low:
            return None
        return int(rows[place])
