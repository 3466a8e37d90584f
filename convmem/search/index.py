"""The index: which segments of which messages hold which terms.

A segment is a piece of one field of one message. Segments are numbered as they come and lie
in blocks of 65,536, so that a posting takes two bytes. A message that is gone leaves its
segments behind as nobody's; they are told apart when lists are read, and go when the log is
compacted. Everything that is counted (segments, lengths, uses of words) counts what is there
only, so that an index made in one go from the same messages ranks the same.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.search.lexicon import Lexicon, Numbers
from convmem.search.postings import Keys, PostingLists
from convmem.search.terms import is_word, tag_keys, terms_of, word_keys, word_numbers
from convmem.search.text import fold, segments

BLOCK_SEGMENTS = 1 << 16
NOBODY = 0xFFFF_FFFF
"""The row of a segment whose message is gone, or has another text now."""

_PLACE_BITS = np.uint64(16)
_LENGTH_MAX = 0xFFFF


Places = NDArray[np.integer[Any]]
"""Numbers of segments within their block."""


class Field(IntEnum):
    """Where in a message a text stands."""

    CONTENT = 0
    SUMMARY = 1
    TAGS = 2

    @property
    def label(self) -> str:
        """Its name as a reply has it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Document:
    """The texts of a message, by the number of its row."""

    row: int
    content: str
    summary: str | None = None
    tags: tuple[str, ...] = ()


class Block:
    """Up to 65,536 segments: row, field and length (code points) of each, and their terms.

    Its arrays are replaced, not changed: they may be those of a snapshot, or go into one.
    """

    def __init__(self) -> None:
        self.rows: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.fields: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.lengths: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self.postings = PostingLists(np.uint16)
        self.has_dead = False

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def restored(
        cls,
        rows: NDArray[np.uint32],
        fields: NDArray[np.uint8],
        lengths: NDArray[np.uint16],
        postings: tuple[Keys, NDArray[np.uint32], NDArray[np.uint16]],
    ) -> "Block":
        """The block of saved columns."""
        block = cls()
        block.rows, block.fields, block.lengths = rows, fields, lengths
        block.postings.restore(*postings)
        block.has_dead = bool((rows == NOBODY).any())
        return block

    def live(self, places: Places) -> Places:
        """Those of the segments whose message is there."""
        return places[self.rows[places] != NOBODY] if self.has_dead else places

    def counts(self, keys: Keys) -> NDArray[np.int64]:
        """How many segments of messages that are there hold each term."""
        if not self.has_dead:
            return self.postings.counts(keys)
        return np.array([len(self.live(places)) for places in self.postings.lists(keys)], np.int64)

    def append(
        self, rows: NDArray[np.uint32], fields: NDArray[np.uint8], lengths: NDArray[np.uint16]
    ) -> None:
        self.rows = np.concatenate((self.rows, rows))
        self.fields = np.concatenate((self.fields, fields))
        self.lengths = np.concatenate((self.lengths, lengths))

    def forget(self, dead: NDArray[np.bool_]) -> None:
        """Make some of the segments nobody's."""
        self.rows = self.rows.copy()
        self.rows[dead] = NOBODY
        self.has_dead = True

    def memory_bytes(self) -> int:
        """What the block occupies, roughly."""
        columns = self.rows.nbytes + self.fields.nbytes + self.lengths.nbytes
        return columns + self.postings.memory_bytes()


