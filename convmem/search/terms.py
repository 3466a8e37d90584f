"""What of a text is indexed: its terms, each a number of 64 bits.

    character  the code point of a symbol, or of a sign of a script without spaces
    pair       two such signs that stand together: first << 21 | second
    word       1 << 42 | its number in the lexicon
    tag        1 << 43 | the number of a tag as it was given, by which messages are filtered

A term counts once in a segment, however often it stands there. A pair that is cut in two by
the end of a segment belongs to the segment of its first sign.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmem.search.characters import WORD_CHARS_MAX, Kind, kinds_of, windows, words_of
from convmem.search.lexicon import Lexicon
from convmem.search.postings import Keys

_PAIR_SHIFT = np.uint64(21)
_WORD = np.uint64(1 << 42)
_TAG = np.uint64(1 << 43)


@dataclass(frozen=True, slots=True)
class Terms:
    """Words as text and other terms by key, each with the place of its segment."""

    words: list[str]
    word_places: NDArray[np.uint32]
    keys: Keys
    key_places: NDArray[np.uint32]


def character_key(char: str) -> int:
    return ord(char)


def pair_key(first: str, second: str) -> int:
    return ord(first) << int(_PAIR_SHIFT) | ord(second)


def word_keys(numbers: NDArray[np.uint32]) -> Keys:
    """The terms of words of the lexicon."""
    return numbers.astype(np.uint64) | _WORD


def is_word(keys: Keys) -> NDArray[np.bool_]:
    """Which of the terms are words."""
    words: NDArray[np.bool_] = keys & _WORD != 0
    return words


def tag_keys(numbers: NDArray[np.uint32]) -> Keys:
    """The terms of tags."""
    return numbers.astype(np.uint64) | _TAG


def word_numbers(keys: Keys) -> NDArray[np.uint32]:
    """The numbers in the lexicon of terms that are words."""
    return (keys ^ _WORD).astype(np.uint32)


def term_text(key: int, lexicon: Lexicon) -> str:
    """A word, sign, pair or symbol as it stands in a folded text."""
    if key & int(_WORD):
        return lexicon.word(key ^ int(_WORD))
    first, second = divmod(key, 1 << int(_PAIR_SHIFT))
    return chr(first) + chr(second) if first else chr(second)


def terms_of(segments: list[str], texts: NDArray[np.uint32]) -> Terms:
    """The terms of segments; ``texts`` tells which of them are of one text, one after another."""
    words: list[str] = []
    counts = []
    for segment in segments:
        found = words_of(segment)
        words += found
        counts.append(len(found))
    places = np.repeat(np.arange(len(segments), dtype=np.uint32), counts)
    if words and max(map(len, words)) > WORD_CHARS_MAX:
        pieces = [windows(word) for word in words]
        places = np.repeat(places, [len(each) for each in pieces])
        words = [piece for each in pieces for piece in each]
    keys, key_places = _signs(segments, texts)
    return Terms(words, places, keys, key_places)


def _signs(segments: list[str], texts: NDArray[np.uint32]) -> tuple[Keys, NDArray[np.uint32]]:
    """Symbols, and the signs and pairs of scripts without spaces."""
    code_points = np.frombuffer("".join(segments).encode("utf-32-le"), np.uint32)
    lengths = [len(segment) for segment in segments]
    kinds = kinds_of(code_points)
    single = np.flatnonzero(kinds >= Kind.SYMBOL)
    places = np.repeat(np.arange(len(segments), dtype=np.uint32), lengths)
    single_places = places[single]
    signs = code_points[single].astype(np.uint64)
    unspaced = kinds[single] > Kind.SYMBOL
    together = single[1:] == single[:-1] + 1
    together &= unspaced[1:] & unspaced[:-1]
    together &= texts[single_places[1:]] == texts[single_places[:-1]]
    first = np.flatnonzero(together)
    pairs = signs[first] << _PAIR_SHIFT | signs[first + 1]
    return np.concatenate((signs, pairs)), np.concatenate((single_places, single_places[first]))
