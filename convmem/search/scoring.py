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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmem.search.index import NOBODY, Block, Index, Places
from convmem.search.postings import Keys

LENGTH_SHARE = 0.4
"""b: how much a long segment is held back."""

_LIKENESS_STEP = 2.0**-16
_COVERAGE_POWER = 4

Scores = NDArray[np.float32]

# Where the terms of a unit stand in more than this share of the segments of a block, counted as
# often as terms do, all segments are gone through: that is faster than to look each up.
_DENSE_SHARE = 3

_NOWHERE = np.zeros(0, np.intp)
_NOTHING = np.zeros(0, np.float32)


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


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of every segment, block by block, and how rare each unit is."""

    blocks: list[tuple[Block, Scores]]
    rarities: list[float]


def rarity(live_segments: int, df: NDArray[np.float64 | np.int64]) -> NDArray[np.float64]:
    """How telling it is to hold something that ``df`` of all segments hold."""
    telling: NDArray[np.float64] = np.log(1 + (live_segments - df + 0.5) / (df + 0.5))
    return telling


def from_coverage(coverage: NDArray[np.float64]) -> NDArray[np.float64]:
    """The likeness of words of some coverage, as a multiple of the step."""
    steps = np.ceil(coverage**_COVERAGE_POWER / _LIKENESS_STEP)
    return np.minimum(1, steps * _LIKENESS_STEP)  # rounding may cover more than there is


def score_segments(index: Index, units: list[Unit]) -> Scored:
    """Score every segment for all units."""
    found = [_likenesses(block, units) for block in index.blocks]
    dfs = np.zeros(len(units))
    for of_block in found:
        dfs += [each.df for each in of_block]
    rarities = rarity(index.live_segments, dfs).tolist()
    shares = [
        np.float32(unit.weight * telling * (unit.k1 + 1))
        for unit, telling in zip(units, rarities, strict=True)
    ]
    mean_length = max(1, index.live_chars) / max(1, index.live_segments)
    blocks = [
        (block, _scores(block, mean_length, units, shares, of_block))
        for block, of_block in zip(index.blocks, found, strict=True)
    ]
    return Scored(blocks, rarities)


def _scores(
    block: Block,
    mean_length: float,
    units: list[Unit],
    shares: list[np.float32],
    found: list["_Likeness"],
) -> Scores:
    """The scores of the segments of a block."""
    scores = np.zeros(len(block), np.float32)
    for k1 in dict.fromkeys(unit.k1 for unit in units):
        held_back = block.lengths.astype(np.float32)
        held_back *= k1 * LENGTH_SHARE / mean_length
        held_back += k1 * (1 - LENGTH_SHARE)
        # What is wholly there is held back alike for all units: their shares are summed first.
        there = np.zeros(len(block), np.float32)
        for unit, share, likeness in zip(units, shares, found, strict=True):
            if unit.k1 != k1:
                continue
            np.add.at(there, likeness.whole, share)
            amounts, partly = likeness.amounts, likeness.partly
            scores[partly] += share * amounts / (amounts + held_back[partly])
        held_back += 1
        there /= held_back
        scores += there
    return scores


@dataclass(frozen=True, slots=True)
class _Likeness:
    """The segments of a block that are like a unit: wholly, or partly by some amounts.

    ``partly`` has each segment once; it is all of them where many are, some by an amount of 0.
    """

    whole: Places
    partly: Places | slice
    amounts: Scores

    @property
    def df(self) -> float:
        return len(self.whole) + float(self.amounts.sum(dtype=np.float64))


def _likenesses(block: Block, units: list[Unit]) -> list[_Likeness]:
    """The segments that are like each unit."""
    if not units:
        return []
    places, counts = block.postings.joined(np.concatenate([unit.keys for unit in units]))
    ends = np.append(0, counts.cumsum())
    found, first = [], 0
    for unit in units:
        last = first + len(unit.keys)
        here = places[ends[first] : ends[last]]
        found.append(_likeness(block, unit, here, counts[first:last]))
        first = last
    return found


def _likeness(block: Block, unit: Unit, places: Places, counts: NDArray[np.intp]) -> _Likeness:
    """The segments that are like a unit. ``places`` are those of its terms, so many of each."""
    likeness, whole = unit.likeness, places[:0]
    if not unit.together and likeness[-1] == 1:
        parts = len(places) - counts[-1]
        places, whole = places[:parts], places[parts:]
        likeness, counts = likeness[:-1], counts[:-1]
    whole = block.live(whole.astype(np.intp))
    if not len(places):
        return _Likeness(whole, _NOWHERE, _NOTHING)
    if unit.together or len(places) * _DENSE_SHARE <= len(block):
        partly, parts = _merged(unit.together, places, likeness.repeat(counts), len(block))
        kept = np.ones(len(block), bool)
        kept[whole] = False
        kept = kept[partly]
        if block.has_dead:
            kept &= block.rows[partly] != NOBODY
        return _Likeness(whole, partly[kept], parts[kept].astype(np.float32))
    amounts = np.zeros(len(block), np.float32)
    # Of a place that several terms have the last amount stays, which is the greatest.
    amounts[places] = likeness.astype(np.float32).repeat(counts)
    amounts[whole] = 0
    if block.has_dead:
        amounts[block.rows == NOBODY] = 0
    return _Likeness(whole, slice(None), amounts)


def _merged(
    together: bool, places: Places, parts: NDArray[np.float64], segments: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Each place once, of so many segments, and the likeness there: the last part, or of all."""
    places = places.astype(np.intp)
    numbers = np.arange(len(places))
    number_of = np.empty(segments, np.intp)
    number_of[places] = numbers
    last = number_of[places] == numbers
    once = places[last]
    if not together:
        return once, parts[last]
    number_of[once] = np.arange(len(once))
    sums = np.bincount(number_of[places], parts)
    return once, from_coverage(sums.astype(np.float64))
