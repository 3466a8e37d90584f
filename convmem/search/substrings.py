"""The messages that may hold a query as a whole, from the index alone.

Whoever holds a needle has a word that ends with its first word and one that begins with its
last, its inner words whole, and all its signs and symbols. For a needle of one term that
settles it; for any other the texts decide.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from convmem.search.characters import WORD_CHARS_STEP, Kind
from convmem.search.index import Index
from convmem.search.postings import Keys
from convmem.search.query import Query, Run
from convmem.search.terms import character_key, pair_key, word_keys

Rows = NDArray[np.intp]


def candidates(index: Index, query: Query, row_count: int) -> Rows:
    """Those of so many rows that may hold the needle of a query that is not blank, ascending."""
    # Inner words first: they are looked up, not searched for, and the rarest often ends it.
    runs = sorted(
        query.runs, key=lambda run: (run.opens or run.closes, index.lexicon.uses(run.text))
    )
    rows: Rows | None = None
    for keys in (keys for run in runs for keys in _alternatives(index, run)):
        holding = index.mark_rows(keys, row_count)
        rows = np.flatnonzero(holding) if rows is None else rows[holding[rows]]
        if not len(rows):
            break
    assert rows is not None
    return rows


def is_settled(query: Query) -> bool:
    """Whether every candidate holds the needle for certain: it is one term, or part of a word."""
    if len(query.runs) != 1 or " " in query.needle:
        return False
    (run,) = query.runs
    return len(run.text) <= (WORD_CHARS_STEP if run.kind is Kind.WORD else 2)


def _alternatives(index: Index, run: Run) -> Iterator[Keys]:
    """Sets of terms: of each set, a text that holds the run holds at least one."""
    match run.kind:
        case Kind.WORD:
            found = index.lexicon.holding(run.text, begins=not run.opens, ends=not run.closes)
            yield word_keys(found)
        case _ if len(run.text) == 1:
            yield np.array([character_key(run.text)], np.uint64)
        case _:
            for first, second in pairwise(run.text):
                yield np.array([pair_key(first, second)], np.uint64)
