"""What search sees in a character: white space, a part of a word, a symbol, or a sign of a
script that is written without spaces.

Words are runs of letters, digits and the marks on them. In scripts without spaces no word
can be told from its neighbours, so their single characters and pairs stand for words.
Hangul is among them: its particles are written onto the words.
"""

import re
import unicodedata
from enum import IntEnum
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

_IDEOGRAPHS = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u30a1-\u30ff\u31f0-\u31ff"  # with Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_SYLLABLES = (
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17d3"  # Thai, Lao, Myanmar, Khmer
    "\u3041-\u309f\u3105-\u312f\ua000-\ua48c\uac00-\ud7a3"  # Hiragana, Bopomofo, Yi, Hangul
)
UNSPACED = _IDEOGRAPHS + _SYLLABLES
"""The characters of scripts without spaces, as ranges of a regular expression."""

WORD_CHARS_MAX = 64
"""A longer word is taken as several that overlap by half: nobody asks for more of it."""
WORD_CHARS_STEP = WORD_CHARS_MAX // 2

# What splits text that is ASCII, twelve times as fast: all but letters and digits made spaces.
_ASCII_SPACED = bytes(char if char < 128 and chr(char).isalnum() else 32 for char in range(256))


class Kind(IntEnum):
    """The kinds of characters; those from ``SYMBOL`` on are found one by one."""

    UNKNOWN = 0
    SPACE = 1
    WORD = 2
    SYMBOL = 3
    SYLLABLE = 4
    IDEOGRAPH = 5


# Filled in as characters are met: 1.1 million of them are not worth judging ahead.
_kinds = np.zeros(0x110000, np.uint8)


def kinds_of(code_points: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The kind of every code point."""
    kinds: NDArray[np.uint8] = _kinds[code_points]
    if not kinds.all():
        for code_point in np.unique(code_points[kinds == Kind.UNKNOWN]).tolist():
            _kinds[code_point] = kind_of(chr(code_point))
        kinds = _kinds[code_points]
    return kinds


@lru_cache(maxsize=1 << 14)
def kind_of(char: str) -> Kind:
    """The kind of one character."""
    if char.isspace():
        return Kind.SPACE
    if re.match(f"[{_IDEOGRAPHS}]", char):
        return Kind.IDEOGRAPH
    if re.match(f"[{_SYLLABLES}]", char):
        return Kind.SYLLABLE
    return Kind.WORD if _words().match(char) else Kind.SYMBOL


def words_of(folded: str) -> list[str]:
    """The words of a text in order, repeated ones repeated, long ones whole."""
    if folded.isascii():
        return folded.encode().translate(_ASCII_SPACED).decode().split()
    return _words().findall(folded)


def ideographs_of(signs: str) -> list[str]:
    """The runs of at least two Han or Katakana characters, which are words or names mostly."""
    return _ideograph_runs().findall(signs)


def windows(word: str) -> list[str]:
    """A word as the lexicon holds it: itself, or the overlapping pieces of a long one.

    Every part of ``WORD_CHARS_STEP`` characters lies in one of them; the first begins and the
    last ends with the word's own.
    """
    if len(word) <= WORD_CHARS_MAX:
        return [word]
    starts = range(0, len(word) - WORD_CHARS_STEP, WORD_CHARS_STEP)
    return [word[start : start + WORD_CHARS_MAX] for start in starts]


# Compiled when the first text is seen that needs them: a server must not pay for its start.


@cache
def _words() -> re.Pattern[str]:
    # Marks are no letters to ``re``, and the marks of these blocks are written within words.
    marks = "".join(
        char for char in map(chr, range(0x300, 0x1D00)) if unicodedata.category(char)[0] == "M"
    )
    return re.compile(rf"(?:[^\W_{UNSPACED}]|(?![{UNSPACED}])[{marks}])+")


@cache
def _ideograph_runs() -> re.Pattern[str]:
    return re.compile(f"[{_IDEOGRAPHS}]{{2,}}")
