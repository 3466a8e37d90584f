"""The crash matrix: what a client does, every state in which a crash leaves it, what must hold.

P1  what is recovered is what was acknowledged, or what the step under way makes of it
P2  after one more append, and then a power cut, exactly that is there
P3  a crash at every operation of the recovery itself leaves P1 true
P4  what was served after a kill, or a failed sync, is still there after a power cut

Every check raises AssertionError, or the store's own error where it refuses what it may not;
`test_mutants` holds them to it.
"""

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from convmem.storage import (
    DiskFull,
    MemoryDisk,
    Operation,
    Origin,
    Record,
    ShortWrite,
    StorageError,
    Store,
)

from .support import Notes, ignore, open_store, replayed, write_snapshot

MORE = Record(2, b"one more")
Files = dict[str, bytes]
Contents = list[list[Record]]


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records, together."""

    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Write a snapshot of all there is."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Keep every `step`-th record and add others, in a new log; use it, drop the old one."""

    step: int = 2
    added: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Reopen:
    """Close the store and open it again."""


Step = Append | Snapshot | Compact | Reopen


def append(*payloads: bytes) -> Append:
    return Append(tuple(Record(1 + len(payload) % 2, payload) for payload in payloads))


TEXT = "Grüße, 世界 ".encode()
WORKLOADS: dict[str, list[Step]] = {
    "appends": [
        append(b"first"),
        append(b"second", TEXT * 60),
        append(bytes(2000)),
        append(b"the last"),
    ],
    "big": [append(b"big " * (1 << 18)), append(b"after it")],
    "reopened": [append(b"first"), Reopen(), append(TEXT * 50), Reopen(), append(b"x", b"y")],
    "snapshots": [append(b"first", TEXT * 40), Snapshot(), append(b"second"), Snapshot(), Reopen()],
    "compacted": [append(TEXT * 40), append(b"b"), append(b"c" * 600), Compact(), append(b"after")],
    "twice": [append(TEXT * 30, b"b", b"c"), Compact(), append(b"d"), Compact(), append(b"e")],
    "rebuilt": [
        *(append(b"a" * 700), append(b"b"), Snapshot(), Compact(), Snapshot()),
        *(append(b"after"), Reopen(), append(b"the last")),
    ],
    "imported": [
        append(b"there before"),
        Compact(1, tuple(Record(1, TEXT * size) for size in (1, 30, 60))),
        Snapshot(),
        append(b"after it"),
    ],
}


