"""The search index over facts: value and key of each, behind the state by what changed last.

As ``indexer`` does for messages, it notes changes in no time and indexes them later, a few right
before a search, many in a thread. It is small, and made anew at each start instead of saved. The
same engine ranks them, each fact alone: what stands next to it says nothing.
"""

from collections.abc import Callable

import numpy as np

from convmem.errors import InvalidRecord
from convmem.records import DeleteFact, Record, SetFact
from convmem.search import Columns, Document, Found, SearchIndex
from convmem.semantic import Meaning
from convmem.state import State
from convmem.storage import StorageError

AT_ONCE_FACTS = 256


class FactIndex:
    """A search index that follows the facts of a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._index = SearchIndex()
        self._keys: list[str] = []  # by row
        self._rows: dict[str, int] = {}
        self._changed: set[str] | None = None  # None: nothing was indexed yet
        self.failure: str | None = None

    def follow(self, record: Record) -> None:
        """Note what was applied to the state."""
        match record:
            case SetFact(fact=fact) if self._changed is not None:
                self._changed.add(fact.key)
            case DeleteFact(key=key) if self._changed is not None:
                self._changed.add(key)

    @property
    def backlog(self) -> int:
        """Facts that are not indexed as they are now."""
        if self.failure is not None:
            return 0
        return self._state.facts.live if self._changed is None else len(self._changed)

    @property
    def is_far_behind(self) -> bool:
        """Whether catching up is too much to do on the way."""
        return self.backlog > AT_ONCE_FACTS

    def catch_up(self) -> Callable[[], None]:
        """Take what was noted; what is returned indexes it, in any thread, and is to be called.

        It does not raise: after a mistake of ours there is no index, and ``failure`` says why.
        """
        noted, self._changed = self._changed, set()
        changed = [history.key for history in self._state.facts] if noted is None else list(noted)

        def work() -> None:
            try:
                self._take_in(changed)
            except Exception as error:
                self.failure = f"the index of facts was given up after a mistake ({error!r})"
                self._index = SearchIndex()

        return work

    def find(
        self, query: str, prefix: str, limit: int, meaning: Meaning
    ) -> tuple[Found, list[str]]:
        """The best facts whose key begins so, and the key of every row of what was found."""
        rows = len(self._keys)
        allowed = np.ones(rows, bool)
        if prefix:
            allowed = np.fromiter((key.startswith(prefix) for key in self._keys), bool, rows)
        numbers = np.arange(rows)
        columns = Columns(
            sessions=numbers.astype(np.uint32),
            importance=np.zeros(rows, np.uint8),
            timestamps=np.zeros(rows, np.int64),
            content_bytes=np.ones(rows, np.uint32),
            ids=(np.zeros(rows, np.uint64), numbers.astype(np.uint64)),
        )
        found = self._index.find(
            query,
            columns=columns,
            allowed=allowed,
            limit=limit,
            read=self._document,
            cosines=meaning.of_facts(self._keys),
            by_words=meaning.by_words,
        )
        return found, self._keys

    def memory_bytes(self) -> int:
        """What the index occupies, roughly."""
        return self._index.memory_bytes()

    def _take_in(self, changed: list[str]) -> None:
        new = [key for key in changed if key not in self._rows]
        first = len(self._keys)
        self._rows |= {key: row for row, key in enumerate(new, start=first)}
        self._keys += new
        alone = np.arange(first, len(self._keys), dtype=np.uint32)
        self._index.extend(alone, np.ones(len(alone), bool))
        rows = [self._rows[key] for key in changed]
        self._index.remove_texts(rows)
        documents = [document for row in rows if (document := self._readable(row)) is not None]
        self._index.add(documents)

    def _readable(self, row: int) -> Document | None:
        """The texts of a row; None for a key without a value, or whose record cannot be read."""
        try:
            return self._document(row) if self._state.fact(self._keys[row]) else None
        except (InvalidRecord, StorageError):
            return None

    def _document(self, row: int) -> Document:
        fact = self._state.fact(self._keys[row])
        return Document(row, fact.value if fact else "", self._keys[row])
