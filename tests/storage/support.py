"""What the storage tests share: a store with chosen clock and randomness, and its logs."""

from collections.abc import Callable

from convmem.storage import (
    Disk,
    End,
    Entry,
    Environment,
    MemoryDisk,
    Record,
    Store,
    decode_header,
    scan,
    start_of,
)
from convmem.storage import FileHeader as FileHeader

LOG = "log-00000001.cvl"
KNOWN_TYPES = frozenset({1, 2, 0x81})


def environment(seed: int = 1) -> Environment:
    """Clock and randomness that give the same store for the same seed."""

    def random_bytes(count: int) -> bytes:
        return bytes((seed * 7 + 13 * index) % 256 for index in range(count))

    return Environment(lambda: 1_700_000_000_000, random_bytes, bytes(range(16)))


def open_store(
    disk: Disk, entries: list[Entry] | None = None, known_types: frozenset[int] = KNOWN_TYPES
) -> Store:
    """Open, collecting what is replayed in `entries`."""
    replayed: list[Entry] = [] if entries is None else entries
    return Store.open(disk, environment(), known_types=known_types, replay=replayed.append)


def replayed(disk: Disk) -> list[Record]:
    """The records that opening the disk gives; the store is closed again."""
    entries: list[Entry] = []
    open_store(disk, entries).close()
    return [Record(entry.type, entry.payload) for entry in entries]


def log_of(*appends: list[Record]) -> bytes:
    """The log file of a new store after these appends."""
    disk = MemoryDisk()
    store = open_store(disk)
    for records in appends:
        store.append(records)
    store.close()
    return disk.files[LOG]


class Bytes:
    """A log that is only its bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def size(self) -> int:
        return len(self.data)

    def pread(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]


def scan_bytes(data: bytes, handler: Callable[[Entry], None] = lambda entry: None) -> End:
    """Scan a log whose file header is sound."""
    header = decode_header(data)
    assert isinstance(header, FileHeader)
    handlers = dict.fromkeys(KNOWN_TYPES | {4, 5}, handler)
    return scan(Bytes(data), start_of(header), header.salt, handlers)
