"""Numpy columns of one length that grow together, and how they lie in a snapshot.

Restored columns are copies: nothing of a snapshot is kept open, and rows are of one kind.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.errors import InvalidRecord

_ROWS_AT_FIRST = 256


class Columns:
    """Rows of named columns; ``kinds`` maps each name to its numpy dtype, in a fixed order."""

    def __init__(self, kinds: Mapping[str, Any]) -> None:
        self._kinds = dict(kinds)
        self._take({name: np.zeros(_ROWS_AT_FIRST, kind) for name, kind in self._kinds.items()})
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, name: str) -> NDArray[Any]:
        """All values of a column, shape (rows,). Writable; valid until the next ``append``."""
        return self._arrays[name][: self._rows]

    def append(self, *values: Any) -> int:
        """Add a row, one value a column in the order of ``kinds``; its number."""
        row = self._rows
        if row == self._room:
            self._grow()
        for view, value in zip(self._views, values, strict=True):
            view[row] = value
        self._rows = row + 1
        return row

    def save(self) -> dict[str, NDArray[Any]]:
        """The columns by name, for a snapshot: copies, so that writes may go on."""
        return {name: self[name].copy() for name in self._kinds}

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot. Raises InvalidRecord if they do not fit together."""
        try:
            arrays = {name: np.frombuffer(saved[name], kind) for name, kind in self._kinds.items()}
        except (KeyError, ValueError) as error:
            raise InvalidRecord(f"a column is missing or of another size: {error}") from error
        if len({len(array) for array in arrays.values()}) > 1:
            raise InvalidRecord("columns of different length")
        self._take(arrays)
        self._grow()

    def memory_bytes(self) -> int:
        """What the columns occupy, as allocated."""
        return sum(array.nbytes for array in self._arrays.values())

    def _grow(self) -> None:
        rows = self._rows
        room = rows + max(_ROWS_AT_FIRST, rows // 2)
        grown = {name: np.zeros(room, array.dtype) for name, array in self._arrays.items()}
        for name, array in grown.items():
            array[:rows] = self._arrays[name][:rows]  # the rest takes no memory until it is used
        self._take(grown)
        self._rows = rows

    def _take(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        # Setting one element through a memoryview takes half the time it takes through numpy.
        self._views = tuple(array.data for array in arrays.values())
        self._rows = self._room = len(self._views[0])
