"""A store: one directory with one log, held by one process. The façade of the library.

`Store.open` locks, recovers and replays; `append` makes records durable; `read` gives a
record again; `write_snapshot` spares the next opening most of the replay. The store knows
what its records are called, not what they mean. One thread appends; reads, and the writing
of a snapshot, may run in others at the same time.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from . import snapshot
from .disk import Counters, Disk
from .errors import DiskFull, InvalidRecord, StoreUnavailable
from .format import OWN_TYPES, Entry, Record
from .layout import LOG_SUFFIX, QUARANTINE, SNAPSHOT_SUFFIX, parse, snapshot_name
from .limits import SNAPSHOT_TAIL_BYTES, SNAPSHOT_TAIL_SHARE
from .log import NO_ROOM, Environment
from .recovery import Adopted, Application, Recovered, Recovery, recover
from .scan import Position
from .snapshot import Section, Unusable


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What an operator may want to know; sizes in bytes.

    `failed` is why the store accepts no more writes. The counters begin with the disk;
    `directory_flushes` are those of the directory's entries. `strange_names` are files in
    the directory that are not the store's. `opened_with` is the snapshot that spared a replay,
    or why there was none to use; `snapshot_next_seq` is where the newest one ends, of which
    this store knows that it can be used, and `snapshot_bytes` are those of all that lie there.
    """

    store_id: bytes
    generation: int
    next_seq: int
    log_bytes: int
    recovery: Recovery
    failed: str | None
    quarantine_files: int
    quarantine_bytes: int
    opened_with: Adopted | Unusable | None
    snapshot_next_seq: int | None
    snapshot_bytes: int
    log_io: Counters
    snapshot_io: Counters
    directory_flushes: int
    strange_names: tuple[str, ...]


class Store:
    """An open store. Made by `Store.open`."""

    def __init__(
        self,
        disk: Disk,
        environment: Environment,
        recovered: Recovered,
        known_types: frozenset[int],
        resources: ExitStack,
    ) -> None:
        self._disk = disk
        self._environment = environment
        self._log = recovered.log
        self._recovery = recovered.recovery
        self._opened_with = recovered.snapshot
        self._known_types = known_types
        self._resources = resources
        self._snapshot: Position | None = None
        if isinstance(recovered.snapshot, Adopted):
            self._snapshot = recovered.snapshot.position
        self._snapshot_tried = self._snapshot

    @classmethod
    def open(cls, disk: Disk, environment: Environment, application: Application) -> "Store":
        """Open the store on `disk`, or make a new one, and bring the application up to it.

        The application's state is restored from a snapshot where one can be used, and every
        later record of a type it knows is replayed, in log order. Everything that it was
        given is durable when this returns.

        Raises StoreLocked, MissingLog, CorruptLog, FormatTooNew, DiskFull,
        StoreUnavailable; ValueError for a type that is the store's own.
        """
        if application.known_types & OWN_TYPES:
            raise ValueError(f"types {sorted(OWN_TYPES)} are the store's own")
        with ExitStack() as resources, _refusals(disk):
            disk.make_directory()
            lock = disk.lock(environment.host_id.hex(), environment.now_ms())
            resources.callback(lock.release)
            recovered = recover(disk, environment, application)
            resources.callback(recovered.log.close)
            known_types = application.known_types
            return cls(disk, environment, recovered, known_types, resources.pop_all())

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

    def position(self) -> Position:
        """Where the log ends: what a snapshot of the state as it is now covers.

        Call it while no append is under way, on the thread that applies what was appended.
        """
        return self._log.end

    @property
    def snapshot_due(self) -> bool:
        """Whether so much was appended since the last snapshot that a new one is worth it."""
        end = self._log.end.offset
        tail = end - self._snapshot_tried.offset if self._snapshot_tried else end
        return tail > max(SNAPSHOT_TAIL_BYTES, int(end * SNAPSHOT_TAIL_SHARE))

    def write_snapshot(
        self, position: Position, sections: Sequence[Section], counts: tuple[int, int]
    ) -> None:
        """Write what the application made of the log up to `position`; older ones go.

        May run beside appends, in another thread; the buffers must not change meanwhile.
        Raises DiskFull, StoreUnavailable: the store is none the worse for it, and a snapshot
        is not due again before more was appended. ValueError: a position of an earlier log.
        """
        log = self._log
        if position == self._snapshot:
            return
        self._snapshot_tried = position
        with _refusals(self._disk):
            if not log.holds(position):
                raise ValueError("the position is not one of the present log")
            others = parse(self._disk.names()).snapshots
            name = snapshot_name(log.header.generation, position.seq)
            if (log.header.generation, name) in others:  # one that could not be used
                self._disk.unlink(name)
            now_ms = self._environment.now_ms()
            snapshot.write(self._disk, log.header, position, sections, counts, now_ms)
            self._snapshot = position
            for generation, other in others:
                if generation == log.header.generation and other != name:
                    with suppress(OSError):  # it costs room, nothing else
                        self._disk.unlink(other)

    def status(self) -> StoreStatus:
        """The state of the store; lists the directory. Raises StoreUnavailable."""
        with _refusals(self._disk):
            names = self._disk.names()
            quarantine = self._disk.names(QUARANTINE)
        listing = parse(names)
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
            opened_with=self._opened_with,
            snapshot_next_seq=self._snapshot.seq if self._snapshot else None,
            snapshot_bytes=sum(names[name] for _, name in listing.snapshots),
            log_io=replace(counters[LOG_SUFFIX]),
            snapshot_io=replace(counters[SNAPSHOT_SUFFIX]),
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
