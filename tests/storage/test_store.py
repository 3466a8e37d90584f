"""Append, read, status, close: what the store promises while it is open, and when it fails."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from convmem.storage import (
    BATCH_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    Clean,
    CorruptLog,
    Created,
    Cut,
    DiskFull,
    Entry,
    FormatTooNew,
    Generation,
    InvalidRecord,
    MemoryDisk,
    MissingLog,
    Operation,
    Origin,
    OsDisk,
    Record,
    Seal,
    ShortWrite,
    StorageError,
    StoreFailed,
    StoreUnavailable,
    encode_generation,
    encode_seal,
)

from .support import LOG, Knowing, log_of, log_with, open_store, replayed

ONE = Record(1, b"one")
TWO = Record(2, b"two")
SNAPSHOT = "snap-00000001-000000000003.cvs"
GENERATION = (4, encode_generation(Generation(0, 0, 0, Origin.CREATED, 0, bytes(16))))
SEAL = (5, encode_seal(Seal(0, (0, 0))))
RECORD = (1, b"x" * 100)


class Refusing(Knowing):
    def replay(self, entry: Entry) -> None:
        raise InvalidRecord("not in this order")


def test_append_gives_the_places_of_the_records() -> None:
    store = open_store(MemoryDisk())
    assert store.append([ONE]) == [Entry(3, 216, 0, 1, b"one")]
    assert store.append([ONE, TWO]) == [Entry(4, 256, 12, 1, b"one"), Entry(4, 256, 28, 2, b"two")]
    assert store.next_seq == 5
    assert store.read(216, 0) == ONE
    assert store.read(256, 12) == ONE
    assert store.read(256, 28) == TWO


def test_every_size_up_to_the_limit_comes_back(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    sizes = [0, 1, 7, 8, 4000, 4055, 4056, 4057, 5000, PAYLOAD_BYTES_MAX]
    records = [Record(1, bytes([size % 251]) * size) for size in sizes]
    store = open_store(disk)
    entries = [entry for record in records for entry in store.append([record])]
    assert [store.read(entry.frame_offset, 0) for entry in entries] == records
    store.close()
    assert replayed(disk) == records


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([], "no records"),
        ([Record(3, b"")], "type 3"),
        ([ONE, Record(4, b"")], "type 4"),
        ([Record(1, bytes(PAYLOAD_BYTES_MAX + 1))], "bytes of payload"),
        ([ONE, Record(1, bytes(BATCH_BYTES_MAX))], "in one batch"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_leaves_no_trace(
    records: list[Record], reason: str
) -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    with pytest.raises(InvalidRecord, match=reason):
        store.append(records)
    assert disk.files[LOG] == log_of()
    assert store.append([ONE])[0].seq == 3


def test_the_stores_own_types_are_not_the_applications() -> None:
    with pytest.raises(ValueError, match="the store's own"):
        open_store(MemoryDisk(), Knowing(frozenset({1, 6})))


def test_io_is_one_write_and_one_flush_an_append_and_none_a_read(tmp_path: Path) -> None:
    store = open_store(OsDisk(tmp_path))
    before = store.status()
    store.append([ONE])
    (*_, last) = store.append([ONE, Record(2, b"x" * 5000)])
    after = store.status()
    assert after.log_io.writes - before.log_io.writes == 2
    assert after.log_io.flushes - before.log_io.flushes == 2
    assert after.log_io.bytes_written - before.log_io.bytes_written == after.log_bytes - 216
    assert after.log_io.reads == before.log_io.reads
    store.read(216, 0)
    assert store.status().log_io.reads == after.log_io.reads + 1
    store.read(last.frame_offset, last.start)
    read = store.status()
    assert read.log_io.reads == after.log_io.reads + 2 + 1
    assert read.log_io.writes == after.log_io.writes
    assert read.log_io.flushes == after.log_io.flushes
    assert read.directory_flushes == after.directory_flushes == 1


@pytest.mark.parametrize(
    ("frame_offset", "start"),
    [
        *((-8, 0), (0, 0), (215, 0), (224, 0), (999, 0), (320, 0)),
        *((216, 1), (256, 0), (256, 4), (256, 40), (256, 999)),
    ],
)
def test_reading_where_no_record_stands_is_an_error(frame_offset: int, start: int) -> None:
    store = open_store(MemoryDisk())
    store.append([ONE])
    store.append([ONE, TWO])
    with pytest.raises((CorruptLog, StoreUnavailable)):
        store.read(frame_offset, start)


def test_damage_done_while_the_store_is_open_is_seen_by_the_read() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.append([Record(1, b"x" * 100)])
    disk.open(LOG).pwrite(216 + 40, b"y")
    with pytest.raises(CorruptLog, match="byte 216: the frame does not verify"):
        store.read(216, 0)
    disk.open(LOG).pwrite(216 + 12, b"\xff")
    with pytest.raises(CorruptLog, match="byte 216: no frame"):
        store.read(216, 0)


def test_reads_run_beside_appends(tmp_path: Path) -> None:
    store = open_store(OsDisk(tmp_path))
    entries = store.append([Record(1, b"0" * 5000)])
    done = threading.Event()
    wrong: list[Entry] = []

    def read() -> None:
        while not done.is_set():
            wrong.extend(e for e in entries[-50:] if store.read(e.frame_offset, 0)[1] != e.payload)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(200):
        entries.extend(store.append([Record(1, b"%d" % n * (n * 20))]))
    done.set()
    for reader in readers:
        reader.join(timeout=10)
    assert not any(reader.is_alive() for reader in readers)
    assert not wrong


def test_status_of_a_store_in_good_health() -> None:
    disk = MemoryDisk({"notes.txt": b"mine"})
    store = open_store(disk)
    store.append([ONE])
    status = store.status()
    assert len(status.store_id) == 16
    assert (status.generation, status.next_seq, status.log_bytes) == (1, 4, 256)
    assert (status.recovery, status.failed) == (Created(), None)
    assert (status.quarantine_files, status.quarantine_bytes) == (0, 0)
    assert status.strange_names == ("notes.txt",)
    store.close()
    again = open_store(disk).status()
    assert (again.recovery, again.store_id) == (Clean(), status.store_id)


def test_each_cut_keeps_its_own_copy() -> None:
    torn = log_of([ONE])[:-3]
    disk = MemoryDisk({LOG: torn})
    for count in (1, 2):
        store = open_store(disk)
        status = store.status()
        assert status.recovery == Cut(
            offset=216,
            length=37,
            reason="the last frame stops before its end",
            quarantine=f"quarantine/cut-00000001-216-{count - 1}.bin",
        )
        assert (status.quarantine_files, status.quarantine_bytes) == (count, count * 37)
        store.close()
        disk.open(LOG).pwrite(0, torn)


def test_a_tail_that_cannot_be_copied_is_cut_all_the_same() -> None:
    disk = MemoryDisk({LOG: log_of([ONE])[:-3]})
    disk.hook = failing("create", "", OSError(errno.ENOSPC, "no room"))
    recovery = open_store(disk).status().recovery
    assert isinstance(recovery, Cut)
    assert recovery.quarantine is None
    assert disk.files[LOG] == log_of()


def failing(kind: str, name: str, error: OSError) -> Callable[[Operation], None]:
    """A hook that fails every operation of a kind on the files whose names hold `name`."""

    def hook(operation: Operation) -> None:
        if operation.kind == kind and name in operation.name:
            raise error

    return hook


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("written", [0, 1, 39, 5000])
def test_no_room_rolls_back_and_the_store_goes_on(number: int, written: int) -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.append([ONE])
    disk.hook = failing("pwrite", LOG, ShortWrite(number, written))
    for _ in range(2):
        with pytest.raises(DiskFull):
            store.append([Record(1, b"x" * 5000)])
    assert disk.files[LOG] == log_of([ONE])
    assert store.failed is None
    disk.hook = lambda operation: None
    store.append([TWO])
    store.close()
    assert disk.files[LOG] == log_of([ONE], [TWO])


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("sync_data", errno.EIO),
        ("sync_data", errno.ENOSPC),
        ("sync_data", errno.EDQUOT),
        ("pwrite", errno.EIO),
    ],
)
def test_a_failed_write_or_sync_ends_writing_but_not_reading(kind: str, number: int) -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.append([ONE])
    disk.hook = failing(kind, LOG, OSError(number, "injected"))
    with pytest.raises(StoreFailed, match="injected"):
        store.append([TWO])
    disk.hook = lambda operation: None
    with pytest.raises(StoreFailed, match="injected"):
        store.append([TWO])
    assert store.read(216, 0) == ONE
    failed = store.status().failed
    assert failed is not None
    assert "injected" in failed
    assert disk.files[LOG] == log_of([ONE])
    store.close()
    assert replayed(disk) == [ONE]


@pytest.mark.parametrize("kind", ["truncate", "sync"])
def test_a_roll_back_that_fails_ends_writing(kind: str) -> None:
    disk = MemoryDisk()
    store = open_store(disk)

    def hook(operation: Operation) -> None:
        if operation.kind == "pwrite":
            raise ShortWrite(errno.ENOSPC, 20)
        if operation.kind == kind:
            raise OSError(errno.EIO, "injected")

    disk.hook = hook
    with pytest.raises(StoreFailed):
        store.append([ONE])
    disk.hook = lambda operation: None
    with pytest.raises(StoreFailed):
        store.append([ONE])


def test_an_interrupted_append_ends_writing() -> None:
    disk = MemoryDisk()
    store = open_store(disk)

    def interrupt(operation: Operation) -> None:
        if operation.kind == "sync_data":
            raise KeyboardInterrupt

    disk.hook = interrupt
    with pytest.raises(KeyboardInterrupt):
        store.append([ONE])
    with pytest.raises(StoreFailed):
        store.append([ONE])


@pytest.mark.parametrize(
    "files",
    [{SNAPSHOT: b"x"}, {"quarantine/cut-00000001-216-0.bin": b"x"}],
    ids=["snapshot", "quarantine"],
)
def test_row_17_parts_of_a_store_without_a_log_are_not_a_new_store(files: dict[str, bytes]) -> None:
    disk = MemoryDisk(files)
    with pytest.raises(MissingLog):
        open_store(disk)
    assert LOG not in disk.files


@pytest.mark.parametrize(
    "files",
    [
        {LOG: log_of()[:215], SNAPSHOT: b"x"},
        {LOG: b"", "quarantine/cut-00000001-216-0.bin": b"x"},
        {"log-00000002.cvl": log_of([ONE])},
        {"log-00000002.cvl": b""},
        {LOG: log_with([GENERATION, RECORD])},
        {LOG: log_with([GENERATION, RECORD])[:-1]},
    ],
    ids=["short beside a snapshot", "empty beside quarantine", "renamed", "later", "open", "torn"],
)
def test_a_log_that_never_became_valid_is_refused(files: dict[str, bytes]) -> None:
    disk = MemoryDisk(files)
    with pytest.raises(CorruptLog):
        open_store(disk)
    assert files.items() <= disk.files.items()


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (log_with([GENERATION, SEAL, GENERATION]), "a GENERATION record within the log"),
        (log_with([GENERATION, SEAL], parent=7), "different parents"),
        (log_with([GENERATION, SEAL, SEAL]), "a second SEAL record"),
        (log_with([GENERATION, RECORD, SEAL]), "a SEAL record over 0 frames"),
        (log_with([(5, encode_seal(Seal(2**64 - 1, (0, 0)))), RECORD]), "a SEAL record over"),
        (log_with([(1, b""), SEAL, RECORD]), "not sealed"),
    ],
)
def test_the_logs_own_records_have_their_places(log: bytes, reason: str) -> None:
    assert replayed(MemoryDisk({LOG: log_with([GENERATION, SEAL, RECORD])})) == [RECORD]
    with pytest.raises(CorruptLog, match=reason):
        open_store(MemoryDisk({LOG: log}))


def test_a_failed_opening_releases_the_store() -> None:
    disk = MemoryDisk({LOG: log_of([Record(0x81, b"")], [ONE])})

    with pytest.raises(FormatTooNew, match="type 1"):
        open_store(disk, Knowing(frozenset({2})))
    with pytest.raises(CorruptLog, match=r"byte 256: .*not in this order"):
        open_store(disk, Refusing(frozenset({1})))
    assert len(replayed(disk)) == 2


def test_close_is_idempotent_and_ends_reading() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.append([ONE])
    store.close()
    again = open_store(disk)
    store.close()
    with pytest.raises(StorageError):
        open_store(disk)
    with pytest.raises(StoreUnavailable):
        store.read(216, 0)
    assert again.read(216, 0) == ONE


def test_what_the_operating_system_refuses_names_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="file: Not a directory"):
        open_store(OsDisk(tmp_path / "file"))
    disk = MemoryDisk()
    disk.hook = failing("pwrite", LOG, OSError(errno.ENOSPC, "no room"))
    with pytest.raises(DiskFull, match="memory: no room"):
        open_store(disk)
