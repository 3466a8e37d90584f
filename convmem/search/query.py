"""A query taken apart: the needle that it is as a whole, and the terms that make it up."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from convmem.search.characters import Kind, kind_of
from convmem.search.text import flat

# Words that ask or join. In a question they say nothing of what is looked for, and the
# messages that hold the most of them are not the ones that answer.
_QUESTION_WORDS = """
    a an and are as at be been by did do does for from had has have he her his how in is it its
    of on or she that the their they this to was were what when where which who whom whose why
    with
"""
QUESTION_WORDS = frozenset(_QUESTION_WORDS.split())


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one sort that stand together: a word, a symbol, or signs without spaces.

    ``opens`` and ``closes``: whether it stands at the start and at the end of the needle, so
    that a text may go on there without a break.
    """

    kind: Kind
    text: str
    opens: bool
    closes: bool


@dataclass(frozen=True, slots=True)
class Query:
    """``needle`` is the flat query, ``runs`` all of it but the spaces, in order."""

    needle: str
    runs: tuple[Run, ...]

    @property
    def words(self) -> list[str]:
        """The words to score, each once: without question words where anything else is left."""
        words = list(dict.fromkeys(run.text for run in self.runs if run.kind is Kind.WORD))
        telling = [word for word in words if word not in QUESTION_WORDS]
        return telling or ([] if self.signs else words)

    @property
    def signs(self) -> list[str]:
        """The runs of signs, each once."""
        return list(dict.fromkeys(run.text for run in self.runs if run.kind > Kind.SYMBOL))

    @property
    def symbols(self) -> list[str]:
        return list(dict.fromkeys(run.text for run in self.runs if run.kind is Kind.SYMBOL))

    @property
    def bare(self) -> str:
        """The needle with spaces for its symbols."""
        return "".join(" " if kind_of(char) is Kind.SYMBOL else char for char in self.needle)


def parse(text: str) -> Query:
    """Any text is a query; a blank one has an empty needle and no runs."""
    needle = flat(text)
    return Query(needle, tuple(_runs(needle)))


def _runs(needle: str) -> Iterator[Run]:
    start = 0
    for kind, characters in groupby(needle, _sort_of):
        text = "".join(characters)
        pieces = list(text) if kind is Kind.SYMBOL else [text]
        for piece in pieces:
            end = start + len(piece)
            if kind is not Kind.SPACE:
                yield Run(kind, piece, start == 0, end == len(needle))
            start = end


def _sort_of(char: str) -> Kind:
    """The kind of a character; ideographs and syllables stand together."""
    kind = kind_of(char)
    return Kind.SYLLABLE if kind is Kind.IDEOGRAPH else kind
