"""A repair keeps what verifies, says what it gave up, and destroys no evidence."""

import errno

import pytest

from convmem.storage import (
    CutAt,
    DiskFull,
    Entry,
    Finding,
    FormatTooNew,
    InvalidRecord,
    MemoryDisk,
    Operation,
    Origin,
    Range,
    Record,
    Repaired,
    RepairRefused,
    Skip,
    StorageError,
    Store,
    StoreLocked,
    check,
    decode_frame,
    decode_generation,
    encode_batch,
    encode_frame,
    log_name,
    repair,
    snapshot_name,
)

from .support import (
    KNOWN_TYPES,
    LOG,
    Knowing,
    Notes,
    compact,
    environment,
    header_of,
    log_of,
    open_store,
    replayed,
    write_snapshot,
)
from .test_check import CASES, FRAMES, LAST, RECORDS, SNAPSHOT, SOUND, THIRD, WITH_SNAPSHOT, spoiled

NEW_LOG = log_name(2)
KEPT_LOG = "quarantine/log-00000001-0.cvl"
MORE = Record(2, b"more")


def repaired(disk: MemoryDisk, giving_up: CutAt | Skip) -> Repaired:
    return repair(disk, environment(seed=4), Notes(), giving_up)


MIDDLE = spoiled(SOUND, THIRD + 50)


@pytest.mark.parametrize(
    ("files", "giving_up", "expected", "lost"),
    [
        ({LOG: MIDDLE}, Skip(), [*RECORDS[:2], *RECORDS[3:]], (Range(5, 5),)),
        ({LOG: MIDDLE}, CutAt(THIRD), RECORDS[:2], (Range(5, 8),)),
        ({LOG: MIDDLE}, CutAt(FRAMES[3][0]), RECORDS[:1], (Range(4, 8),)),
        ({LOG: spoiled(SOUND, LAST + 50)}, Skip(), RECORDS[:-1], (Range(8, 8),)),
        ({LOG: spoiled(SOUND, LAST + 50)}, CutAt(LAST), RECORDS[:-1], (Range(8, 8),)),
        ({LOG: spoiled(SOUND, 14)}, Skip(), RECORDS, ()),
        ({LOG: spoiled(SOUND, 90)}, Skip(), RECORDS, (Range(1, 1),)),
        ({LOG: SOUND[:-100] + MIDDLE[-100:] + b"?" * 40}, Skip(), RECORDS, (Range(9, 9),)),
        (WITH_SNAPSHOT | {LOG: SOUND[:LAST]}, Skip(), RECORDS[:-1], (Range(8, 8),)),
        (WITH_SNAPSHOT | {LOG: SOUND[:LAST]}, CutAt(LAST), RECORDS[:-1], (Range(8, 8),)),
    ],
    ids=[
        *("middle, skipped", "middle, cut", "cut before it", "end, skipped", "end, cut"),
        *("file header", "first frame", "garbage behind", "lost tail, skipped", "lost tail, cut"),
    ],
)
def test_what_verifies_is_kept(
    files: dict[str, bytes],
    giving_up: CutAt | Skip,
    expected: list[Record],
    lost: tuple[Range, ...],
) -> None:
    disk = MemoryDisk(files)
    done = repair(disk, environment(seed=4), Notes(), giving_up)
    assert (done.generation, done.records, done.dropped) == (2, len(expected), ())
    assert done.lost == lost
    for name, copy in zip(sorted(files.keys() - {"store.lock"}), sorted(done.kept), strict=True):
        assert disk.files[copy] == files[name]
    assert disk.files.keys() == {"store.lock", NEW_LOG, *done.kept}
    assert check(disk, Notes()).finding is Finding.SOUND
    store = open_store(disk)
    store.append([MORE])
    store.close()
    assert replayed(disk) == [*expected, MORE]


def test_the_new_log_says_that_it_was_repaired_and_goes_on_behind_all_sequences() -> None:
    disk = MemoryDisk({LOG: MIDDLE})
    repaired(disk, CutAt(THIRD))
    log = disk.files[NEW_LOG]
    header = header_of(log)
    first = decode_frame(log[64 : 64 + 88], header.salt)
    assert first is not None
    origin = decode_generation(first.payload)
    assert (origin.origin, origin.parent, origin.parent_next_seq) == (Origin.REPAIRED, 1, 9)
    assert (header.first_seq, header.store_id) == (9, header_of(SOUND).store_id)


class Strict(Notes):
    """Takes the fourth record only behind the third."""

    def replay(self, entry: Entry) -> None:
        if entry.payload == RECORDS[3].payload and RECORDS[2] not in self.records:
            raise InvalidRecord("what it changes is not there")
        super().replay(entry)


