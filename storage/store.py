"""A store: one directory with one log, held by one process. The façade of the library.

`Store.open` locks, recovers and replays; `append` makes records durable; `read` gives a
record again; `write_snapshot` spares the next opening most of the replay; `compact`, `switch`
and `retire` put a new log in the place of the old. The store knows what its records are
called, not what they mean. One thread appends and compacts; reads, and the writing of a
snapshot, may run in others at the same time.
"""

import errno
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from . import snapshot
from .errors import Holder, InvalidRecord, StoreFailed, StoreUnavailable, refusals
from .format import OWN_TYPES, Entry, FileHeader, Generation, Origin, Record
from .generation import write_generation
from .layout import LOG_SUFFIX, QUARANTINE, SNAPSHOT_SUFFIX, parse, snapshot_name
from .limits import COPY_ROOM_SHARE, SNAPSHOT_TAIL_BYTES, SNAPSHOT_TAIL_SHARE
from .log import Environment, Log
from .medium import Counters, Disk, Lock
from .place import Hazard, HazardKind
from .recovery import (
    Adopted,
    Application,
    Recovered,
    Recovery,
    recover,
    remove_if_possible,
    remove_logs,
)
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
    `removed` are files that opening found left over, and removed. `hazards` are reasons for a
    warning; they hurt nothing yet.
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
    removed: tuple[str, ...]
    hazards: tuple[Hazard, ...]
    strange_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compacted:
    """A new log, sealed and durable, that is not in use yet.

    `log_bytes_before` is where the log ended that it was made from.
    """

    log: Log
    log_bytes_before: int

    @property
    def log_bytes(self) -> int:
        return self.log.end.offset


