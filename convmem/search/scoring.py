"""How well a segment answers a query: BM25 over word coverage.

For each unit of the query (a word; a character or pair of a script without spaces; a run of
ideographs) a segment has a likeness c from 0 to 1:

    word        the greatest coverage(word, v) ** 4 of the words v in the segment
    character,
    pair        1 where it is there
    run         (the pairs of the run that are there, weighed by rarity) ** 4

    df      = sum of c over all segments
    rarity  = ln(1 + (N - df + .5) / (df + .5))
    score  += weight * rarity * c * (k1 + 1) / (c + k1 * (1 - b + b * length / mean length))

with N segments, the lengths in code points. Likenesses are multiples of 2**-16, so that their
sums are exact in any order: the same messages score the same, however the index came about.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmem.search.index import Block, Index, Places
from convmem.search.postings import Keys

LENGTH_SHARE = 0.4
"""b: how much a long segment is held back."""

_LIKENESS_STEP = 2.0**-16
_COVERAGE_POWER = 4

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of the query that is scored by itself.

    ``keys`` are the terms that speak for it and ``likeness`` of each, ascending; with
    ``together`` the likeness of a segment is that of all its terms, summed, to the 4th power.
    """

    keys: Keys
    likeness: NDArray[np.float64]
    weight: float
    k1: float
    together: bool = False


def rarity(live_segments: int, df: float) -> float:
    """How telling it is to hold something that ``df`` of all segments hold."""
    return float(np.log(1 + (live_segments - df + 0.5) / (df + 0.5)))


def quantised(likeness: NDArray[np.float64]) -> NDArray[np.float64]:
    """Likenesses as multiples of the step."""
    return np.ceil(likeness / _LIKENESS_STEP) * _LIKENESS_STEP


def from_coverage(coverage: NDArray[np.float64]) -> NDArray[np.float64]:
    """The likeness of words of some coverage."""
    return quantised(coverage**_COVERAGE_POWER)


def segment_scores(index: Index, units: list[Unit]) -> Iterator[tuple[Block, Scores]]:
    """The score of every segment, block by block."""
    found = [[_likeness(block, unit) for unit in units] for block in index.blocks]
    dfs = [sum(float(of_block[n][1].sum()) for of_block in found) for n in range(len(units))]
    mean_length = index.live_chars / max(1, index.live_segments)
    for block, likenesses in zip(index.blocks, found, strict=True):
        scores = np.zeros(len(block), np.float32)
        for unit, df, (places, values) in zip(units, dfs, likenesses, strict=True):
            k1 = unit.k1
            lengths = block.lengths[places]
            held_back = k1 * (1 - LENGTH_SHARE) + (k1 * LENGTH_SHARE / mean_length) * lengths
            share = unit.weight * rarity(index.live_segments, df) * (k1 + 1)
            scores[places] += share * values / (values + held_back)
        yield block, scores


def _likeness(block: Block, unit: Unit) -> tuple[Places, NDArray[np.float64]]:
    """The places of the segments that have any of a unit, and how much of it."""
    lists = block.postings.lists(unit.keys)
    places: Places
    if len(lists) == 1 and not unit.together:
        places = block.live(lists[0])
        return places, np.full(len(places), unit.likeness[0])
    values = np.zeros(len(block))
    for list_, likeness in zip(lists, unit.likeness.tolist(), strict=True):
        if unit.together:
            values[list_] += likeness
        else:
            values[list_] = likeness  # ascending: the greatest stays
    places = block.live(np.flatnonzero(values > 0))
    likenesses = values[places]
    return places, from_coverage(likenesses) if unit.together else likenesses
