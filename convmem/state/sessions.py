"""The session table: names, and the rows of each session in the order of writing.

What a session looks like (counts, kinds, summary, times) is derived from the message columns
when someone asks; nothing here has to be kept in step with an update.
"""

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


class SessionTable:
    """Sessions by number and by name. Numbers are given in the order of first writing."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._rows: list[array[int]] = []

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._names)))

    def number(self, name: str) -> int | None:
        """The number of a session, None for a name that the store does not hold."""
        return self._numbers.get(name)

    def name(self, session: int) -> str:
        return self._names[session]

    def rows(self, session: int) -> NDArray[np.uint32]:
        """The message rows of a session, oldest first: a copy, shape (messages,), uint32."""
        return np.array(self._rows[session], dtype=np.uint32)

    def intern(self, name: str) -> int:
        """The number of a session, a new one for a new name."""
        session = self._numbers.setdefault(name, len(self._names))
        if session == len(self._names):
            self._names.append(name)
            self._rows.append(array("I"))
        return session

    def append(self, session: int, row: int) -> None:
        self._rows[session].append(row)

    def memory_bytes(self) -> int:
        """What the table occupies, as allocated."""
        names = sum(name.__sizeof__() for name in self._names)
        rows = sum(rows.__sizeof__() for rows in self._rows)
        return names + rows + self._names.__sizeof__() + self._numbers.__sizeof__()