class Client:
    """Takes steps, and knows what was acknowledged and what else may be found."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.acknowledged: list[Record] = []
        self.possible: Contents = []
        self._opened = 0
        self._notes = Notes()
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None
        return self._store

    def run(self, steps: Iterable[Step]) -> None:
        self.open()
        for step in steps:
            self.take(step)
        self.store.close()

    def open(self) -> None:
        self._opened += 1
        self._notes = Notes()
        self._store = open_store(self.disk, self._notes, seed=self._opened)
        assert self._notes.records in self.allowed(), "P1"
        self._acknowledge(list(self._notes.records))

    def allowed(self) -> Contents:
        return [self.acknowledged, *self.possible]

    def check_reading(self) -> None:
        """What was replayed or appended since the opening can be read where it stands."""
        for entry in self._notes.entries:
            record = self.store.read(entry.frame_offset, entry.start)
            assert record == (entry.type, entry.payload)

    def take(self, step: Step) -> None:
        """Raises what the store raises."""
        match step:
            case Append(records):
                self._append(records)
            case Snapshot():
                write_snapshot(self.store, self._notes)
            case Compact(step=every, added=added):
                self._compact([*self.acknowledged[::every], *added], bool(added))
            case Reopen():
                self.store.close()
                self.open()

    def _append(self, records: tuple[Record, ...]) -> None:
        after = [*self.acknowledged, *records]
        if self.store.failed is None:
            self.possible.append(after)
        try:
            entries = self.store.append(records)
        except DiskFull:
            assert self.store.failed is None
            self.possible.remove(after)  # rolled back: it is never found
            raise
        for entry in entries:
            self._notes.replay(entry)
        self._acknowledge(after)

    def _compact(self, kept: list[Record], imported: bool) -> None:
        # Where it fails, the new log may yet be found, until something is added to the old.
        self.possible.append(kept)
        notes = Notes()
        compacted = self.store.compact(
            iter(kept),
            (len(kept), 0),
            expected_bytes=0,
            on_entry=notes.replay,
            progress=ignore,
            origin=Origin.IMPORTED if imported else Origin.COMPACTED,
        )
        self._acknowledge(kept)
        self.store.switch(compacted)
        self._notes = notes
        self.store.retire()

    def _acknowledge(self, records: list[Record]) -> None:
        self.acknowledged, self.possible = records, []


def power_cuts(steps: list[Step], *, weak_order: bool) -> Iterator[tuple[Files, Contents]]:
    """Every state that a power cut at any operation leaves, with what may be found in it."""
    found: list[tuple[Files, Contents]] = []
    seen: set[frozenset[tuple[str, bytes]]] = set()
    disk = MemoryDisk()
    client = Client(disk)

    def look(operation: Operation | None = None) -> None:
        allowed = client.allowed()
        for files in disk.crash_states(weak_order=weak_order):
            contents = repr(list(map(len, allowed))).encode()
            key = frozenset([*files.items(), ("allowed", contents)])
            if key not in seen:
                seen.add(key)
                found.append((files, allowed))

    disk.hook = look
    client.run(steps)
    look()
    yield from found


def check_power_cut(files: Files, allowed: Contents) -> None:
    """P1 and P2."""
    disk = MemoryDisk(files)
    notes = Notes()
    store = open_store(disk, notes)
    assert notes.records in allowed, "P1"
    expected = [*notes.records, MORE]
    store.append([MORE])
    for later in disk.crash_states():
        assert replayed(MemoryDisk(later)) == expected, "P2"


def check_power_cut_within_recovery(files: Files, allowed: Contents) -> int:
    """P3; the number of states it held in."""
    disk = MemoryDisk(files)
    states: list[Files] = []
    disk.hook = lambda operation: states.extend(disk.crash_states())
    open_store(disk)
    states.extend(disk.crash_states())
    for state in states:
        assert replayed(MemoryDisk(state)) in allowed, "P3"
    return len(states)


class Killed(BaseException):
    """The process ends here."""


def killing(number: int) -> Callable[[Operation], None]:
    def hook(operation: Operation) -> None:
        if number <= operation.number:  # the dead do not clean up
            raise Killed

    return hook


def operations_of(steps: list[Step]) -> list[Operation]:
    disk = MemoryDisk()
    operations: list[Operation] = []
    disk.hook = operations.append
    Client(disk).run(steps)
    return operations


def check_kill(steps: list[Step], operation: Operation, *, failing: bool = False) -> None:
    """P4 after a kill at an operation; `failing`: which failed, and let nobody know."""
    disk = MemoryDisk()
    client = Client(disk)

    def hook(now: Operation) -> None:
        if failing and now.number == operation.number:
            raise OSError(errno.EIO, "injected")
        killing(operation.number)(now)

    disk.hook = hook
    with suppress(Killed, StorageError):
        client.run(steps)
    served = serve_after_a_kill(disk)
    assert served in client.allowed(), "P4"
    for files in disk.crash_states(weak_order=True):
        assert replayed(MemoryDisk(files)) == served, "P4"


def serve_after_a_kill(disk: MemoryDisk) -> list[Record]:
    disk.kill()
    disk.hook = lambda operation: None
    served = replayed(disk)
    disk.kill()
    return served


def faults_at(operation: Operation) -> list[OSError]:
    faults = [OSError(errno.EIO, "injected"), OSError(errno.ENOSPC, "injected")]
    if operation.kind == "pwrite":
        faults += [ShortWrite(errno.ENOSPC, 20), ShortWrite(errno.EIO, 20)]
        faults += [ShortWrite(errno.ENOSPC, 600), ShortWrite(errno.EIO, 1 << 20)]
    return faults


def check_fault(steps: list[Step], operation: Operation, fault: OSError, persistent: bool) -> None:
    """A client goes on despite a fault, and then the power fails, or the process dies."""
    disk = MemoryDisk()

    def hook(now: Operation) -> None:
        late = persistent and operation.number < now.number and now.kind == operation.kind
        if now.number == operation.number or late:
            raise fault

    disk.hook = hook
    allowed = _go_on_despite_faults(Client(disk), steps)
    states = [*disk.crash_states(weak_order=True)]
    served = serve_after_a_kill(disk)
    assert served in allowed
    for files in states:
        assert replayed(MemoryDisk(files)) in allowed
    for files in disk.crash_states(weak_order=True):
        assert replayed(MemoryDisk(files)) == served


def _go_on_despite_faults(client: Client, steps: list[Step]) -> Contents:
    """Take all steps that can be taken; what may be found afterwards."""
    for _ in range(3):
        try:
            client.open()
            break
        except StorageError:
            continue
    else:
        return [[]]
    for step in steps:
        try:
            client.take(step)
        except StorageError:
            if isinstance(step, Reopen):
                break
    return client.allowed()
