"""What the storage tests share: a store with chosen clock and randomness, and its logs."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from convmem.storage import (
    Compacted,
    Disk,
    End,
    Entry,
    Environment,
    FileHeader,
    InvalidRecord,
    MemoryDisk,
    Record,
    Section,
    Store,
    decode_header,
    encode_frame,
    encode_header,
    scan,
    start_of,
)

LOG = "log-00000001.cvl"
KNOWN_TYPES = frozenset({1, 2, 0x81})
TYPES, LENGTHS, PAYLOADS = 1, 2, 3  # the sections of a snapshot


def environment(seed: int = 1) -> Environment:
    """Clock and randomness that give the same store for the same seed."""
    calls = iter(range(1 << 20))

    def random_bytes(count: int) -> bytes:
        turn = seed * 7 + 5 * next(calls)
        return bytes((turn + 13 * index) % 256 for index in range(count))

    return Environment(lambda: 1_700_000_000_000, random_bytes, bytes(range(16)))


class Notes:
    """An application whose state is the list of all records; a snapshot of it holds them all."""

    known_types = KNOWN_TYPES

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.entries: list[Entry] = []
        self.resets = 0

    def restore(self, sections: Mapping[int, memoryview]) -> None:
        try:
            lengths, payloads = sections[LENGTHS].cast("Q"), bytes(sections[PAYLOADS])
            ends = list(accumulate(lengths, initial=0))
            pieces = [payloads[start:end] for start, end in pairwise(ends)]
            self.records = list(map(Record, bytes(sections[TYPES]), pieces))
        except KeyError as error:
            raise InvalidRecord("a snapshot of another application") from error

    def reset(self) -> None:
        self.resets += 1
        self.records.clear()
        self.entries.clear()

    def replay(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.records.append(Record(entry.type, entry.payload))

    def sections(self) -> list[Section]:
        lengths = array("Q", [len(record.payload) for record in self.records])
        return [
            Section(TYPES, 1, bytes(record.type for record in self.records)),
            Section(LENGTHS, 8, memoryview(lengths)),
            Section(PAYLOADS, 1, b"".join(record.payload for record in self.records)),
        ]


class Knowing(Notes):
    """The same, of other types."""

    def __init__(self, known_types: frozenset[int]) -> None:
        super().__init__()
        self.known_types = known_types


def open_store(disk: Disk, notes: Notes | None = None, seed: int = 1) -> Store:
    """Open, restoring and replaying to `notes`.

    A store that is opened to make another log needs another seed, as the first has a salt.
    """
    return Store.open(disk, environment(seed), notes or Notes())


def write_snapshot(store: Store, notes: Notes) -> None:
    """Write what the notes hold, all that is in the store, as a snapshot."""
    store.write_snapshot(store.position(), notes.sections(), (len(notes.records), 0))


def compact(store: Store, records: Iterable[Record], expected_bytes: int = 0) -> Compacted:
    """Write a new log of these records; what they become is left to the next replay."""
    return store.compact(
        records, (0, 0), expected_bytes=expected_bytes, on_entry=ignore, progress=ignore
    )


def ignore(what: object) -> None:
    """Nothing."""


def replayed(disk: Disk) -> list[Record]:
    """The records that opening the disk gives; the store is closed again."""
    notes = Notes()
    open_store(disk, notes).close()
    return notes.records


def log_of(*appends: Sequence[Record], seed: int = 1) -> bytes:
    """The log file of a new store after these appends."""
    disk = MemoryDisk()
    store = open_store(disk, seed=seed)
    for records in appends:
        store.append(records)
    store.close()
    return disk.files[LOG]


def log_with(frames: Sequence[tuple[int, bytes]], parent: int = 0) -> bytes:
    """A log of these frames, by type and payload, that the store itself may not write."""
    header = FileHeader(salt=5, generation=1, store_id=bytes(16), first_seq=1, parent=parent)
    log, chain = encode_header(header), header.salt
    for seq, (type, payload) in enumerate(frames, header.first_seq):
        frame, chain = encode_frame(type, seq, chain, header.salt, payload)
        log += frame
    return log


def crc32c(data: bytes | bytearray, seed: int = 0) -> int:
    """CRC-32C bit by bit: the formula, apart from the library that the store uses."""
    crc = seed ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Bytes:
    """A log that is only its bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def size(self) -> int:
        return len(self.data)

    def pread(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]


def header_of(log: bytes) -> FileHeader:
    """The file header of a log in which it is sound."""
    header = decode_header(log)
    assert isinstance(header, FileHeader)
    return header


def scan_bytes(log: bytes, handler: Callable[[Entry], None] = lambda entry: None) -> End:
    """Scan a log whose file header is sound, the log's own records included."""
    header = header_of(log)
    handlers = dict.fromkeys(KNOWN_TYPES | {4, 5}, handler)
    return scan(Bytes(log), start_of(header), header.salt, handlers)


def frames_of(log: bytes) -> list[tuple[int, int]]:
    """Where each frame of a sound log begins and ends."""
    starts: list[int] = []
    scan_bytes(log, lambda entry: starts.append(entry.frame_offset))
    starts = sorted(set(starts))
    return list(zip(starts, [*starts[1:], len(log)], strict=True))