class Store:
    """An open store. Made by `Store.open`."""

    def __init__(
        self,
        disk: Disk,
        environment: Environment,
        lock: Lock,
        recovered: Recovered,
        hazards: tuple[Hazard, ...],
        known_types: frozenset[int],
        resources: ExitStack,
    ) -> None:
        self._disk = disk
        self._environment = environment
        self._lock = lock
        self._log = recovered.log
        self._recovery = recovered.recovery
        self._opened_with = recovered.snapshot
        self._removed = recovered.removed
        self._hazards = hazards
        self._known_types = known_types
        self._resources = resources
        # What `retire` is to remove, oldest first; and a compaction that was not switched to.
        self._superseded_names = list(recovered.superseded)
        self._superseded_logs: list[Log] = []
        self._unused: Log | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        environment: Environment,
        application: Application,
        *,
        allow_network: bool = False,
    ) -> "Store":
        """Open the store on `disk`, or make a new one, and bring the application up to it.

        The application's state is restored from a snapshot where one can be used, and every
        later record of a type it knows is replayed, in log order. Everything that it was
        given is durable when this returns. A directory on a network file system is refused
        unless that is allowed.

        Raises StoreLocked, MissingLog, CorruptLog, FormatTooNew, DiskFull,
        StoreUnavailable; ValueError for a type that is the store's own.
        """
        if application.known_types & OWN_TYPES:
            raise ValueError(f"types {sorted(OWN_TYPES)} are the store's own")
        with ExitStack() as resources, refusals(disk.path):
            hazards = disk.hazards()
            if not allow_network:
                _refuse_network(disk, hazards)
            disk.make_directory()
            lock = disk.lock(environment.host_id.hex(), environment.now_ms())
            resources.callback(lock.release)
            recovered = recover(disk, environment, application)
            resources.callback(recovered.log.close)
            hazards += _other_host(environment, lock.previous, recovered.origin)
            types = application.known_types
            return cls(disk, environment, lock, recovered, hazards, types, resources.pop_all())

    def publish(self, endpoint: str) -> None:
        """Let those who find the store in use know how to reach this process.

        Raises StoreUnavailable where the lock's text cannot be written.
        """
        with refusals(self._disk.path):
            self._lock.publish(endpoint)

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
        return self._log.append([self._known(record) for record in records])

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
        tail = end - self._log.snapshot_tried_end
        return tail > max(SNAPSHOT_TAIL_BYTES, int(end * SNAPSHOT_TAIL_SHARE))

    def write_snapshot(
        self,
        position: Position,
        sections: Sequence[Section],
        counts: tuple[int, int],
        *,
        renew: bool = False,
    ) -> None:
        """Write what the application made of the log up to `position`; older ones go.

        With `renew` also where there is one up to there: the application has more to save.
        May run beside appends, in another thread; the buffers must not change meanwhile.
        Raises DiskFull, StoreUnavailable: the store is none the worse for it, and a snapshot
        is not due again before more was appended. ValueError: a position of an earlier log.
        """
        log = self._log
        if position == log.snapshot and not renew:
            return
        log.snapshot_tried_end = position.offset
        with refusals(self._disk.path):
            if not log.holds(position):
                raise ValueError("the position is not one of the present log")
            others = parse(self._disk.names()).snapshots
            name = snapshot_name(log.header.generation, position.seq)
            if any(other.name == name for other in others):  # not usable, or less than this one
                self._disk.unlink(name)
            now_ms = self._environment.now_ms()
            snapshot.write(self._disk, log.header, position, sections, counts, now_ms)
            log.snapshot = position
            for other in others:
                if other.generation == log.header.generation and other.name != name:
                    remove_if_possible(self._disk, other.name)

    def compact(
        self,
        records: Iterable[Record],
        counts: tuple[int, int],
        *,
        expected_bytes: int,
        on_entry: Callable[[Entry], None],
        progress: Callable[[int], None],
        origin: Origin = Origin.COMPACTED,
    ) -> Compacted:
        """Write a new log of these records only, sealed and durable; it is not used yet.

        On the thread that appends; appends wait until `switch`. The records are taken one by
        one and may be read from this store. `expected_bytes` is about what their payloads and
        frames take. `on_entry` gets each record at its new place, `progress` now and then the
        number of records so far; both may raise, which ends it.

        Raises DiskFull, also before anything is written; StoreFailed, StoreUnavailable,
        InvalidRecord, and what the arguments raise. The store goes on with the old log then.
        """
        old = self._log
        if old.failed is not None:
            raise StoreFailed(old.failed)
        with refusals(self._disk.path):
            self._discard_unused()
            if self._disk.free_bytes() < expected_bytes * COPY_ROOM_SHARE:
                raise OSError(errno.ENOSPC, f"no room for a new log of {expected_bytes} bytes")
            header = FileHeader(
                salt=self._environment.salt(),
                generation=old.header.generation + 1,
                store_id=old.header.store_id,
                first_seq=old.end.seq,
                parent=old.header.generation,
            )
            came_from = Generation(
                parent=old.header.generation,
                parent_next_seq=old.end.seq,
                parent_chain=old.end.chain,
                origin=origin,
                created_ms=self._environment.now_ms(),
                host_id=self._environment.host_id,
            )
            known = map(self._known, records)
            self._unused = write_generation(
                self._disk, header, came_from, known, counts, on_entry, progress
            )
        self._resources.callback(self._unused.close)
        return Compacted(self._unused, old.end.offset)

    def switch(self, compacted: Compacted) -> None:
        """Read from and append to the new log from now on. Only in memory, and at once.

        Places given by the old log mean nothing any more. ValueError: something was appended
        since the new log was written.
        """
        if compacted.log is not self._unused or compacted.log.header.first_seq != self.next_seq:
            raise ValueError("not the newest log of what the store holds")
        self._superseded_logs.append(self._log)
        self._log, self._unused = compacted.log, None

    def retire(self) -> None:
        """Remove the old log and its snapshots, once no read that began before `switch` runs.

        What cannot be removed stays, for another call or the next opening: it counts no more.
        """
        for log in self._superseded_logs:
            log.close()
        names = self._superseded_names + [log.name for log in self._superseded_logs]
        self._superseded_logs.clear()
        live = self._log.header.generation
        with suppress(OSError):
            for found in parse(self._disk.names()).snapshots:
                if found.generation < live:
                    remove_if_possible(self._disk, found.name)
        self._superseded_names = remove_logs(self._disk, names)

    def _discard_unused(self) -> None:
        unused, self._unused = self._unused, None
        if unused is not None:
            unused.close()
            self._disk.unlink(unused.name)

    def _known(self, record: Record) -> Record:
        if record.type not in self._known_types:
            raise InvalidRecord(f"type {record.type} is not known to this application")
        return record

    def status(self) -> StoreStatus:
        """The state of the store; lists the directory. Raises StoreUnavailable."""
        with refusals(self._disk.path):
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
            snapshot_next_seq=self._log.snapshot.seq if self._log.snapshot else None,
            snapshot_bytes=sum(names[found.name] for found in listing.snapshots),
            log_io=replace(counters[LOG_SUFFIX]),
            snapshot_io=replace(counters[SNAPSHOT_SUFFIX]),
            directory_flushes=counters[""].flushes,
            removed=self._removed,
            hazards=self._hazards,
            strange_names=listing.strange,
        )

    def close(self) -> None:
        """Release the directory. Idempotent; everything acknowledged is durable already.

        A new log that was not switched to is removed: the next opening would prefer it.
        """
        with suppress(OSError):
            self._discard_unused()
        self._resources.close()


def _refuse_network(disk: Disk, hazards: tuple[Hazard, ...]) -> None:
    for hazard in hazards:
        if hazard.kind is HazardKind.NETWORK:
            raise StoreUnavailable(disk.path, f"{hazard.kind.value} ({hazard.detail})")


def _other_host(
    environment: Environment, previous: Holder | None, origin: Generation
) -> tuple[Hazard, ...]:
    """A warning when the last writer that is known was another machine."""
    host = previous.host if previous else origin.host_id.hex()
    if host == environment.host_id.hex():
        return ()
    return (Hazard(HazardKind.OTHER_HOST, f"host {host}"),)