class Index:
    """The segments of all documents, in blocks, over one lexicon."""

    def __init__(self) -> None:
        self.lexicon = Lexicon()
        self.tags = Numbers()
        self.blocks: list[Block] = []
        self.live_segments = 0
        self.live_chars = 0

    def add(self, documents: Sequence[Document]) -> None:
        """Index documents of rows that are not indexed."""
        for first in range(0, len(documents), _DOCUMENTS_AT_ONCE):
            self._add(_cut(documents[first : first + _DOCUMENTS_AT_ONCE]))

    def remove(self, rows: Collection[int]) -> None:
        """Forget the documents of these rows; those that are not indexed are passed over."""
        gone = np.fromiter(rows, np.uint32, len(rows))
        for block in self.blocks:
            dead = np.isin(block.rows, gone)
            if not dead.any():
                continue
            counts = block.postings.count_marked(dead)
            keys = np.fromiter(counts, np.uint64, len(counts))
            uses = np.fromiter(counts.values(), np.int64, len(counts))
            are_words = is_word(keys)
            self.lexicon.count_uses(word_numbers(keys[are_words]), -uses[are_words])
            self.live_segments -= int(np.count_nonzero(dead))
            self.live_chars -= int(block.lengths[dead].sum(dtype=np.int64))
            block.forget(dead)

    def counts(self, keys: Keys) -> NDArray[np.int64]:
        """How many segments hold each term."""
        return sum((block.counts(keys) for block in self.blocks), np.zeros(len(keys), np.int64))

    def mark_rows(self, keys: Keys, rows: int) -> NDArray[np.bool_]:
        """Which of so many rows hold any of the terms."""
        marked = np.zeros(rows, bool)
        for block in self.blocks:
            places, _ = block.postings.joined(keys)
            marked[block.rows[block.live(places)]] = True
        return marked

    def rows_with_tag(self, tag: str, rows: int) -> NDArray[np.bool_]:
        """Which of so many rows have a tag, exactly so."""
        number = self.tags.get(tag)
        numbers = [] if number is None else [number]
        return self.mark_rows(tag_keys(np.array(numbers, np.uint32)), rows)

    def restore(self, lexicon: Lexicon, tags: list[str], blocks: Iterable[Block]) -> None:
        """Take what was saved of an index; this one is empty yet."""
        self.lexicon = lexicon
        self.tags.of(tags)
        for block in blocks:
            live = block.rows != NOBODY
            self.blocks.append(block)
            self.live_segments += int(np.count_nonzero(live))
            self.live_chars += int(block.lengths[live].sum(dtype=np.int64))

    def memory_bytes(self) -> int:
        """What the index occupies, roughly."""
        return self.lexicon.memory_bytes() + sum(block.memory_bytes() for block in self.blocks)

    def _add(self, cut: "_Cut") -> None:
        if not cut.segments:
            return
        texts = np.array(cut.texts, np.uint32)
        terms = terms_of(cut.segments, texts)
        words = word_keys(self.lexicon.numbers(terms.words))
        tags = tag_keys(self.tags.of(cut.tags))
        keys = np.concatenate((words, tags, terms.keys))
        tag_places = np.array(cut.tag_places, np.uint32)
        places = np.concatenate((terms.word_places, tag_places, terms.key_places))
        rows = np.array(cut.rows, np.uint32)
        fields = np.array(cut.fields, np.uint8)
        lengths = np.array([min(len(each), _LENGTH_MAX) for each in cut.segments], np.uint16)
        added: list[NDArray[np.uint32]] = []
        first = 0
        while first < len(rows):
            if not self.blocks or len(self.blocks[-1]) == BLOCK_SEGMENTS:
                self.blocks.append(Block())
            block = self.blocks[-1]
            last = min(len(rows), first + BLOCK_SEGMENTS - len(block))
            here = (places >= first) & (places < last)
            local = places[here] - np.uint32(first) + np.uint32(len(block))
            pairs = np.sort(keys[here] << _PLACE_BITS | local)
            again = np.flatnonzero(pairs[1:] == pairs[:-1])
            pairs = np.delete(pairs, again)
            block_keys = pairs >> _PLACE_BITS
            block.postings.add(block_keys, pairs.astype(np.uint16))
            added.append(word_numbers(block_keys[is_word(block_keys)]))
            block.append(rows[first:last], fields[first:last], lengths[first:last])
            first = last
        self.lexicon.count_uses(np.concatenate(added), 1)
        self.live_segments += len(rows)
        self.live_chars += int(lengths.sum(dtype=np.int64))


# Enough that numpy's work is in the arrays, few enough that these stay small beside the index.
_DOCUMENTS_AT_ONCE = 1 << 14


@dataclass(slots=True)
class _Cut:
    """Documents cut into segments: for each its row, its field, and the number of its text."""

    segments: list[str]
    rows: list[int]
    fields: list[Field]
    texts: list[int]
    tags: list[str]
    tag_places: list[int]


def _cut(documents: Sequence[Document]) -> _Cut:
    cut = _Cut([], [], [], [], [], [])
    text = 0
    for document in documents:
        for field, pieces in _fields(document):
            if field is Field.TAGS:
                cut.tags += document.tags
                cut.tag_places += [len(cut.segments)] * len(document.tags)
            text += 1
            for piece in pieces:
                cut.segments.append(piece)
                cut.rows.append(document.row)
                cut.fields.append(field)
                cut.texts.append(text)
    return cut


def _fields(document: Document) -> Iterator[tuple[Field, list[str]]]:
    yield Field.CONTENT, segments(fold(document.content))
    if document.summary:
        yield Field.SUMMARY, segments(fold(document.summary))
    if document.tags:
        yield Field.TAGS, ["\n".join(map(fold, document.tags))]
