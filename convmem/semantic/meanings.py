"""The vectors of what a memory holds, and how near each message and fact is to a query.

Behind the state, as the search index is: what was written or changed since is found by comparing
revisions, whenever and however it was written. Kept in a file of its own (``vectors``), so that a
start need not embed anything again; its keys are ids and digests, so that it names nothing.

A thread of the owner adds to it (``convmem.recall``); queries come from the event loop. The lock
is held for as long as an array is extended, or a query is answered.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmem.errors import InvalidRecord
from convmem.fact import Fact
from convmem.search.text import SEGMENT_CHARS_MAX, segments
from convmem.semantic.embedder import Embedder
from convmem.semantic.vectors import (
    Rows,
    Table,
    decode,
    encode_block,
    encode_header,
    rows_of,
)
from convmem.state import State
from convmem.storage import VECTORS, Disk, File, StorageError

SUFFIX = ".cvv"

_KEY_BYTES = 16
_SAVED_ROWS = 256  # gathered to a block
_NOBODY = -1
_REPLACED_ROWS_MAX = 4096  # kept, however few others there are

Cosines = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Text:
    """Something to embed: whose it is, at what revision, and its segments."""

    key: bytes
    revision: int
    segments: tuple[str, ...]


@dataclass(slots=True)
class _Entry:
    """The rows of a text as it was at a revision."""

    revision: int
    rows: range


class Meanings:
    """The vectors of one model over the files of one disk."""

    def __init__(self, disk: Disk, name: str, embedder: Embedder) -> None:
        self._disk = disk
        self._name = name
        self._embedder = embedder
        self._lock = threading.Lock()
        self._table = Table(embedder.dimensions)
        self._entries: dict[bytes, _Entry] = {}
        self._file: File | None = None
        self._file_bytes = 0
        self._unsaved: list[tuple[bytes, _Entry]] = []
        self._state: State | None = None
        self._owners = np.zeros(0, np.int64)  # the message row of each row of the table
        self._done = np.zeros(0, np.uint32)  # the revision at which each message is embedded
        self._fact_revisions: dict[str, int] = {}
        self._facts_left = 0  # when it was last surveyed
        self._replaced_rows = 0  # of the table, by later ones
        self.unreadable = 0
        self.failure: str | None = None  # of the file: the next start embeds again

    def open(self) -> None:
        """Read what an earlier run has left. Blocks; a file of no use is begun anew."""
        try:
            data = self._read()
            blocks, end = decode(data, self._embedder.name, self._embedder.dimensions)
            for rows in blocks:
                self._take(rows)
            self._begin_file(data, end)
        except OSError as error:
            self._file, self.failure = None, f"vectors are not kept: {error}"

    def follow(self, state: State) -> None:
        """Tell the rows of a state, as a rebuild makes another. Blocks a while."""
        owners = np.full(len(self._table), _NOBODY, np.int64)
        done = np.zeros(len(state.messages), np.uint32)
        for key, entry in self._entries.items():
            row = state.messages.live_row(key)
            if row is not None:
                owners[entry.rows.start : entry.rows.stop] = row
                done[row] = entry.revision
        with self._lock:
            self._state, self._owners, self._done = state, owners, done
        self.survey()

    def holds_what_is_gone(self) -> bool:
        """Whether there are vectors of deleted messages or facts."""
        return self._state is not None and bool(self._gone(self._state))

    def leave(self) -> None:
        """The state is not that any more: nothing is known until ``follow``."""
        with self._lock:
            self._state = None
            self._owners = np.full(len(self._table), _NOBODY, np.int64)

    def survey(self) -> list[str | int]:
        """What is not embedded as it is now: keys of facts, then rows, the newest first."""
        state = self._state
        assert state is not None
        keys = [
            history.key
            for history in list(state.facts)
            if history.value_place is not None
            and self._fact_revision(history.key) != history.revision
        ]
        self._facts_left = len(keys)
        return [*keys, *self._missing_rows(state)[::-1].tolist()]

    def texts_of(self, wanted: list[str | int]) -> list[Text]:
        """The texts to embed of some of these. Blocks: they are read from the log."""
        state = self._state
        assert state is not None
        texts = []
        for each in wanted:
            try:
                if isinstance(each, int):
                    message = state.message(each)
                    segments = _segments_of(message.content)
                    texts.append(Text(message.message_id, message.revision, segments))
                elif (fact := state.fact(each)) is not None:
                    said = _sentences_of(fact)
                    texts.append(Text(fact_key(fact.key), fact.revision, said))
                    self._fact_revisions[fact.key] = fact.revision
            except (InvalidRecord, StorageError):
                self.unreadable += 1
                if isinstance(each, int):  # not again and again
                    key, revision = state.messages.id(each), int(state.messages.revision(each))
                    texts.append(Text(key, revision, ()))
        return texts

    def add(self, texts: list[Text], vectors: NDArray[np.float32]) -> None:
        """Take in the vectors of the segments of texts, in their order."""
        keys = [text.key for text in texts for _ in text.segments]
        revisions = [text.revision for text in texts for _ in text.segments]
        self._take(rows_of(keys, revisions, vectors))
        for text in texts:
            if self._state is not None and self._state.messages.row(text.key) is None:
                self._facts_left = max(0, self._facts_left - 1)
            if not text.segments:
                with self._lock:
                    self._replace(text.key, _Entry(text.revision, range(0)))
        self._unsaved += [(text.key, self._entries[text.key]) for text in texts if text.segments]
        if len(self._unsaved) >= _SAVED_ROWS:
            self.save()

    def save(self) -> None:
        """Write what was added since to the file. Does not raise."""
        unsaved, self._unsaved = self._unsaved, []
        if self._file is None or not unsaved:
            return
        try:
            block = encode_block(self._rows_of(unsaved))
            self._file.pwrite(self._file_bytes, block)
            self._file_bytes += len(block)
        except OSError as error:
            self._file, self.failure = None, f"vectors are not kept any more: {error}"

    def forget(self) -> None:
        """Write the file anew without what is gone, as a rebuild does. Does not raise."""
        state = self._state
        if state is None:
            return
        gone = self._gone(state)
        kept = {key: entry for key, entry in self._entries.items() if key not in gone}
        rows = self._rows_of([item for item in kept.items() if len(item[1].rows)])
        with self._lock:
            self._table, self._entries = Table(self._embedder.dimensions), {}
            self._owners = np.zeros(0, np.int64)
            self._fact_revisions = {}
        self._unsaved = []
        self._replaced_rows = 0
        self._take(rows)
        self.follow(state)
        with suppress(OSError):
            forget_files(self._disk, but=self._name)
            self._begin_file(b"", 0)
            self._unsaved = list(self._entries.items())
        self.save()

    @property
    def is_wasteful(self) -> bool:
        """Whether it is worth to write the file anew, without what is gone or was replaced."""
        return self._replaced_rows > max(_REPLACED_ROWS_MAX, len(self._table) // 2)

    def close(self) -> None:
        """Save the rest."""
        self.save()
        if self._file is not None:
            self._file.close()
            self._file = None

    def message_cosines(self, query: NDArray[np.float32], rows: int) -> Cosines:
        """How near each of the first messages is: float32, NaN where it is not embedded."""
        with self._lock:
            return self._best(self._table.cosines(query), self._owners, rows)

    def fact_cosines(self, query: NDArray[np.float32], keys: list[str]) -> Cosines:
        """The same of facts by key."""
        with self._lock:
            near = self._table.cosines(query)
            found = np.full(len(keys), np.nan, np.float32)
            for place, key in enumerate(keys):
                entry = self._entries.get(fact_key(key))
                if entry is not None and len(entry.rows):
                    found[place] = near[entry.rows.start : entry.rows.stop].max()
            return found

    @property
    def covered(self) -> tuple[int, int]:
        """Messages and facts that are embedded as they are now, and how many there are."""
        state = self._state
        if state is None:
            return 0, 0
        messages = len(state.messages) - state.messages.deleted
        left = len(self._missing_rows(state)) + self._facts_left
        return max(0, messages + state.facts.live - left), messages + state.facts.live

    def memory_bytes(self) -> int:
        """What the vectors occupy, roughly."""
        return self._table.memory_bytes() + 300 * len(self._entries)

    def _take(self, rows: Rows) -> None:
        """Add rows; those of one key and revision stand together."""
        with self._lock:
            added = self._table.add(rows)
            self._owners = np.concatenate(
                (self._owners, np.full(len(added), _NOBODY, self._owners.dtype))
            )
            start = 0
            while start < len(rows):
                key, end = rows.keys[start], start + 1
                while end < len(rows) and rows.keys[end] == key:
                    end += 1
                here = range(added.start + start, added.start + end)
                self._replace(key, _Entry(int(rows.revisions[start]), here))
                start = end

    def _replace(self, key: bytes, entry: _Entry) -> None:
        """Let an entry count, and no longer the one of that key before it."""
        old = self._entries.get(key)
        if old is not None:
            self._owners[old.rows.start : old.rows.stop] = _NOBODY
            self._replaced_rows += len(old.rows)
        self._entries[key] = entry
        row = None if self._state is None else self._state.messages.live_row(key)
        if row is None:
            return
        self._owners[entry.rows.start : entry.rows.stop] = row
        if row >= len(self._done):
            grown = np.zeros(max(256, 2 * (row + 1)), np.uint32)
            grown[: len(self._done)] = self._done
            self._done = grown
        self._done[row] = entry.revision

    def _missing_rows(self, state: State) -> NDArray[np.int64]:
        count = len(state.messages)
        live = state.messages.live(np.arange(count, dtype=np.uint32)).astype(np.int64)
        done = np.zeros(count, np.uint32)
        known = min(count, len(self._done))
        done[:known] = self._done[:known]
        revisions = state.messages.column("revision")[:count]
        missing: NDArray[np.int64] = live[done[live] != revisions[live]]
        return missing

    def _gone(self, state: State) -> set[bytes]:
        """Of what there are vectors and nothing else any more."""
        facts = {fact_key(each.key) for each in list(state.facts) if each.value_place is not None}
        return {key for key in self._entries.keys() - facts if state.messages.live_row(key) is None}

    def _fact_revision(self, key: str) -> int:
        """The revision at which a fact is embedded, 0 for none."""
        known = self._fact_revisions.get(key)
        if known is None:
            entry = self._entries.get(fact_key(key))
            known = self._fact_revisions[key] = 0 if entry is None else entry.revision
        return known

    def _best(self, near: Cosines, owners: NDArray[np.int64], rows: int) -> Cosines:
        best = np.full(rows, -2, np.float32)
        counts = (owners >= 0) & (owners < rows)
        np.maximum.at(best, owners[counts], near[: len(owners)][counts])
        best[best < -1.5] = np.nan
        return best

    def _rows_of(self, entries: list[tuple[bytes, _Entry]]) -> Rows:
        keys = [key for key, entry in entries for _ in entry.rows]
        revisions = [entry.revision for _, entry in entries for _ in entry.rows]
        places = [row for _, entry in entries for row in entry.rows]
        return self._table.rows(keys, revisions, places)

    def _read(self) -> bytes:
        try:
            self._file = self._disk.open(self._name)
        except FileNotFoundError:
            return b""
        return self._file.pread(0, self._file.size())

    def _begin_file(self, data: bytes, end: int) -> None:
        """Go on behind what could be read of the file, or begin another."""
        if not end:
            if self._file is not None:
                self._file.close()
                self._disk.unlink(self._name)
            self._file = self._disk.create(self._name)
            header = encode_header(self._embedder.name, self._embedder.dimensions)
            self._file.pwrite(0, header)
            end = len(header)
        elif self._file is not None and end < len(data):
            self._file.truncate(end)
        self._file_bytes = end


def fact_key(key: str) -> bytes:
    """What stands for a fact in the file: it does not tell the key."""
    return hashlib.sha256(b"fact " + key.encode()).digest()[:_KEY_BYTES]


def forget_files(disk: Disk, but: str | None = None) -> None:
    """Take away the files of vectors, of whatever model. Raises OSError."""
    for name in disk.names(VECTORS):
        path = f"{VECTORS}/{name}"
        if name.endswith(SUFFIX) and path != but:
            disk.unlink(path)


def _segments_of(text: str) -> tuple[str, ...]:
    """The segments of a text. Of a longer run without spaces, which is data, only the start.

    A model takes some 17 KB for each token it looks at together.
    """
    return tuple(segment[:SEGMENT_CHARS_MAX] for segment in segments(text))


def _sentences_of(fact: Fact) -> tuple[str, ...]:
    """A fact as it might be said: ``user/theme`` = ``dark mode`` is about a theme, and a user's.

    The last part of a key says most; with a mark between key and value models are less sure.
    """
    *_, last = parts = ["".join(_spaced(part)) for part in fact.key.split("/")]
    said = dict.fromkeys((f"{last} {fact.value}", f"{' '.join(parts)} {fact.value}"))
    return tuple(segment for text in said for segment in _segments_of(text))


def _spaced(part: str) -> Iterator[str]:
    return (char if char.isalnum() else " " for char in part)
