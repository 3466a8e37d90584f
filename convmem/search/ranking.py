"""From the scores of segments to the messages to show, best first.

    own      of each field the score of its best segment, summed
    context  what was said around it: .25 of the own scores of the message before and after,
             .10 of those next to them, .20 of the best in its session
    score    own + context

What stands next to a long message says less about it: the neighbours' part counts in the
proportion of 300 to its bytes, where it has more. Messages that hold the query as a whole come
before all others; a message neither like the query nor holding it is not shown, whatever its
context. Only where two are level do importance, then time, then id decide, the greater first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.search import substrings
from convmem.search.index import Document, Field, Index
from convmem.search.neighbours import Neighbours
from convmem.search.query import Query
from convmem.search.scoring import Scores, Unit, segment_scores
from convmem.search.text import flat

NEXT_SHARE = 0.25
NEXT_BUT_ONE_SHARE = 0.10
SESSION_SHARE = 0.20
NEIGHBOURS_BYTES = 300

# Texts read to see whether they hold the needle, the best candidates first: some 50 ms.
# Candidates beyond that are shown after those that were read.
READ_MAX = 2000

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
    """A message found. ``holds_query`` is whether it is known to hold the query as a whole."""

    row: int
    score: float
    fields: dict[Field, float]
    context: float
    holds_query: bool


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
        self, query: Query, units: list[Unit], allowed: NDArray[np.bool_], limit: int
    ) -> Ranking:
        """The best of the rows that are allowed. A blank query is held by all of them."""
        fields = self._own(units)
        own = sum(fields.values(), np.zeros(len(self.neighbours) + 1, np.float32))
        is_scored = own[:-1] > 0
        scored = np.flatnonzero(is_scored)
        around = np.zeros_like(own)
        around[scored] = self._context(own, scored)
        held, perhaps = self._holding(query, own, allowed)
        is_other = is_scored & allowed
        is_other[perhaps] = True
        is_other[held] = False
        others = np.flatnonzero(is_other)
        score = own + around
        best = self._best(held, score, limit)
        best_others = self._best(others, score, limit - len(best))
        hits = [
            Hit(
                row=row,
                score=float(score[row]),
                fields={field: float(of[row]) for field, of in fields.items() if of[row]},
                context=float(around[row]),
                holds_query=holds_query,
            )
            for rows, holds_query in ((best, True), (best_others, False))
            for row in rows.tolist()
        ]
        return Ranking(hits, len(held) + len(others))

    def _own(self, units: list[Unit]) -> dict[Field, Scores]:
        """The score of each row in each field that has any; one place more, for no row."""
        fields: dict[Field, Scores] = {}
        for block, scores in segment_scores(self.index, units):
            places = np.flatnonzero(scores > 0)
            of_field = block.fields[places]
            for field in Field:
                here = places[of_field == field]
                if len(here):
                    own = fields.setdefault(field, np.zeros(len(self.neighbours) + 1, np.float32))
                    np.maximum.at(own, block.rows[here], scores[here])
        return fields

    def _context(self, own: Scores, rows: Rows) -> Scores:
        """What the surroundings of these rows add; ``own`` has one place more than rows."""
        before, after = self.neighbours.before, self.neighbours.after
        last, next_ = before[rows], after[rows]
        near = NEXT_SHARE * (own[last] + own[next_])
        near += NEXT_BUT_ONE_SHARE * (own[before[last]] + own[after[next_]])
        near *= np.minimum(1, NEIGHBOURS_BYTES / np.maximum(1, self.columns.content_bytes[rows]))
        sessions = self.columns.sessions[rows]
        best = np.zeros(int(sessions.max(initial=0)) + 1, np.float32)
        np.maximum.at(best, sessions, own[rows])
        return (near + SESSION_SHARE * best[sessions]).astype(np.float32)

    def _holding(self, query: Query, own: Scores, allowed: NDArray[np.bool_]) -> tuple[Rows, Rows]:
        """The allowed rows that hold the query as a whole, and those that were not looked at."""
        none = np.zeros(0, np.uint32)
        if not query.needle:
            return np.flatnonzero(allowed).astype(np.uint32), none
        rows = substrings.candidates(self.index, query, len(self.neighbours))
        rows = rows[allowed[rows]]
        if substrings.is_settled(query):
            return rows, none
        order = np.lexsort((rows, own[rows]))[::-1]
        first, rest = rows[order[:READ_MAX]], rows[order[READ_MAX:]]
        holding = [row for row in first.tolist() if self._holds(row, query.needle)]
        return np.array(sorted(holding), np.uint32), rest

    def _holds(self, row: int, needle: str) -> bool:
        document = self.read(row)
        texts = (document.content, document.summary or "", *document.tags)
        return any(needle in flat(text) for text in texts)

    def _best(self, rows: Rows, score: Scores, limit: int) -> Rows:
        """The first rows in the order that the module's text gives."""
        scores = score[rows]
        if 0 < limit < len(rows):
            worst = np.partition(scores, -limit)[-limit]
            rows, scores = rows[scores >= worst], scores[scores >= worst]
        columns = self.columns
        high, low = columns.ids
        keys = (low[rows], high[rows], columns.timestamps[rows], columns.importance[rows], scores)
        best: Rows = rows[np.lexsort(keys)[::-1][:limit]]
        return best
