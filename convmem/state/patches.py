"""Where the changes of updated messages stand in the log.

A message is its PUT record and the updates after it. Of those only the ones count that hold
the newest value of some field, so a message has at most as many as it has fields, however
often it was updated.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.errors import InvalidRecord
from convmem.records import CHANGEABLE, Place, UpdateMessage

_SAVED: dict[str, Any] = {
    "row": np.uint32,
    "fields": np.uint16,
    "frame_offset": np.uint64,
    "frame_start": np.uint32,
}
_BITS = {name: 1 << bit for bit, name in enumerate(CHANGEABLE)}
_PATCH_BYTES = 200  # tuple, Place, two integers: what one costs in Python, roughly


class PatchTable:
    """The updates that count, by row, oldest first."""

    def __init__(self) -> None:
        self._patches: dict[int, tuple[tuple[int, Place], ...]] = {}

    def __len__(self) -> int:
        """Messages that were updated."""
        return len(self._patches)

    def places(self, row: int) -> tuple[Place, ...]:
        """Where the updates of a row stand, oldest first."""
        return tuple(place for _, place in self._patches.get(row, ()))

    def add(self, row: int, update: UpdateMessage, place: Place) -> None:
        """Note an update; those that it covers whole count no more."""
        fields = sum(_BITS[name] for name in update.changes)
        earlier = ((held & ~fields, at) for held, at in self._patches.get(row, ()))
        self._patches[row] = (*((held, at) for held, at in earlier if held), (fields, place))

    def drop(self, row: int) -> None:
        """Forget the updates of a row."""
        self._patches.pop(row, None)

    def save(self) -> Mapping[str, NDArray[Any]]:
        """The table as columns, for a snapshot."""
        rows = [
            (row, fields, place.frame_offset, place.start)
            for row, patches in self._patches.items()
            for fields, place in patches
        ]
        columns = zip(*rows, strict=True) if rows else ((),) * len(_SAVED)
        return {
            name: np.array(column, kind)
            for (name, kind), column in zip(_SAVED.items(), columns, strict=True)
        }

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot. Raises InvalidRecord if they do not fit together."""
        try:
            columns = [np.frombuffer(saved[name], kind).tolist() for name, kind in _SAVED.items()]
            self._patches = {}
            for row, fields, frame_offset, start in zip(*columns, strict=True):
                patch = (fields, Place(frame_offset, start))
                self._patches[row] = (*self._patches.get(row, ()), patch)
        except (KeyError, ValueError) as error:
            raise InvalidRecord(f"the patches do not fit together: {error}") from error

    def memory_bytes(self) -> int:
        """What the table occupies, roughly."""
        return self._patches.__sizeof__() + _PATCH_BYTES * sum(map(len, self._patches.values()))
