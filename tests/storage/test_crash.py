"""What survives: every state a crash can leave, at every operation of a working store.

P1  what is recovered is what was acknowledged, or that and the append in flight
P2  after one more append, and then a power cut, exactly that is there
P3  a crash at every operation of the recovery itself leaves P1 true
P4  what was served after a kill is still there after a power cut
"""

import errno
from collections.abc import Callable, Iterator

import pytest

from convmem.storage import (
    DiskFull,
    MemoryDisk,
    Operation,
    Record,
    ShortWrite,
    StorageError,
    Store,
    StoreFailed,
)

from .support import open_store, replayed

MORE = Record(2, b"one more")
APPENDS = [
    [Record(1, b"first")],
    [Record(1, b"second"), Record(2, b"in one batch " * 90)],
    [Record(1, bytes(2000))],
    [Record(0x81, b"the last")],
]
BIG = [[Record(1, b"big " * (1 << 18))], [Record(1, b"after it")]]


class Client:
    """Appends, and knows what was acknowledged and what is under way."""

    def __init__(self) -> None:
        self.acknowledged: list[Record] = []
        self.in_flight: list[Record] = []

    def run(self, disk: MemoryDisk, appends: list[list[Record]]) -> None:
        store = open_store(disk)
        for records in appends:
            self.append(store, records)
        store.close()

    def append(self, store: Store, records: list[Record]) -> None:
        self.in_flight = records
        store.append(records)
        self.acknowledged = self.acknowledged + records
        self.in_flight = []

    def allowed(self) -> list[list[Record]]:
        return [self.acknowledged, self.acknowledged + self.in_flight]


def crashes(
    appends: list[list[Record]], weak_order: bool
) -> Iterator[tuple[dict[str, bytes], list[list[Record]]]]:
    """Every state that a power cut at any operation leaves, with what may be found in it."""
    found: list[tuple[dict[str, bytes], list[list[Record]]]] = []
    client = Client()
    disk = MemoryDisk()

    def look(operation: Operation | None = None) -> None:
        found.extend(
            (files, client.allowed()) for files in disk.crash_states(weak_order=weak_order)
        )

    disk.hook = look
    client.run(disk, appends)
    look()
    yield from found


@pytest.mark.parametrize("weak_order", [False, True], ids=["journalled", "weak order"])
@pytest.mark.parametrize("appends", [APPENDS, BIG], ids=["small", "big"])
def test_power_cut_at_every_operation(appends: list[list[Record]], weak_order: bool) -> None:
    count = 0
    for files, allowed in crashes(appends, weak_order):
        disk = MemoryDisk(files)
        entries_before = replayed(disk)
        assert entries_before in allowed  # P1
        store = open_store(disk)
        store.append([MORE])
        (files_after, *others) = disk.crash_states()
        assert not others
        assert replayed(MemoryDisk(files_after)) == [*entries_before, MORE]  # P2
        count += 1
    assert count > 90


def test_power_cut_within_recovery() -> None:
    seen: set[tuple[tuple[str, bytes], ...]] = set()
    for files, allowed in crashes(APPENDS[:3], weak_order=True):
        key = tuple(sorted(files.items()))
        if key not in seen:
            seen.add(key)
            for again in crashes_of_recovery(files):
                assert replayed(MemoryDisk(again)) in allowed  # P3
    assert len(seen) > 50


def crashes_of_recovery(files: dict[str, bytes]) -> list[dict[str, bytes]]:
    disk = MemoryDisk(files)
    found: list[dict[str, bytes]] = []
    disk.hook = lambda operation: found.extend(disk.crash_states())
    open_store(disk)
    found.extend(disk.crash_states())
    return found


class Killed(BaseException):
    """The process ends here."""


def killing(number: int) -> Callable[[Operation], None]:
    def hook(operation: Operation) -> None:
        if number <= operation.number:  # the dead do not clean up
            raise Killed

    return hook


def operations_of(appends: list[list[Record]]) -> list[Operation]:
    disk = MemoryDisk()
    operations: list[Operation] = []
    disk.hook = operations.append
    Client().run(disk, appends)
    return operations


@pytest.mark.parametrize("operation", operations_of(APPENDS), ids=str)
def test_what_is_served_after_a_kill_survives_a_power_cut(operation: Operation) -> None:
    client = Client()
    disk = MemoryDisk()
    disk.hook = killing(operation.number)
    with pytest.raises(Killed):
        client.run(disk, APPENDS)
    served = serve_after_a_kill(disk)
    assert served in client.allowed()
    for files in disk.crash_states(weak_order=True):
        assert replayed(MemoryDisk(files)) == served  # P4


@pytest.mark.parametrize(
    "operation", [o for o in operations_of(APPENDS) if o.kind in ("sync", "sync_data")], ids=str
)
def test_what_a_failed_sync_left_is_durable_before_it_is_served(operation: Operation) -> None:
    """The sync fails, the process dies before it can clean up, and the page cache still
    shows what the disk will never get."""
    client = Client()
    disk = MemoryDisk()

    def hook(now: Operation) -> None:
        if now.number == operation.number:
            raise OSError(errno.EIO, "injected")
        killing(operation.number)(now)

    disk.hook = hook
    with pytest.raises(Killed):
        client.run(disk, APPENDS)
    served = serve_after_a_kill(disk)
    assert served == client.allowed()[1]
    assert [replayed(MemoryDisk(files)) for files in disk.crash_states()] == [served]


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


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("operation", operations_of(APPENDS), ids=str)
def test_fault_at_every_operation(operation: Operation, persistent: bool) -> None:
    for fault in faults_at(operation):
        disk = MemoryDisk()

        def hook(now: Operation, fault: OSError = fault) -> None:
            late = persistent and operation.number < now.number and now.kind == operation.kind
            if now.number == operation.number or late:
                raise fault

        disk.hook = hook
        allowed = go_on_despite_faults(disk)
        states = [*disk.crash_states(weak_order=True)]
        served = serve_after_a_kill(disk)
        assert served in allowed
        for files in states:
            assert replayed(MemoryDisk(files)) in allowed
        for files in disk.crash_states(weak_order=True):
            assert replayed(MemoryDisk(files)) == served


def go_on_despite_faults(disk: MemoryDisk) -> list[list[Record]]:
    """Append all that can be; what may be found afterwards.

    A record refused for lack of room is never found; one whose append failed may be.
    """
    acknowledged: list[Record] = []
    unknown: list[Record] = []
    store = None
    for _ in range(3):
        try:
            store = open_store(disk)
            break
        except StorageError:
            continue
    if store is None:
        return [[]]
    for records in APPENDS:
        try:
            store.append(records)
            acknowledged += records
        except DiskFull:
            assert store.failed is None
        except StoreFailed:
            unknown = unknown or records
    return [acknowledged, acknowledged + unknown]