def test_skipping_leaves_out_what_makes_no_sense_any_more() -> None:
    disk = MemoryDisk({LOG: MIDDLE})
    done = repair(disk, environment(seed=4), Strict(), Skip())
    assert done.records == 4
    (dropped,) = done.dropped
    assert (dropped.seq, dropped.offset) == (6, FRAMES[5][0])
    assert "is not there" in dropped.reason
    assert replayed(disk) == [*RECORDS[:2], *RECORDS[4:]]


def test_a_log_that_verifies_and_cannot_be() -> None:
    class Refusing(Notes):
        def replay(self, entry: Entry) -> None:
            if entry.payload == RECORDS[3].payload:
                raise InvalidRecord("impossible")
            super().replay(entry)

    cases: list[tuple[CutAt | Skip, list[Record]]] = [
        (Skip(), [*RECORDS[:3], *RECORDS[4:]]),
        (CutAt(FRAMES[5][0]), RECORDS[:3]),
    ]
    for giving_up, expected in cases:
        disk = MemoryDisk({LOG: SOUND})
        repair(disk, environment(seed=4), Refusing(), giving_up)
        assert replayed(disk) == expected
        assert disk.files[KEPT_LOG] == SOUND


def test_records_of_batches_are_kept_one_by_one() -> None:
    batch = [RECORDS[0], Record(0x90, b"of a newer application"), RECORDS[3], RECORDS[4]]
    disk = MemoryDisk({LOG: log_of([RECORDS[1]], [RECORDS[5]])})
    store = Store.open(disk, environment(seed=1), Knowing(KNOWN_TYPES | {0x90}))
    store.append(batch)
    store.append([RECORDS[5]])
    store.close()
    log = spoiled(disk.files[LOG], FRAMES[2][0] + 50)
    disk = MemoryDisk({LOG: log})
    done = repair(disk, environment(seed=4), Strict(), Skip())
    assert (done.records, len(done.dropped)) == (5, 1)
    again = Knowing(KNOWN_TYPES | {0x90})
    Store.open(disk, environment(), again)
    assert again.records == [RECORDS[5], batch[0], batch[1], batch[3], RECORDS[5]]


@pytest.mark.parametrize(
    "frame", [(77, b"?"), (6, encode_batch([Record(77, b"?")])[0])], ids=["alone", "in a batch"]
)
def test_records_of_a_newer_application_behind_the_damage(frame: tuple[int, bytes]) -> None:
    chain = int.from_bytes(SOUND[LAST : LAST + 4], "little")
    header = header_of(SOUND)
    log = MIDDLE + encode_frame(frame[0], 9, chain, header.salt, frame[1])[0]
    disk = MemoryDisk({LOG: log})
    with pytest.raises(FormatTooNew):
        repaired(disk, Skip())
    assert disk.files[LOG] == log
    repaired(disk, CutAt(THIRD))
    assert replayed(disk) == RECORDS[:2]


def test_a_batch_that_cannot_be_is_left_out_whole() -> None:
    chain = int.from_bytes(SOUND[LAST : LAST + 4], "little")
    log = SOUND + encode_frame(6, 9, chain, header_of(SOUND).salt, b"\1\0\0\0")[0]
    disk = MemoryDisk({LOG: log})
    done = repair(disk, environment(seed=4), Notes(), Skip())
    assert [dropped.seq for dropped in done.dropped] == [9]
    assert replayed(disk) == RECORDS


def test_a_cut_leaves_no_impossible_record_before_it() -> None:
    class Refusing(Notes):
        def replay(self, entry: Entry) -> None:
            raise InvalidRecord("impossible")

    disk = MemoryDisk({LOG: SOUND})
    with pytest.raises(RepairRefused):
        repair(disk, environment(seed=4), Refusing(), CutAt(THIRD))
    repair(disk, environment(seed=4), Refusing(), CutAt(FRAMES[2][0]))
    assert replayed(disk) == []


def test_the_elders_of_a_damaged_log_are_kept_too() -> None:
    disk = MemoryDisk({LOG: SOUND})
    store = open_store(disk, seed=2)
    store.switch(compact(store, RECORDS[:3]))
    store.append([MORE])
    store.close()
    child = spoiled(disk.files[NEW_LOG], 200)
    disk = MemoryDisk({LOG: SOUND, NEW_LOG: child})
    assert check(disk, Notes()).finding is Finding.DAMAGED
    done = repair(disk, environment(seed=4), Notes(), Skip())
    assert done.generation == 3
    assert [disk.files[name] for name in done.kept] == [SOUND, child]
    assert replayed(disk) == [*RECORDS[1:3], MORE]


