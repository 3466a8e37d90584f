"""The lexicon: every distinct word once, found by its likeness to another or by a part of it.

Words are numbered as they come. Over them lie posting lists of their 2-grams and 3-grams,
with a space before and after the word, so that " ca" and "at " mark its edges. How alike two
words are is the share of one's grams that the other has, each gram weighed by its rarity:

    coverage(w, v) = sum of weight(g) over the grams that w and v share / over those of w
    weight(g)      = ln(1 + (N - df + .5) / (df + .5)) ** 1.5

N counts the words in use, ``WORDS_MIN`` at least, and df those of them with the gram. A word
that no segment holds any more weighs nothing and is found no more, as if it had never been
there. That power of coverage that ``scoring`` uses takes the place of a stemmer, in any language.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from convmem.search.characters import WORD_CHARS_MAX, WORD_CHARS_STEP
from convmem.search.postings import Keys, PostingLists

COVERAGE_MIN = 0.4
"""Words less alike than this have nothing in common worth finding."""

WORDS_MIN = 1000
"""N is no less: in a few words every gram is common, and one that is not there would outweigh
all that are.
"""

_RARITY_POWER = 1.5
_CODE_POINT_BITS = np.uint64(21)
_SPACE = 0x20
_ENTRY_BYTES = 49 + 100 + 8  # of a word beside its letters: object, place in the dict, in the list

Ids = NDArray[np.uint32]


class Numbers(dict[str, int]):
    """The number of each word; asking for a new one numbers it."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number

    def of(self, words: list[str]) -> Ids:
        """The number of each word, new ones for new words."""
        return np.fromiter(map(self.__getitem__, words), np.uint32, len(words))


class Lexicon:
    """Words by number, and how many segments use each."""

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._words: list[str] = []
        self._uses: NDArray[np.int32] = np.zeros(0, np.int32)
        self._in_use = 0
        self._grams = PostingLists(np.uint32)

    @classmethod
    def restored(
        cls, words: list[str], uses: NDArray[np.int32], grams: tuple[Keys, Ids, Ids]
    ) -> "Lexicon":
        """The lexicon that ``saved`` told of."""
        lexicon = cls()
        lexicon._numbers.update(zip(words, range(len(words)), strict=True))
        lexicon._words = words
        lexicon._uses = uses.copy()
        lexicon._in_use = int(np.count_nonzero(uses))
        lexicon._grams.restore(*grams)
        return lexicon

    def saved(self) -> tuple[list[str], NDArray[np.int32], PostingLists]:
        """Words by number, how many segments use each, and the lists of their grams: copies,
        or what is not changed any more.
        """
        self._grams.merge()
        return self._words[:], self._uses.copy(), self._grams

    def __len__(self) -> int:
        return len(self._numbers)

    def word(self, number: int) -> str:
        return self._words[number]

    def uses(self, word: str) -> int:
        """How many segments hold a word."""
        number = self._numbers.get(word)
        return 0 if number is None else int(self._uses[number])

    def numbers(self, words: list[str]) -> Ids:
        """The number of each word, new ones for new words."""
        return self._numbers.of(words)

    def count_uses(self, numbers: Ids, change: int | NDArray[np.int64]) -> None:
        """Note that words stand in so many segments more, or fewer where negative.

        With a single change, a word counts as often as it is named.
        """
        if len(self._uses) < len(self._numbers):
            room = np.zeros(len(self._numbers) - len(self._uses), np.int32)
            self._uses = np.concatenate((self._uses, room))
        np.add.at(self._uses, numbers.astype(np.intp), change)
        self._in_use = int(np.count_nonzero(self._uses))
        self._index_new()

    def similar(self, word: str) -> tuple[Ids, NDArray[np.float64]]:
        """The words at least ``COVERAGE_MIN`` like this one, ascending, and their coverage."""
        lists = [self._used(list_) for list_ in self._grams.lists(_gram_keys(word))]
        counts = np.array([len(list_) for list_ in lists])
        words = max(WORDS_MIN, self._in_use)
        weights = np.log(1 + (words - counts + 0.5) / (counts + 0.5)) ** _RARITY_POWER
        covered = np.bincount(np.concatenate(lists), weights.repeat(counts))
        most = weights.sum()
        alike = np.flatnonzero(covered >= COVERAGE_MIN * most)
        return alike.astype(np.uint32), covered[alike] / most

    def holding(self, part: str, *, begins: bool, ends: bool) -> Ids:
        """The words with a part in them: anywhere, or where the word begins, ends, or both."""
        if begins and ends and len(part) <= WORD_CHARS_MAX:
            number = self._numbers.get(part)
            return self._used(np.array([] if number is None else [number], np.uint32))
        # A long word is held in pieces: only so much of it surely lies in one of them.
        if begins:
            part, ends = part[:WORD_CHARS_STEP], False
        elif ends:
            part = part[-WORD_CHARS_STEP:]
        else:
            part = part[:WORD_CHARS_STEP]
        edges = f"{' ' * begins}{part}{' ' * ends}"
        words = self._words
        found = [number for number in self._candidates(edges) if edges in f" {words[number]} "]
        return self._used(np.array(found, np.uint32))

    def memory_bytes(self) -> int:
        """What the lexicon occupies, roughly: a word and its number in a dict, and the grams."""
        letters = sum(map(len, self._words))
        entries = len(self._numbers) * _ENTRY_BYTES
        return letters + entries + self._uses.nbytes + self._grams.memory_bytes()

    def _candidates(self, edges: str) -> Iterable[int]:
        if len(edges) < 2:
            return range(len(self._words))
        keys = np.unique(_grams_of(_code_points(edges))[0])
        rarest: list[int] = min(self._grams.lists(keys), key=len).tolist()
        return rarest

    def _used(self, numbers: Ids) -> Ids:
        return numbers if self._in_use == len(self._uses) else numbers[self._uses[numbers] > 0]

    def _index_new(self) -> None:
        """Put the grams of new words into the lists."""
        new = list(self._numbers)[len(self._words) :]
        if not new:
            return
        first = len(self._words)
        self._words += new
        code_points = _code_points(f" {' '.join(new)} ")
        keys, places = _grams_of(code_points)
        words = (np.cumsum(code_points == _SPACE)[places] + (first - 1)).astype(np.uint32)
        order = np.lexsort((words, keys))
        keys, words = keys[order], words[order]
        again = (keys[1:] == keys[:-1]) & (words[1:] == words[:-1])
        once = np.append(True, ~again)
        self._grams.add(keys[once], words[once])


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _gram_keys(word: str) -> Keys:
    return np.unique(_grams_of(_code_points(f" {word} "))[0])


def _grams_of(code_points: NDArray[np.uint32]) -> tuple[Keys, NDArray[np.intp]]:
    """The 2-grams and 3-grams within words, and the place of each one's first letter."""
    wide = code_points.astype(np.uint64)
    is_space = code_points == _SPACE
    pairs = wide[:-1] << _CODE_POINT_BITS | wide[1:]
    triples = wide[:-2] << (_CODE_POINT_BITS * np.uint64(2)) | pairs[1:]
    # Between two words stands one space: a triple around it belongs to neither.
    within = np.flatnonzero(~is_space[1:-1])
    keys = np.concatenate((pairs, triples[within]))
    return keys, np.concatenate((np.arange(len(pairs)), within))
