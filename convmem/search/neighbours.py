"""Who stands next to whom in a session: a doubly linked list of rows, in arrays.

Rows are added in the order of writing; a row that goes is bridged. ``NONE`` ends a list, and
as an index it means the last place of an array: arrays looked up with it have one place more
than there are rows, which holds nothing.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

NONE = -1

Rows = NDArray[np.int32]


class Neighbours:
    """The rows before and after each row, of those that were added and not removed."""

    def __init__(self) -> None:
        self.before: Rows = np.full(1, NONE, np.int32)
        self.after: Rows = np.full(1, NONE, np.int32)
        self._newest: Rows = np.zeros(0, np.int32)  # of each session

    def __len__(self) -> int:
        """Rows, the removed ones included."""
        return len(self.before) - 1

    def extend(self, sessions: NDArray[np.uint32], present: NDArray[np.bool_]) -> None:
        """Add rows, in order: the session of each, and whether its message is there."""
        first = len(self)
        room = np.full(len(sessions), NONE, np.int32)
        self.before = np.concatenate((self.before[:-1], room, self.before[-1:]))
        self.after = np.concatenate((self.after[:-1], room, self.after[-1:]))
        more = max(0, int(sessions.max(initial=0)) + 1 - len(self._newest))
        self._newest = np.concatenate((self._newest, np.full(more, NONE, np.int32)))
        there = np.flatnonzero(present)
        if not len(there):
            return
        rows = there[sessions[there].argsort(kind="stable")]
        ordered = sessions[rows]
        rows = (rows + first).astype(np.int32)
        starts = np.append(True, ordered[1:] != ordered[:-1])
        self.before[rows[1:]] = rows[:-1]
        self.before[rows[starts]] = self._newest[ordered[starts]]
        linked = rows[self.before[rows] != NONE]
        self.after[self.before[linked]] = linked
        ends = np.append(starts[1:], True)
        self._newest[ordered[ends]] = rows[ends]

    def remove(self, rows: Collection[int], sessions: NDArray[np.uint32]) -> None:
        """Take rows out; ``sessions`` is the session of every row."""
        for row in rows:
            before, after = int(self.before[row]), int(self.after[row])
            if after != NONE:
                self.before[after] = before
            else:
                self._newest[sessions[row]] = before
            if before != NONE:
                self.after[before] = after
            self.before[row] = self.after[row] = NONE

    def memory_bytes(self) -> int:
        """What the list occupies."""
        return self.before.nbytes + self.after.nbytes + self._newest.nbytes
