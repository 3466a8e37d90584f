"""The verdict on a directory agrees with what opening does, and changes nothing."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from convmem.storage import (
    CorruptLog,
    FileReport,
    Finding,
    Holder,
    InvalidRecord,
    MemoryDisk,
    OsDisk,
    Range,
    Record,
    Report,
    StorageError,
    StoreUnavailable,
    check,
    encode_frame,
    log_name,
    snapshot_name,
)

from .support import (
    LOG,
    Notes,
    compact,
    crc32c,
    environment,
    frames_of,
    header_of,
    log_of,
    open_store,
    write_snapshot,
)

RECORDS = [Record(1, b"record %d " % number * 70) for number in range(6)]
SOUND = log_of(*[[record] for record in RECORDS])
FRAMES = frames_of(SOUND)
THIRD, LAST = FRAMES[4][0], FRAMES[-1][0]  # after GENERATION and SEAL


def spoiled(log: bytes, offset: int) -> bytes:
    return log[:offset] + bytes([log[offset] ^ 0x20]) + log[offset + 1 :]


def newer(log: bytes) -> bytes:
    header = header_of(log)
    chain = int.from_bytes(log[LAST : LAST + 4], "little")
    return log + encode_frame(77, header.first_seq + len(FRAMES), chain, header.salt, b"")[0]


def of_major_2(log: bytes) -> bytes:
    header = log[:8] + b"\2" + log[9:60]
    return header + crc32c(header).to_bytes(4, "little") + log[64:]


def with_snapshot() -> dict[str, bytes]:
    disk = MemoryDisk({LOG: SOUND})
    notes = Notes()
    store = open_store(disk, notes)
    write_snapshot(store, notes)
    store.close()
    return disk.files


SNAPSHOT = snapshot_name(1, 9)
WITH_SNAPSHOT = with_snapshot()


def pair() -> dict[str, bytes]:
    disk = MemoryDisk({LOG: SOUND})
    store = open_store(disk, seed=2)
    compact(store, RECORDS[:2])
    return disk.files


PAIR = pair()

CASES: list[tuple[str, dict[str, bytes], Finding]] = [
    ("nothing", {}, Finding.NONE),
    ("somebody's folder", {"notes.txt": b"mine"}, Finding.NONE),
    ("creation begun", {LOG: SOUND[:100]}, Finding.NONE),
    ("sound", {LOG: SOUND}, Finding.SOUND),
    ("with a snapshot", WITH_SNAPSHOT, Finding.SOUND),
    ("with a damaged snapshot", WITH_SNAPSHOT | {SNAPSHOT: b"?"}, Finding.SOUND),
    ("torn", {LOG: SOUND[:-1]}, Finding.TORN),
    ("zero tail", {LOG: SOUND + bytes(99)}, Finding.TORN),
    ("middle", {LOG: spoiled(SOUND, THIRD + 50)}, Finding.DAMAGED),
    ("end", {LOG: spoiled(SOUND, LAST + 50)}, Finding.DAMAGED),
    ("header", {LOG: spoiled(SOUND, 20)}, Finding.DAMAGED),
    ("not sealed", {LOG: SOUND[: FRAMES[1][0]] + bytes(9), SNAPSHOT: b""}, Finding.DAMAGED),
    ("renamed", {log_name(4): SOUND}, Finding.DAMAGED),
    ("newer record", {LOG: newer(SOUND)}, Finding.TOO_NEW),
    ("newer format", {LOG: of_major_2(SOUND)}, Finding.TOO_NEW),
    ("newer child", PAIR | {log_name(2): of_major_2(PAIR[log_name(2)])}, Finding.TOO_NEW),
    ("damaged child", PAIR | {log_name(2): spoiled(PAIR[log_name(2)], 20)}, Finding.DAMAGED),
    ("lost tail", WITH_SNAPSHOT | {LOG: SOUND[:LAST]}, Finding.DAMAGED),
    ("snapshot only", {SNAPSHOT: WITH_SNAPSHOT[SNAPSHOT]}, Finding.MISSING),
    ("later snapshot", {LOG: SOUND, snapshot_name(2, 9): b""}, Finding.MISSING),
    ("superseded", PAIR, Finding.SOUND),
    ("unfinished", PAIR | {log_name(2): PAIR[log_name(2)][:-1]}, Finding.SOUND),
    ("forked", PAIR | {LOG: log_of([RECORDS[0]], seed=9)}, Finding.FORKED),
]


def report_on(files: dict[str, bytes]) -> Report:
    disk = MemoryDisk(files)

    def refuse(operation: object) -> None:
        raise AssertionError(f"{operation} while checking")

    disk.hook = refuse
    report = check(disk, Notes())
    assert disk.files == files
    return report


@pytest.mark.parametrize(
    ("files", "finding"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_finding_is_what_opening_does(files: dict[str, bytes], finding: Finding) -> None:
    report = report_on(files)
    assert report.finding is finding
    try:
        open_store(MemoryDisk(files))
        opened = True
    except StorageError:
        opened = False
    accepted = {Finding.SOUND, Finding.TORN, Finding.NONE}
    assert opened is (finding in accepted)
    assert bool(report.reason) is (finding not in {Finding.SOUND, Finding.NONE})


def test_every_finding_on_a_store_has_a_case() -> None:
    of_files = {Finding.LEFTOVER, Finding.STRANGE}
    assert {finding for *_, finding in CASES} == set(Finding) - of_files


def report_of(files: dict[str, bytes], name: str) -> FileReport:
    (found,) = (file for file in report_on(files).files if file.name == name)
    return found


def test_damage_is_told_by_its_place_and_what_verifies_around_it() -> None:
    found = report_of({LOG: spoiled(SOUND, THIRD + 50)}, LOG)
    assert (found.offset, found.before, found.after) == (THIRD, Range(1, 4), Range(6, 8))
    assert found.lost == Range(5, 5)
    found = report_of({LOG: spoiled(SOUND, LAST + 50)}, LOG)
    assert (found.offset, found.before, found.after) == (LAST, Range(1, 7), None)
    assert found.lost is None


def test_several_damaged_places_are_one_gap() -> None:
    log = spoiled(spoiled(SOUND, FRAMES[3][0] + 50), FRAMES[5][0] + 50)
    found = report_of({LOG: log}, LOG)
    assert (found.before, found.after) == (Range(1, 3), Range(5, 8))


@pytest.mark.parametrize(
    ("files", "name", "finding"),
    [
        (PAIR, LOG, Finding.LEFTOVER),
        (PAIR, log_name(2), Finding.SOUND),
        (PAIR | {SNAPSHOT: b""}, SNAPSHOT, Finding.LEFTOVER),
        (PAIR | {log_name(2): PAIR[log_name(2)][:-1]}, log_name(2), Finding.LEFTOVER),
        (WITH_SNAPSHOT | {SNAPSHOT: b"?"}, SNAPSHOT, Finding.LEFTOVER),
        ({LOG: SOUND, "log-1 (copy).cvl": b""}, "log-1 (copy).cvl", Finding.STRANGE),
        ({LOG: SOUND[:100]}, LOG, Finding.LEFTOVER),
    ],
)
def test_every_file_has_its_finding(files: dict[str, bytes], name: str, finding: Finding) -> None:
    assert report_of(files, name).finding is finding


def test_a_record_that_the_application_calls_impossible_is_damage() -> None:
    class Strict(Notes):
        def replay(self, entry: object) -> None:
            if len(self.records) == 3:
                raise InvalidRecord("no such message")
            self.records.append(RECORDS[0])

    report = check(MemoryDisk({LOG: SOUND}), Strict())
    (log,) = report.files
    assert report.finding is Finding.DAMAGED
    assert "no such message" in report.reason
    assert (log.offset, log.after) == (FRAMES[5][0], Range(7, 8))


def test_a_report_is_json() -> None:
    for _, files, _ in CASES:
        report = report_on(files)
        again = json.loads(json.dumps(asdict(report), default=str))
        assert again["finding"] == report.finding.value
        assert [file["name"] for file in again["files"]] == [file.name for file in report.files]


@pytest.mark.parametrize("make", [MemoryDisk, OsDisk], ids=["memory", "os"])
def test_a_store_in_use_is_checked_beside_its_holder(
    make: Callable[..., MemoryDisk | OsDisk], tmp_path: Path
) -> None:
    disk = make() if make is MemoryDisk else make(tmp_path)
    store = open_store(disk)
    store.append([RECORDS[0]])
    report = check(disk, Notes())
    assert (report.finding, report.in_use) == (Finding.SOUND, True)
    assert isinstance(report.holder, Holder)
    assert report.holder.host == environment().host_id.hex()
    store.append([RECORDS[1]])
    store.close()
    assert check(disk, Notes()).in_use is False


def test_a_folder_that_is_not_there_is_no_store(tmp_path: Path) -> None:
    assert check(OsDisk(tmp_path / "nowhere"), Notes()).finding is Finding.NONE
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("mode", [0o500])
def test_a_store_that_may_only_be_read_is_checked(tmp_path: Path, mode: int) -> None:
    open_store(OsDisk(tmp_path)).close()
    (tmp_path / LOG).chmod(0o400)
    tmp_path.chmod(mode)
    assert check(OsDisk(tmp_path), Notes()).finding is Finding.SOUND
    tmp_path.chmod(0o700)


def test_damage_under_a_snapshot_is_found_by_the_check_and_by_every_read() -> None:
    """Opening does not look there: the snapshot spares it that."""
    sound = open_store(MemoryDisk({LOG: SOUND}), notes := Notes())
    for bit in range(0, len(SOUND) * 8, 7):
        log = bytearray(SOUND)
        log[bit // 8] ^= 1 << bit % 8
        files = WITH_SNAPSHOT | {LOG: bytes(log)}
        assert report_on(files).finding is Finding.DAMAGED
        with suppress(StorageError):
            restored = Notes()
            store = open_store(MemoryDisk(files), restored)
            assert restored.records == RECORDS
            for entry in notes.entries:
                with suppress(CorruptLog):
                    record = store.read(entry.frame_offset, entry.start)
                    assert record == sound.read(entry.frame_offset, entry.start)


def test_a_folder_that_cannot_be_read_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        check(OsDisk(tmp_path / "file"), Notes())