def test_a_log_of_which_nothing_tells_its_salt() -> None:
    log = spoiled(spoiled(SOUND, 20), 90)
    disk = MemoryDisk({LOG: log})
    with pytest.raises(RepairRefused, match="neither its header nor its first frame"):
        repaired(disk, Skip())
    assert disk.files[LOG] == log


@pytest.mark.parametrize(
    "files",
    [files for _, files, finding in CASES if finding is not Finding.DAMAGED],
    ids=[name for name, _, finding in CASES if finding is not Finding.DAMAGED],
)
def test_what_is_not_damaged_is_not_repaired(files: dict[str, bytes]) -> None:
    disk = MemoryDisk(files)
    with pytest.raises(RepairRefused):
        repaired(disk, Skip())
    assert disk.files == {"store.lock": b""} | files


@pytest.mark.parametrize("offset", [0, THIRD - 8, THIRD + 1, FRAMES[5][0], 10**9])
def test_a_cut_where_no_frame_begins_or_behind_the_damage_is_refused(offset: int) -> None:
    disk = MemoryDisk({LOG: MIDDLE})
    with pytest.raises(RepairRefused, match=f"begins at {offset}"):
        repaired(disk, CutAt(offset))
    assert disk.files == {"store.lock": b"", LOG: MIDDLE}


def test_a_store_in_use_is_not_repaired() -> None:
    disk = MemoryDisk()
    open_store(disk)
    with pytest.raises(StoreLocked):
        repaired(disk, Skip())


def test_a_second_repair_keeps_a_second_copy() -> None:
    disk = MemoryDisk({LOG: MIDDLE, KEPT_LOG: b"of an earlier repair"})
    done = repair(disk, environment(seed=4), Notes(), Skip())
    assert done.kept == ("quarantine/log-00000001-1.cvl",)
    assert disk.files[KEPT_LOG] == b"of an earlier repair"


def test_the_snapshot_of_the_repaired_store_counts() -> None:
    disk = MemoryDisk(WITH_SNAPSHOT | {LOG: SOUND[:LAST]})
    repaired(disk, Skip())
    assert SNAPSHOT not in disk.files
    notes = Notes()
    store = open_store(disk, notes)
    write_snapshot(store, notes)
    store.close()
    again = Notes()
    open_store(disk, again)
    assert (again.records, again.entries) == (RECORDS[:-1], [])
    assert snapshot_name(2, header_of(disk.files[NEW_LOG]).first_seq + 7) in disk.files


@pytest.mark.parametrize("giving_up", [Skip(), CutAt(THIRD)], ids=["skip", "cut"])
def test_a_crash_within_a_repair_leaves_the_old_log_or_the_new(giving_up: CutAt | Skip) -> None:
    disk = MemoryDisk({LOG: MIDDLE})
    states: list[dict[str, bytes]] = []
    disk.hook = lambda operation: states.extend(disk.crash_states(weak_order=True))
    repaired(disk, giving_up)
    states.extend(disk.crash_states(weak_order=True))
    expected = replayed(disk)
    outcomes = set()
    for files in states:
        assert MIDDLE in (files.get(LOG), files.get(KEPT_LOG))
        crashed = MemoryDisk(files)
        finding = check(crashed, Notes()).finding
        outcomes.add(finding)
        if finding is Finding.DAMAGED:
            repaired(crashed, giving_up)
        assert replayed(crashed) == expected
        assert MIDDLE in crashed.files.values()
    assert {Finding.DAMAGED, Finding.SOUND} <= outcomes


@pytest.mark.parametrize("kind", ["create", "pwrite", "sync", "sync_directory"])
def test_an_error_within_a_repair_leaves_the_damaged_log(kind: str) -> None:
    counted = MemoryDisk({LOG: MIDDLE})
    numbers: list[int] = []

    def count(operation: Operation) -> None:
        if operation.kind == kind:
            numbers.append(operation.number)

    counted.hook = count
    repaired(counted, Skip())
    for number in numbers:
        disk = MemoryDisk({LOG: MIDDLE})

        def fail(operation: Operation, number: int = number) -> None:
            if operation.number == number:
                raise OSError(errno.ENOSPC, "injected")

        disk.hook = fail
        with pytest.raises(DiskFull):
            repaired(disk, Skip())
        assert disk.files[LOG] == MIDDLE
        with pytest.raises(StorageError):
            open_store(disk)
        disk.hook = lambda operation: None
        repaired(disk, Skip())
        assert replayed(disk) == [*RECORDS[:2], *RECORDS[3:]]
