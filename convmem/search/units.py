"""From a query to the units that are scored, each with the terms of this index that answer it."""

from itertools import pairwise

import numpy as np

from convmem.search.characters import WORD_CHARS_MAX, ideographs_of
from convmem.search.index import Index
from convmem.search.query import Query
from convmem.search.scoring import Unit, from_coverage, rarity
from convmem.search.terms import character_key, pair_key, word_keys

# Of a query as long as a page the rarest parts tell what it is about: bounds its cost.
UNITS_MAX = 64

# k1 of BM25, how soon more of the same counts no more; and what the coverage of a run adds to
# its signs and pairs. Measured, one set for all languages.
_WORD_K1 = 0.8
_SIGN_K1 = 0.6
_RUN_WEIGHT = 0.5
_RARITY_POWER = 1.5


def units(index: Index, query: Query) -> list[Unit]:
    """What to score; symbols only in a query that has nothing else."""
    words = sorted(query.words, key=lambda word: _rarest_known_first(index.lexicon.uses(word)))
    signs = _counted(index, [key for run in query.signs for key in _sign_keys(run)])
    if not words and not signs:
        signs = _counted(index, [character_key(symbol) for symbol in query.symbols])
    rare_signs = sorted(signs, key=lambda key: _rarest_known_first(signs[key]))
    found = [_word(index, word) for word in words[:UNITS_MAX]]
    found += [_sign(key) for key in rare_signs[:UNITS_MAX] if signs[key]]
    ideographs = [run for signs_ in query.signs for run in ideographs_of(signs_)]
    found += [_run(index, run) for run in ideographs[:UNITS_MAX]]
    return [unit for unit in found if len(unit.keys)]


def _counted(index: Index, keys: list[int]) -> dict[int, int]:
    """How many segments hold each of some terms."""
    counts = index.counts(np.array(keys, np.uint64)).tolist()
    return dict(zip(keys, counts, strict=True))


def _rarest_known_first(count: int) -> tuple[bool, int]:
    return count == 0, count


def _word(index: Index, word: str) -> Unit:
    numbers, coverage = index.lexicon.similar(word[:WORD_CHARS_MAX])
    likeness = from_coverage(coverage)
    order = likeness.argsort(kind="stable")
    return Unit(word_keys(numbers)[order], likeness[order], 1, _WORD_K1)


def _sign(key: int) -> Unit:
    return Unit(np.array([key], np.uint64), np.ones(1), 1, _SIGN_K1)


def _sign_keys(run: str) -> list[int]:
    return [*map(character_key, run), *_pair_keys(run)]


def _pair_keys(run: str) -> list[int]:
    return [pair_key(first, second) for first, second in pairwise(run)]


def _run(index: Index, run: str) -> Unit:
    """How much of a run of ideographs is there, each pair weighed by its rarity."""
    pairs = np.unique(np.array(_pair_keys(run), np.uint64))
    weights = rarity(index.live_segments, index.counts(pairs)) ** _RARITY_POWER
    return Unit(pairs, weights / weights.sum(), _RUN_WEIGHT, _SIGN_K1, together=True)
