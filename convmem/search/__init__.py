"""Search over messages: a lexical index of their texts, and the ranking of what answers a query.

``SearchIndex`` is the door. It is derived from the messages and holds nothing that they do not:
it can be thrown away and made again, and ranks the same then. Pure: no files, clock or
threads; texts are handed in, or read through a function that is.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.search import saved
from convmem.search.excerpts import best_place, excerpt, telling_terms
from convmem.search.index import Document, Field, Index
from convmem.search.neighbours import Neighbours
from convmem.search.query import parse
from convmem.search.ranking import Columns, Hit, Ranker
from convmem.search.scoring import score_segments
from convmem.search.text import flat
from convmem.search.units import units

__all__ = ["Columns", "Document", "Field", "Found", "Hit", "SearchIndex"]

SAVED_COLUMNS = tuple(saved.KINDS)

# A few arrays of the scores of a million rows.
_WORKING_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Found:
    """The best answers to a query, how many there are, and what they were found by.

    ``searched`` is the number of messages that were allowed.
    """

    hits: list[Hit]
    total: int
    searched: int
    _needle: str
    _worth: Callable[[], Mapping[str, float]]

    def is_held_by(self, texts: Iterable[str]) -> bool:
        """Whether one of the texts holds the query as a whole, if it is not blank."""
        return bool(self._needle) and any(self._needle in flat(text) for text in texts)

    def excerpt(self, text: str, bytes_max: int) -> tuple[str, int]:
        """A text, or so many bytes of it around where it answers the query best.

        Beside it the bytes that stand before.
        """
        if len(text.encode()) <= bytes_max:
            return text, 0
        return excerpt(text, best_place(text, self._needle, self._worth()), bytes_max)


class SearchIndex:
    """All that searching needs to know of the messages; one row each, in the order of writing."""

    def __init__(self) -> None:
        self._index = Index()
        self._neighbours = Neighbours()
        _reuse_working_memory()

    def __len__(self) -> int:
        """Rows that have their place in a session: those of ``extend``."""
        return len(self._neighbours)

    def extend(self, sessions: NDArray[np.uint32], present: NDArray[np.bool_]) -> None:
        """Add rows: the session of each, and whether its message is there."""
        self._neighbours.extend(sessions, present)

    def add(self, documents: Sequence[Document]) -> None:
        """Index the texts of rows of which none are indexed."""
        self._index.add(documents)

    def remove_texts(self, rows: Collection[int]) -> None:
        """Forget the texts of rows, those that have none included."""
        self._index.remove(rows)

    def remove_rows(self, rows: Collection[int], sessions: NDArray[np.uint32]) -> None:
        """Take rows out of their sessions; ``sessions`` is the session of every row."""
        self._neighbours.remove(rows, sessions)

    def rows_with_tag(self, tag: str) -> NDArray[np.bool_]:
        """Which rows have a tag, exactly so."""
        return self._index.rows_with_tag(tag, len(self))

    def find(
        self,
        text: str,
        *,
        columns: Columns,
        allowed: NDArray[np.bool_],
        limit: int,
        read: Callable[[int], Document],
        cosines: NDArray[np.float32] | None = None,
        by_words: bool = True,
    ) -> Found:
        """The best of the allowed rows. ``read`` gives the texts of a row, to be sure of it.

        ``cosines`` tell of each row how near it is in meaning, NaN where nobody knows; without
        ``by_words`` nothing else counts.

        Of a query that nothing answers the symbols are left out: quotes around a part of a word,
        say, or the mark of a question.
        """
        ranker = Ranker(self._index, self._neighbours, columns, read)
        query = parse(text)
        wanted = units(self._index, query)
        scored = score_segments(self._index, wanted)
        ranking = ranker.rank(query, scored, allowed, limit, cosines, by_words)
        if not ranking.hits and query.symbols and query.bare.strip():
            return self.find(query.bare, columns=columns, allowed=allowed, limit=limit, read=read)
        # A thousand words, where the query has common ones; only a long text is cut by them.
        worth = cache(partial(telling_terms, self._index.lexicon, wanted, scored.rarities))
        searched = int(np.count_nonzero(allowed))
        return Found(ranking.hits, ranking.total, searched, query.needle, worth)

    def save(self) -> Callable[[], dict[str, NDArray[Any]]]:
        """Take a picture of the texts' part of the index; what is returned makes named columns
        of it, for a snapshot, in any thread.
        """
        return saved.save(self._index)

    @classmethod
    def restored(cls, columns: Mapping[str, memoryview]) -> "SearchIndex | None":
        """The index of saved columns, without its rows; None where they cannot be one."""
        index = saved.restore(columns)
        if index is None:
            return None
        restored = cls()
        restored._index = index
        return restored

    def memory_bytes(self) -> int:
        """What the index occupies, roughly."""
        return self._index.memory_bytes() + self._neighbours.memory_bytes()


def _reuse_working_memory() -> None:
    """Have the arrays of a query lie where those of the last one lay.

    The C library of Linux takes an array of 128 KiB or more from the system and gives it back
    at once, until a larger one was freed (mallopt(3), M_MMAP_THRESHOLD). A query uses dozens,
    and would spend a third of its time on pages that are new each time.
    """
    np.empty(_WORKING_BYTES, np.uint8)
