"""A new log in the place of the old: what it holds, what it costs, and what an error leaves."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from convmem.storage import (
    Adopted,
    Disk,
    DiskFull,
    Entry,
    InvalidRecord,
    MemoryDisk,
    Operation,
    Origin,
    OsDisk,
    Record,
    ShortWrite,
    StorageError,
    StoreFailed,
    StoreUnavailable,
    decode_frame,
    decode_generation,
    log_name,
    snapshot_name,
)

from .support import Notes, compact, header_of, ignore, open_store, replayed, write_snapshot

RECORDS = [Record(1, b"record %d " % number * 20) for number in range(10)]
KEPT = RECORDS[::2]
AFTER = Record(2, b"after")


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return OsDisk(tmp_path) if request.param == "os" else MemoryDisk()


def test_the_new_log_holds_what_it_was_given_and_goes_on(disk: Disk) -> None:
    store = open_store(disk)
    for record in RECORDS:
        store.append([record])
    next_seq, before = store.next_seq, store.status()
    entries: list[Entry] = []
    compacted = store.compact(
        iter(KEPT), (5, 0), expected_bytes=2000, on_entry=entries.append, progress=ignore
    )
    assert store.read(216, 0) == RECORDS[0]
    store.switch(compacted)
    assert [store.read(entry.frame_offset, entry.start) for entry in entries] == KEPT
    assert [entry.payload for entry in entries] == [record.payload for record in KEPT]
    assert entries[0].seq == next_seq + 1  # after GENERATION
    store.retire()
    status = store.status()
    assert (status.generation, status.store_id) == (2, before.store_id)
    assert compacted.log_bytes_before == before.log_bytes
    assert status.log_bytes == compacted.log_bytes < before.log_bytes
    store.append([AFTER])
    store.close()
    assert log_name(1) not in disk.names()
    assert replayed(disk) == [*KEPT, AFTER]


def test_the_new_log_says_where_it_came_from() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.append([RECORDS[0]])
    end = store.position()
    store.compact(
        [], (0, 0), expected_bytes=0, on_entry=ignore, progress=ignore, origin=Origin.IMPORTED
    )
    log = disk.files[log_name(2)]
    header = header_of(log)
    assert (header.generation, header.parent, header.first_seq) == (2, 1, end.seq)
    first = decode_frame(log[64 : 64 + 88], header.salt)
    assert first is not None
    origin = decode_generation(first.payload)
    assert (origin.parent, origin.parent_next_seq, origin.parent_chain) == (1, end.seq, end.chain)
    assert origin.origin is Origin.IMPORTED


def test_it_costs_the_new_log_and_two_flushes() -> None:
    disk = MemoryDisk()
    notes = Notes()
    store = open_store(disk, notes)
    for record in RECORDS:
        notes.replay(*store.append([record]))
    before = store.status()
    compacted = compact(store, KEPT)
    store.switch(compacted)
    store.retire()
    write_snapshot(store, notes)
    after = store.status()
    assert after.log_io.bytes_written - before.log_io.bytes_written == compacted.log_bytes
    assert after.log_io.flushes - before.log_io.flushes == 1
    assert after.directory_flushes - before.directory_flushes == 1
    assert after.snapshot_io.flushes - before.snapshot_io.flushes == 1


def test_large_records_leave_in_pieces_and_progress_is_told() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    record = Record(1, b"x" * (400 << 10))
    seen: list[int] = []
    before = store.status().log_io.writes

    def records() -> Iterator[Record]:
        for _ in range(10):
            yield record

    compacted = store.compact(
        records(), (10, 0), expected_bytes=0, on_entry=ignore, progress=seen.append
    )
    assert seen == [3, 6, 9, 10]
    assert store.status().log_io.writes - before == len(seen)
    store.switch(compacted)
    store.close()
    assert replayed(disk) == [record] * 10


def test_the_snapshot_of_the_old_log_goes_with_it_and_a_new_one_counts() -> None:
    disk = MemoryDisk()
    notes = Notes()
    store = open_store(disk, notes)
    notes.replay(*store.append([RECORDS[0]]))
    write_snapshot(store, notes)
    store.switch(compact(store, notes.records))
    assert store.status().snapshot_next_seq is None
    store.retire()
    assert snapshot_name(1, 4) not in disk.files
    write_snapshot(store, notes)
    store.close()
    again = Notes()
    status = open_store(disk, again).status()
    assert isinstance(status.opened_with, Adopted)
    assert (again.records, again.entries) == (notes.records, [])


def test_too_little_room_is_told_before_anything_is_written() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    disk.room_bytes = 1000
    files = disk.files
    with pytest.raises(DiskFull, match="no room for a new log of 950 bytes"):
        compact(store, KEPT, expected_bytes=950)
    assert disk.files == files
    compact(store, KEPT, expected_bytes=900)


def test_a_log_that_was_not_switched_to_is_written_anew(disk: Disk) -> None:
    store = open_store(disk)
    unused = compact(store, RECORDS)
    store.append([AFTER])
    with pytest.raises(ValueError, match="not the newest"):
        store.switch(unused)
    store.switch(compact(store, [AFTER]))
    store.close()
    assert replayed(disk) == [AFTER]


def test_a_log_that_was_not_switched_to_goes_when_the_store_is_closed(disk: Disk) -> None:
    store = open_store(disk)
    store.append([AFTER])
    compact(store, RECORDS)
    store.close()
    store.close()
    assert replayed(disk) == [AFTER]
    assert log_name(2) not in disk.names()


def test_it_can_be_done_again_and_again(disk: Disk) -> None:
    store = open_store(disk)
    kept = list(RECORDS)
    for record in RECORDS:
        store.append([record])
    for _ in range(4):
        kept.pop()
        store.switch(compact(store, kept))
        store.append([AFTER])
        kept.append(AFTER)
        store.retire()
    store.close()
    assert replayed(disk) == kept


def failing(kind: str, error: BaseException) -> object:
    def hook(operation: Operation) -> None:
        if operation.kind == kind:
            raise error

    return hook


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("fault", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("kind", ["create", "pwrite", "sync", "sync_directory", "unlink"])
def test_an_error_at_any_step_leaves_the_store_on_the_old_log(
    kind: str, fault: int, persistent: bool
) -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    for record in RECORDS:
        store.append([record])
    failed = False

    def hook(operation: Operation) -> None:
        nonlocal failed
        # An unlink there is only after something else went wrong.
        wrong = operation.kind == kind or (kind == "unlink" and operation.kind == "sync")
        if wrong and (persistent or not failed):
            failed = True
            raise ShortWrite(fault, 300) if operation.kind == "pwrite" else OSError(fault, "no")

    disk.hook = hook
    with pytest.raises(DiskFull if fault == errno.ENOSPC else StoreUnavailable):
        compact(store, KEPT)
    disk.hook = lambda operation: None
    assert store.failed is None
    store.append([AFTER])
    for files in disk.crash_states(weak_order=True):
        assert replayed(MemoryDisk(files)) == [*RECORDS, AFTER]
    if log_name(2) not in disk.files:
        store.switch(compact(store, KEPT))
        store.close()
        assert replayed(disk) == KEPT


@pytest.mark.parametrize(
    ("records", "error"),
    [([Record(3, b"")], InvalidRecord), ([Record(1, bytes(3 << 20))], InvalidRecord)],
    ids=["unknown type", "over the limit"],
)
def test_a_record_that_cannot_be_stored_leaves_the_store_on_the_old_log(
    records: list[Record], error: type[StorageError]
) -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.append([AFTER])
    with pytest.raises(error):
        compact(store, [*RECORDS, *records])
    assert log_name(2) not in disk.files
    store.append([AFTER])


def test_the_caller_may_end_it() -> None:
    disk = MemoryDisk()
    store = open_store(disk)

    def stop(records: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.compact(RECORDS, (0, 0), expected_bytes=0, on_entry=ignore, progress=stop)
    assert log_name(2) not in disk.files
    store.append([AFTER])


def test_a_store_that_failed_is_not_compacted() -> None:
    disk = MemoryDisk()
    store = open_store(disk)

    def hook(operation: Operation) -> None:
        if operation.kind == "sync_data":
            raise OSError(errno.EIO, "injected")

    disk.hook = hook
    with pytest.raises(StoreFailed):
        store.append([AFTER])
    with pytest.raises(StoreFailed):
        compact(store, [])


def test_what_cannot_be_removed_goes_later() -> None:
    disk = MemoryDisk()
    notes = Notes()
    store = open_store(disk, notes)
    write_snapshot(store, notes)

    def hook(operation: Operation) -> None:
        if operation.kind == "unlink":
            raise PermissionError(errno.EACCES, "held by another program")

    disk.hook = hook
    for _ in range(2):
        store.switch(compact(store, KEPT))
        store.retire()
    assert {log_name(1), log_name(2), log_name(3)} <= disk.files.keys()
    store.close()
    assert open_store(disk).status().removed == ()
    disk.kill()
    disk.hook = lambda operation: None
    status = open_store(disk).status()
    assert set(status.removed) == {log_name(1), log_name(2), snapshot_name(1, 3)}
    disk.kill()
    assert replayed(disk) == KEPT
    assert [name for name in disk.files if name.endswith(".cvl")] == [log_name(3)]
