"""The place in a text that answers a query best, and the text around it.

That is where the query stands as a whole, else the most telling term in the segment that
holds the most of them.
"""

import re
from collections.abc import Mapping
from math import fsum

from convmem.search.characters import words_of
from convmem.search.lexicon import Lexicon
from convmem.search.scoring import Unit
from convmem.search.terms import term_text
from convmem.search.text import fold, original_offset, segments

# What is shown before the match, at most: enough to read into it.
LEAD_CHARS = 80


def telling_terms(
    lexicon: Lexicon, units: list[Unit], rarities: list[float]
) -> Mapping[str, float]:
    """The terms that units were scored by, and what each is worth."""
    return {
        term_text(key, lexicon): likeness * rarity
        for unit, rarity in zip(units, rarities, strict=True)
        if not unit.together  # its pairs are units of their own
        for key, likeness in zip(unit.keys.tolist(), unit.likeness.tolist(), strict=True)
    }


def best_place(text: str, needle: str, worth: Mapping[str, float]) -> int:
    """The offset of the best match in a text, in code points; 0 where there is none."""
    if not needle:
        return 0
    folded = fold(text)
    whole = re.search(r"\s+".join(map(re.escape, needle.split(" "))), folded)
    if whole is not None:
        return original_offset(text, whole.start())
    signs = [term for term in worth if not words_of(term)]
    best, best_worth, start = 0, 0.0, 0
    for segment in segments(folded):
        found = worth.keys() & words_of(segment)
        found |= {term for term in signs if term in segment}
        found_worth = fsum(worth[term] for term in found)  # exact, so that no order counts
        if found_worth > best_worth:
            best_worth = found_worth
            best = start + segment.find(max(found, key=lambda term: (worth[term], term)))
        start += len(segment)
    return original_offset(text, best)


def excerpt(text: str, place: int, bytes_max: int) -> tuple[str, int]:
    """So many bytes of a longer text around a place, and how many bytes stand before them."""
    start = max(0, place - LEAD_CHARS)
    if start:
        space = re.compile(r"\s+").search(text, start, place)
        start = space.end() if space else start
    tail = text[-bytes_max:].encode()[-bytes_max:].decode(errors="ignore")
    start = min(start, len(text) - len(tail))
    shown = text[start : start + bytes_max].encode()[:bytes_max].decode(errors="ignore")
    return shown, len(text[:start].encode())
