"""From the scores of segments to the messages to show, best first.

    own      of each field the score of its best segment, summed
    context  what was said around it (``context``)
    score    own + context

Messages that hold the query as a whole come before all others; a message neither like the
query nor holding it is not shown, whatever its context. Only where two are level do
importance, then time, then id decide, the greater first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.search import substrings
from convmem.search.blending import blended
from convmem.search.context import Context
from convmem.search.index import Document, Field, Index
from convmem.search.neighbours import Neighbours
from convmem.search.query import Query
from convmem.search.scoring import Scored, Scores
from convmem.search.text import flat

# Texts read to see whether they hold the needle, the best candidates first: some 15 ms; of very
# long ones, some 150 ms.
READ_MAX = 1000
READ_BYTES_MAX = 1 << 23

_GROUP_VALUES = 256

Rows = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Columns:
    """What the ranking knows of every row beside its text. ``ids`` are the halves of the ids."""

    sessions: NDArray[np.uint32]
    importance: NDArray[np.uint8]
    timestamps: NDArray[np.int64]
    content_bytes: NDArray[np.uint32]
    ids: tuple[NDArray[np.uint64], NDArray[np.uint64]]


@dataclass(frozen=True, slots=True)
class Hit:
    """A message found. ``holds_query`` is whether it is known to hold the query as a whole.

    ``cosine`` is how near it is in meaning, where that was asked for and is known.
    """

    row: int
    score: float
    fields: dict[Field, float]
    context: float
    holds_query: bool
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best hits, and how many messages answer the query in all."""

    hits: list[Hit]
    total: int


@dataclass(slots=True)
class Ranker:
    """Ranks the messages of an index. ``read`` gives the texts of a row."""

    index: Index
    neighbours: Neighbours
    columns: Columns
    read: Callable[[int], Document]

    def rank(
        self,
        query: Query,
        scored: Scored,
        allowed: NDArray[np.bool_],
        limit: int,
        cosines: Scores | None = None,
        by_words: bool = True,
    ) -> Ranking:
        """The best of the rows that are allowed. A blank query is held by all of them.

        The total counts what may hold the query and was not read, because enough others do.
        With ``cosines``, one for each row and NaN where there is none, meaning counts as well,
        or alone without ``by_words``.
        """
        fields = self._own(scored) * np.float32(by_words)
        own = fields.sum(axis=0)
        answers = own[:-1] > 0
        if cosines is not None and len(cosines):
            own[:-1], near = blended(own[:-1], cosines)
            answers |= near
        answers &= allowed
        candidates = self._candidates(query, allowed) if by_words else np.zeros(0, np.intp)
        # Who may hold the query is shown however little it scores, and with its context.
        best_own = 0.0 if len(candidates) else _greatest(own[:-1] * answers, limit)
        sessions, content_bytes = self.columns.sessions, self.columns.content_bytes
        context = Context.around(own, best_own, sessions, content_bytes, self.neighbours)
        held, others = self._holding(query, candidates, context, limit)
        answers[others] = True
        answers[held] = False
        total = int(np.count_nonzero(answers)) + len(held)
        best = self._best(held, context, limit)
        found = [(row, True) for row in best.tolist()]
        if len(found) < limit:
            matters = answers if len(candidates) else answers & context.matters()
            rest = self._best(np.flatnonzero(matters), context, limit - len(found))
            found += [(row, False) for row in rest.tolist()]
        rows = np.array([row for row, _ in found], np.intp)
        around = context.of(rows).tolist()
        hits = [
            Hit(
                row=row,
                score=float(own[row]) + added,
                fields={Field(n): float(of[row]) for n, of in enumerate(fields) if of[row]},
                context=added,
                holds_query=holds_query,
                cosine=_known(cosines, row),
            )
            for (row, holds_query), added in zip(found, around, strict=True)
        ]
        return Ranking(hits, total)

    def _own(self, scored: Scored) -> Scores:
        """The score of each row in each field: shape (fields, rows + 1), the last for no row."""
        nobody = len(self.neighbours)
        count = 1 + max((int(block.fields.max()) for block, _ in scored.blocks), default=0)
        own = np.zeros((count, nobody + 1), np.float32)
        for block, scores in scored.blocks:
            places = np.flatnonzero(scores > 0)
            cells = block.rows.take(places).astype(np.intp)
            if count > 1:
                cells += block.fields.take(places) * np.intp(nobody + 1)
            np.maximum.at(own.reshape(-1), cells, scores.take(places))
        return own

    def _candidates(self, query: Query, allowed: NDArray[np.bool_]) -> Rows:
        """The allowed rows that may hold the query as a whole."""
        if not query.needle:
            return np.flatnonzero(allowed)
        rows = substrings.candidates(self.index, query, len(self.neighbours))
        return rows[allowed[rows]]

    def _holding(self, query: Query, rows: Rows, context: Context, limit: int) -> tuple[Rows, Rows]:
        """Candidates that hold the query as a whole, and those that may and were not read.

        All that do, or the best of them, as many as are wanted.
        """
        if not query.needle or substrings.is_settled(query):
            return rows, np.zeros(0, np.intp)
        first = self._best(rows, context, READ_MAX)
        ends = self.columns.content_bytes[first].cumsum(dtype=np.int64)
        best = first[: 1 + int(ends.searchsorted(READ_BYTES_MAX))].tolist()
        holding: list[int] = []
        read = 0
        while read < len(best) and len(holding) < limit:
            if self._holds(best[read], query.needle):
                holding.append(best[read])
            read += 1
        return np.array(holding, np.intp), np.setdiff1d(rows, best[:read])

    def _holds(self, row: int, needle: str) -> bool:
        document = self.read(row)
        texts = (document.content, document.summary or "", *document.tags)
        return any(needle in flat(text) for text in texts)

    def _best(self, rows: Rows, context: Context, limit: int) -> Rows:
        """The first rows in the order that the module's text gives."""
        if limit < len(rows):
            least, most = context.bounds(rows)
            rows = rows[most >= _greatest(least, limit)]
        scores = context.own[rows] + context.of(rows)
        if limit < len(rows):
            worst = _greatest(scores, limit)
            rows, scores = rows[scores >= worst], scores[scores >= worst]
        columns = self.columns
        high, low = columns.ids
        keys = (low[rows], high[rows], columns.timestamps[rows], columns.importance[rows], scores)
        best: Rows = rows[np.lexsort(keys)[::-1][:limit]]
        return best


def _known(cosines: Scores | None, row: int) -> float | None:
    return None if cosines is None or np.isnan(cosines[row]) else float(cosines[row])


def _greatest(values: Scores, number: int) -> float:
    """The so-manieth greatest of some values, 0 where there are fewer."""
    groups = len(values) // _GROUP_VALUES
    if number < groups:
        # The same of the greatest of each group is no greater than what is wanted: less can go.
        tops = values[: groups * _GROUP_VALUES].reshape(groups, _GROUP_VALUES).max(axis=1)
        values = values[values >= _greatest(tops, number)]
    return float(np.partition(values, -number)[-number]) if number <= len(values) else 0.0
