"""What was said around a message, as a part of its score.

    near     .35 of what the better of the two messages next to it scores above .6 of its own
             score, and .15 of the same for the two next to those
    context  near + .30 of the best score in its session

A message that says it all needs no neighbours; one that only answers is found by what it
answers. What stands next to a long message says less about it: there near counts in the
proportion of 300 to its bytes. A message that scores nothing itself has no context.

Measured on chats, long answers and articles in English and Japanese, one set for all: adding
up both neighbours, whatever the message scores itself, is worse on each but long answers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.search.neighbours import Neighbours
from convmem.search.scoring import Scores

NEXT_SHARE = 0.35
NEXT_BUT_ONE_SHARE = 0.15
SESSION_SHARE = 0.30
OWN_SHARE = 0.6
NEIGHBOURS_BYTES = 300

# What a message scores with its context, at most: so many times the best in its session.
_TIMES_BEST_MAX = 1 + SESSION_SHARE + (NEXT_SHARE + NEXT_BUT_ONE_SHARE) * (1 - OWN_SHARE)

# What rounding may take from a bound.
_ROUNDING = np.float32(1.0001)

Rows = NDArray[np.integer[Any]]


@dataclass(slots=True)
class Context:
    """The surroundings of the rows of a ranking.

    ``own`` is the score of each row by itself, with one place more for no row; ``best`` the
    greatest of each session, 0 where that is too little to matter.
    """

    own: Scores
    best: Scores
    sessions: NDArray[np.uint32]
    content_bytes: NDArray[np.uint32]
    neighbours: Neighbours

    @classmethod
    def around(
        cls,
        own: Scores,
        wanted: float,
        sessions: NDArray[np.uint32],
        content_bytes: NDArray[np.uint32],
        neighbours: Neighbours,
    ) -> "Context":
        """The context of rows that score ``own`` by themselves, of those that matter.

        Those are the rows that may score ``wanted`` or more with it.
        """
        good = np.flatnonzero(own[:-1] > wanted / (_TIMES_BEST_MAX * _ROUNDING))
        best = np.zeros(int(sessions.max(initial=0)) + 1, np.float32)
        np.maximum.at(best, sessions[good].astype(np.intp), own[good])
        return cls(own, best, sessions, content_bytes, neighbours)

    def matters(self) -> NDArray[np.bool_]:
        """Which rows matter: those with a good enough message in their session."""
        matters: NDArray[np.bool_] = (self.best > 0).take(self.sessions)
        return matters

    def of(self, rows: Rows) -> Scores:
        """What the surroundings of these rows add to their own scores."""
        before, after = self.neighbours.before, self.neighbours.after
        last, next_ = before[rows], after[rows]
        near = NEXT_SHARE * self._above(rows, last, next_)
        near += NEXT_BUT_ONE_SHARE * self._above(rows, before[last], after[next_])
        near *= np.minimum(1, NEIGHBOURS_BYTES / np.maximum(1, self.content_bytes[rows]))
        added: Scores = near + SESSION_SHARE * self._session_best(rows)
        return added * (self.own[rows] > 0)

    def bounds(self, rows: Rows) -> tuple[Scores, Scores]:
        """What own score and context of these rows are together, at least and at most."""
        own, best = self.own[rows], self._session_best(rows)
        least: Scores = (own + SESSION_SHARE * best) * (own > 0)
        near: Scores = np.maximum(0, best - OWN_SHARE * own)
        return least, (least + (NEXT_SHARE + NEXT_BUT_ONE_SHARE) * near) * _ROUNDING

    def _session_best(self, rows: Rows) -> Scores:
        return self.best[self.sessions[rows]]

    def _above(self, rows: Rows, one: Rows, other: Rows) -> Scores:
        better = np.maximum(self.own[one], self.own[other])
        above: Scores = np.maximum(0, better - OWN_SHARE * self.own[rows])
        return above
