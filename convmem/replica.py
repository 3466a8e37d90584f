"""The state of a log: what the store replays into, and takes snapshots of.

To the storage library this is the ``Application``: it knows the types of record, takes
entries and snapshots in, and refuses those that cannot be.
"""

from collections.abc import Callable, Mapping
from zlib import crc32

from convmem import codec
from convmem.errors import InvalidRecord
from convmem.fact_index import FactIndex
from convmem.indexer import SAVED_NAMES, Indexer
from convmem.records import Place, Record
from convmem.state import State
from convmem.storage import Entry, Section
from convmem.storage import InvalidRecord as RejectedEntry


def unread(place: Place) -> Record:
    """For a state of which no body is ever asked: to judge a log takes none."""
    raise InvalidRecord(f"the record at byte {place.frame_offset} is not read here")


class Replica:
    """A state that follows a log. ``read_record`` is where the state gets bodies from."""

    known_types = codec.KNOWN_TYPES

    def __init__(self, read_record: Callable[[Place], Record] = unread) -> None:
        self._read_record = read_record
        self.state = State(read_record)
        self.indexer = Indexer(self.state)
        self.fact_index = FactIndex(self.state)

    def replay(self, entry: Entry) -> None:
        """Take an entry of the log in. Raises the store's InvalidRecord."""
        try:
            self.apply(codec.decode(entry.type, entry.payload), entry)
        except InvalidRecord as error:
            raise RejectedEntry(str(error)) from error

    def apply(self, record: Record, entry: Entry) -> None:
        """Take in a record of which the entry is known to be the bytes."""
        self.state.apply(record, Place(entry.frame_offset, entry.start))
        self.indexer.follow(record)
        self.fact_index.follow(record)

    def restore(self, sections: Mapping[int, memoryview]) -> None:
        """Take the state from a snapshot. Raises the store's InvalidRecord to decline it."""
        names = {_section_id(name): name for name in (*self.state.save(), *SAVED_NAMES)}
        saved = {names[id_]: section for id_, section in sections.items() if id_ in names}
        try:
            self.state.restore(saved)
        except InvalidRecord as error:
            raise RejectedEntry(str(error)) from error
        self.indexer.restore(saved)

    def reset(self) -> None:
        """Forget everything, to replay the log from its start."""
        self.state = State(self._read_record)
        self.indexer = Indexer(self.state)
        self.fact_index = FactIndex(self.state)

    def renew_index(self) -> None:
        """Begin the index again, if it was given up."""
        if self.indexer.failure is not None:
            self.indexer = Indexer(self.state)
        if self.fact_index.failure is not None:
            self.fact_index = FactIndex(self.state)

    def sections(self) -> Callable[[], list[Section]]:
        """Take a picture of the state, so that writes may go on; what is returned makes the
        sections of a snapshot of it, in any thread.
        """
        state, index = self.state.save(), self.indexer.save()

        def sections() -> list[Section]:
            return [
                Section(_section_id(name), column.itemsize, column.data)
                for name, column in (state | index()).items()
            ]

        return sections


def _section_id(name: str) -> int:
    """A column's number in a snapshot: of its name, so that a changed meaning gets another."""
    return crc32(name.encode())
