"""The search index of a state, behind it by what was applied last, and brought up before a search.

What is applied to the state is noted here in no time. Texts are read from the log and indexed
later: a few at a time right before a search, many in any one thread, beside the writes that
go on. While that thread runs the index is its own; whoever applies only adds to the notes.

The index holds nothing that the log does not. Saved with a snapshot it spares the work of
indexing; missing, of another version or damaged it is made again.

A message whose body cannot be read is left out, counted, and tried again by the next start.
Anything else that goes wrong here is a mistake of ours: the index is given up whole, since half
changed it would leave things out without a word. No write ever fails for it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.errors import InvalidRecord
from convmem.message import Message
from convmem.records import DeleteMessage, Record, UpdateMessage
from convmem.search import SAVED_COLUMNS, Document, SearchIndex
from convmem.state import State
from convmem.storage import StorageError

# What a search takes in on its way, texts and their bytes: some 10 ms. More is worth a thread.
AT_ONCE_TEXTS = 256
AT_ONCE_BYTES = 1 << 18

# Another meaning of the columns, or another way to cut texts into terms, needs another name.
_PREFIX = "search1."
_END = "end"
_STALE = "stale"
_TEXT_FIELDS = frozenset({"content", "summary", "tags"})

# Texts indexed in one go: enough that the work is in the arrays, few enough to hold in memory.
_CHUNK_TEXTS = 1 << 15
_CHUNK_CHARS = 1 << 22


class Indexer:
    """A search index that follows a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.index = SearchIndex()
        self._end = 0  # rows before it were indexed as they were then
        self._stale: set[int] = set()  # rows before it that were changed or deleted since
        self._unlinked: set[int] = set()  # rows that were deleted and stand in their session yet
        self._unreadable: set[int] = set()  # rows left out, because the log does not give them
        self._unsaved = 0  # texts that were indexed since it was saved or restored
        self.failure: str | None = None  # why there is no index, and will be none
        self._is_taken = False
        self._stopping = False

    def follow(self, record: Record) -> None:
        """Note what was applied to the state."""
        try:
            self._note(record)
        except Exception as error:
            self._give_up(error)

    def _note(self, record: Record) -> None:
        match record:
            case UpdateMessage() if _TEXT_FIELDS.isdisjoint(record.changes):
                pass
            case UpdateMessage(message_id=message_id) | DeleteMessage(message_id=message_id):
                row = self._state.messages.row(message_id)
                assert row is not None
                self._stale.add(row)
                if isinstance(record, DeleteMessage):
                    self._unlinked.add(row)
            case _:
                pass  # a new row shows by its number

    @property
    def backlog(self) -> int:
        """Messages that are not indexed as they are now."""
        return len(self._state.messages) - self._end + len(self._stale)

    @property
    def is_behind(self) -> bool:
        """Whether there is anything to catch up on."""
        if self.failure is not None:
            return False
        return self.backlog > 0 or len(self.index) < len(self._state.messages)

    @property
    def is_taken(self) -> bool:
        """Whether the index is a thread's own for now."""
        return self._is_taken

    @property
    def is_far_behind(self) -> bool:
        """Whether catching up is too much to do on the way."""
        if self.failure is not None:
            return False
        if self.backlog > AT_ONCE_TEXTS:
            return True
        content_bytes = self._state.messages.column("content_bytes")
        # Asked with every write, and of few rows: a list takes a tenth of the time of an array.
        waiting: int = sum(content_bytes[self._end :].tolist())
        waiting += sum(int(content_bytes[row]) for row in self._stale)
        return waiting > AT_ONCE_BYTES

    @property
    def unreadable(self) -> int:
        """Messages that are not indexed because the log does not give their bodies."""
        return len(self._unreadable)

    def catch_up(self) -> Callable[[], None]:
        """Take what was noted; what is returned indexes it, in any thread, and is to be called.

        It does not raise. Where it was stopped, the rest is left for the next time.
        """
        assert not self._is_taken, "one thread at a time"
        messages = self._state.messages
        rows = np.arange(len(messages), dtype=np.uint32)
        present = np.zeros(len(rows), bool)
        present[messages.live(rows)] = True
        sessions = messages.column("session").copy()
        stale, self._stale = self._stale, set()
        unlinked, self._unlinked = self._unlinked, set()
        self._is_taken, self._stopping = True, False

        def work() -> None:
            try:
                self._link(sessions, present, unlinked)
                self._take_in(stale, present)
            except Exception as error:
                self._give_up(error)
            finally:
                self._is_taken = False

        return work

    def stop(self) -> None:
        """Have a thread that indexes end soon; what it did so far counts."""
        self._stopping = True

    def memory_bytes(self) -> int | None:
        """What the index occupies, roughly; unknown while it is a thread's own."""
        return None if self._is_taken else self.index.memory_bytes()

    @property
    def is_worth_saving(self) -> bool:
        """Whether saved columns would spare the next start much that the last ones do not."""
        return not self._is_taken and self._unsaved > AT_ONCE_TEXTS

    def save(self) -> Callable[[], dict[str, NDArray[Any]]]:
        """Take a picture of the index and what it still lacks; what is returned makes named
        columns of it, in any thread. None while the index is a thread's own.
        """
        if self._is_taken or self.failure is not None:
            return dict
        self._unsaved = 0
        index = self.index.save()
        end = np.array([self._end], np.uint64)
        stale = np.array(sorted(self._stale | self._unreadable), np.uint32)

        def columns() -> dict[str, NDArray[Any]]:
            found = {**index(), _END: end, _STALE: stale}
            return {_PREFIX + name: column for name, column in found.items()}

        return columns

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot, if there are any that can be used."""
        columns = {name.removeprefix(_PREFIX): column for name, column in saved.items()}
        index = SearchIndex.restored(columns)
        try:
            (end,) = np.frombuffer(columns[_END], np.uint64).tolist()
            stale = np.frombuffer(columns[_STALE], np.uint32).tolist()
        except (KeyError, ValueError):
            return
        if index is not None and max([end, *stale]) <= len(self._state.messages):
            self.index, self._end, self._stale = index, end, set(stale)

    def _link(
        self, sessions: NDArray[np.uint32], present: NDArray[np.bool_], unlinked: set[int]
    ) -> None:
        """Give new rows their place in their session, and take deleted ones out of theirs."""
        known = len(self.index)
        self.index.remove_rows([row for row in unlinked if row < known], sessions)
        self.index.extend(sessions[known:], present[known:])

    def _take_in(self, stale: set[int], present: NDArray[np.bool_]) -> None:
        """Index changed texts anew, then new ones, as far as it gets."""
        if stale:
            self.index.remove_texts(stale)
            self._unreadable -= stale
        again = [row for row in stale if row < self._end and present[row]]
        while again and not self._stopping:
            del again[: self._index_some(again)]
        self._stale.update(again)
        new = (np.flatnonzero(present[self._end :]) + self._end).tolist()
        self._end = new[0] if new else len(present)
        while new and not self._stopping:
            del new[: self._index_some(new)]
            self._end = new[0] if new else len(present)

    def _index_some(self, rows: list[int]) -> int:
        """Index the first of these rows, as many as are indexed in one go; how many they are."""
        documents: list[Document] = []
        chars = taken = 0
        for row in rows[:_CHUNK_TEXTS]:
            if chars > _CHUNK_CHARS or self._stopping:
                break
            taken += 1
            try:
                message = self._state.message(row)
            except (InvalidRecord, StorageError):
                self._unreadable.add(row)
                continue
            documents.append(document_of(row, message))
            chars += len(message.content)
        self.index.add(documents)
        self._unsaved += taken
        return taken

    def _give_up(self, error: Exception) -> None:
        """Do without an index from now on."""
        self.failure = (
            f"the search index was given up after a mistake ({error!r}); messages are safe, and "
            "rebuild_index or a restart of the server makes the index again"
        )
        self.stop()
        self.index = SearchIndex()
        self._end = self._unsaved = 0
        self._stale, self._unlinked, self._unreadable = set(), set(), set()


def document_of(row: int, message: Message) -> Document:
    """The texts of a message that can be found."""
    metadata = message.metadata
    return Document(row, message.content, metadata.summary, metadata.tags)


SAVED_NAMES = tuple(_PREFIX + name for name in (*SAVED_COLUMNS, _END, _STALE))
"""The columns that ``save`` gives."""
