"""The session table: names, and the rows of each session in the order of writing.

What a session looks like (counts, kinds, summary, times) is derived from the message columns
when someone asks; nothing here has to be kept in step with an update or a delete.
"""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.errors import InvalidRecord

# In a snapshot: names as UTF-8 with a NUL after each (no name holds one), the rows session
# after session, and where the rows of each session begin, the end included.
_SAVED: dict[str, Any] = {"names": np.uint8, "rows": np.uint32, "starts": np.uint32}


class SessionTable:
    """Sessions by name, numbered in the order of first writing."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._restored_rows = np.zeros(0, np.uint32)
        self._restored_starts = np.zeros(1, np.uint32)
        self._recent: dict[int, array[int]] = {}  # rows since then

    def __len__(self) -> int:
        return len(self._names)

    def name(self, session: int) -> str:
        return self._names[session]

    def rows(self, name: str) -> NDArray[np.uint32]:
        """The rows of a session, those of deleted messages included, oldest first: uint32."""
        session = self._numbers.get(name, -1)
        recent = np.array(self._recent.get(session, ()), dtype=np.uint32)
        if not 0 <= session < len(self._restored_starts) - 1:
            return recent
        first, last = self._restored_starts[session : session + 2]
        return np.concatenate((self._restored_rows[first:last], recent))

    def append(self, name: str, row: int) -> int:
        """Note that a row belongs to a session, a new one for a new name; its number."""
        session = self._numbers.setdefault(name, len(self._names))
        if session == len(self._names):
            self._names.append(name)
        if session not in self._recent:
            self._recent[session] = array("I")
        self._recent[session].append(row)
        return session

    def save(self) -> Mapping[str, NDArray[Any]]:
        """The table as columns, for a snapshot."""
        rows = [self.rows(name) for name in self._names]
        return {
            "names": np.frombuffer("".join(f"{name}\0" for name in self._names).encode(), np.uint8),
            "rows": np.concatenate([*rows, np.zeros(0, np.uint32)]),
            "starts": np.cumsum([0, *map(len, rows)], dtype=np.uint32),
        }

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot. Raises InvalidRecord if they do not fit together."""
        try:
            self._names = bytes(saved["names"]).decode().split("\0")[:-1]
            self._restored_rows = np.frombuffer(saved["rows"], np.uint32).copy()
            self._restored_starts = np.frombuffer(saved["starts"], np.uint32).copy()
        except (KeyError, ValueError) as error:
            raise InvalidRecord(f"the sessions do not fit together: {error}") from error
        if len(self._restored_starts) != len(self._names) + 1:
            raise InvalidRecord("session names and rows of different number")
        self._numbers = {name: session for session, name in enumerate(self._names)}

    def memory_bytes(self) -> int:
        """What the table occupies, as allocated."""
        names = sum(name.__sizeof__() for name in self._names)
        recent = sum(rows.__sizeof__() for rows in self._recent.values())
        restored = self._restored_rows.nbytes + self._restored_starts.nbytes
        indexes = self._names.__sizeof__() + self._numbers.__sizeof__() + self._recent.__sizeof__()
        return names + recent + restored + indexes
