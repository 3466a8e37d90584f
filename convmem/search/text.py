"""Text as search sees it: folded, cut into segments, and a place found again in the original.

    fold      NFKC, full case folding, NFKC again (Unicode 3.13, D146): one form for capitals,
              full width, ligatures, sharp s, final sigma and combining marks
    flat      folded, with every run of white space as one space and none at the ends: the form
              in which a query is looked for as a whole
    segments  a folded text in pieces of a few sentences, because a word counts for what is said
              around it, not for a whole long answer

Pieces joined give the text back. A piece ends at the end of a sentence or line, else at white
space, else between two characters of a script that has no spaces; never within a word.
"""

import re
import unicodedata
from functools import cache, lru_cache

from convmem.search.characters import UNSPACED

# A message up to the first length stays whole; a longer one is cut at the second. Measured:
# shorter pieces lose what belongs together, longer ones let long messages win by their length.
WHOLE_CHARS_MAX = 390
SEGMENT_CHARS_MAX = 300

# Characters folded at once on the way to an offset.
_STRIDE = 4096


def fold(text: str) -> str:
    """The text without its differences of case, width and composition."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def flat(text: str) -> str:
    """The folded text with single spaces for all white space, none at the ends."""
    return " ".join(fold(text).split())


def segments(folded: str) -> list[str]:
    """The pieces of a folded text, in order; none of an empty one."""
    if len(folded) <= WHOLE_CHARS_MAX:
        return [folded] if folded else []
    return _segment().findall(folded)


def original_offset(text: str, offset: int) -> int:
    """Where in a text begins what stands at an offset of its folded form, in code points."""
    if text.isascii():
        return offset
    start = 0
    for step in (_STRIDE, 1):  # a long way in long steps, then the rest
        while start < len(text):
            end = start + step
            while end < len(text) and _continues(text[end]):
                end += 1
            length = len(fold(text[start:end]))
            if offset < length:
                break
            offset -= length
            start = end
    return min(start, len(text))


@lru_cache(maxsize=1 << 14)
def _continues(char: str) -> bool:
    """Whether a character may melt with the one before it: marks, and the parts of Hangul."""
    first = unicodedata.normalize("NFKD", char)[0]
    return unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"


# Compiled when the first long text is seen: a server must not pay for its start.
@cache
def _segment() -> re.Pattern[str]:
    return re.compile(
        rf"""
          .{{1,{SEGMENT_CHARS_MAX}}} (?: (?<=[.!?]) (?=[\s{UNSPACED}]) | (?<=[。\n]) | \Z )
        | .{{1,{SEGMENT_CHARS_MAX}}} (?: (?=\s) | (?<=[{UNSPACED}]) (?=[{UNSPACED}]) )
        | \s* \S+
        """,
        re.DOTALL | re.VERBOSE,
    )
