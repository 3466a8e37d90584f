"""A store: one directory with one log, held by one process. The façade of the library.

`Store.open` locks, recovers and replays; `append` makes records durable; `read` gives a
record again. The store knows what its records are called, not what they mean.
One thread appends; reads may run in others at the same time.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from .disk import Counters, Disk
from .errors import DiskFull, InvalidRecord, StoreUnavailable
from .format import OWN_TYPES, Entry, Record
from .layout import LOG_SUFFIX, QUARANTINE, parse
from .log import NO_ROOM, Environment, Log
from .recovery import Recovery, Replay, recover


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What an operator may want to know; sizes in bytes.

    `failed` is why the store accepts no more writes. The counters begin with the disk;
    `directory_flushes` are those of the directory's entries. `strange_names` are files in
    the directory that are not the store's.
    """

    store_id: bytes
    generation: int
    next_seq: int
    log_bytes: int
    recovery: Recovery
    failed: str | None
    quarantine_files: int
    quarantine_bytes: int
    log_io: Counters
    directory_flushes: int
    strange_names: tuple[str, ...]


class Store:
    """An open store. Made by `Store.open`."""

    def __init__(
        self,
        disk: Disk,
        log: Log,
        recovery: Recovery,
        known_types: frozenset[int],
        resources: ExitStack,
    ) -> None:
        self._disk = disk
        self._log = log
        self._recovery = recovery
        self._known_types = known_types
        self._resources = resources

    @classmethod
    def open(
        cls,
        disk: Disk,
        environment: Environment,
        *,
        known_types: frozenset[int],
        replay: Replay,
    ) -> "Store":
        """Open the store on `disk`, or make a new one, and replay what it holds.

        `replay` is called in log order for every record of a known type; it raises
        InvalidRecord for one of impossible content. Everything replayed is durable when
        this returns.

        Raises StoreLocked, MissingLog, CorruptLog, FormatTooNew, DiskFull,
        StoreUnavailable; ValueError for a type that is the store's own.
        """
        if known_types & OWN_TYPES:
            raise ValueError(f"types {sorted(OWN_TYPES)} are the store's own")
        with ExitStack() as resources, _refusals(disk):
            disk.make_directory()
            lock = disk.lock(environment.host_id.hex(), environment.now_ms())
            resources.callback(lock.release)
            log, recovery = recover(disk, environment, known_types, replay)
            resources.callback(log.close)
            return cls(disk, log, recovery, known_types, resources.pop_all())

    @property
    def next_seq(self) -> int:
        """The sequence that the next appended frame will carry."""
        return self._log.end.seq

    @property
    def failed(self) -> str | None:
        """Why the store accepts no more writes, None while it does."""
        return self._log.failed

    def append(self, records: Sequence[Record]) -> list[Entry]:
        """Make the records durable, together or not at all: one write, one sync.

        One record becomes a frame of its own, several become one batch.

        Raises InvalidRecord (unknown type, or over a limit), DiskFull, StoreFailed.
        """
        for record in records:
            if record.type not in self._known_types:
                raise InvalidRecord(f"type {record.type} is not known to this application")
        return self._log.append(records)

    def read(self, frame_offset: int, start: int) -> Record:
        """The record of an `Entry.frame_offset` and `Entry.start`, its frame verified.

        Raises CorruptLog, StoreUnavailable.
        """
        return self._log.read(frame_offset, start)

    def status(self) -> StoreStatus:
        """The state of the store; lists the directory. Raises StoreUnavailable."""
        with _refusals(self._disk):
            listing = parse(self._disk.names())
            quarantine = self._disk.names(QUARANTINE)
        counters = self._disk.counters
        return StoreStatus(
            store_id=self._log.header.store_id,
            generation=self._log.header.generation,
            next_seq=self.next_seq,
            log_bytes=self._log.end.offset,
            recovery=self._recovery,
            failed=self.failed,
            quarantine_files=len(quarantine),
            quarantine_bytes=sum(quarantine.values()),
            log_io=replace(counters[LOG_SUFFIX]),
            directory_flushes=counters[""].flushes,
            strange_names=listing.strange,
        )

    def close(self) -> None:
        """Release the directory. Idempotent; everything acknowledged is durable already."""
        self._resources.close()


@contextmanager
def _refusals(disk: Disk) -> Iterator[None]:
    """Turn what the operating system refuses into an error that names the store."""
    try:
        yield
    except OSError as error:
        kind = DiskFull if error.errno in NO_ROOM else StoreUnavailable
        raise kind(disk.path, error.strerror or str(error)) from error
