"""A snapshot spares a replay, is passed over when in doubt, and never decides what is true."""

import errno
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.storage import (
    Adopted,
    CorruptLog,
    Disk,
    DiskFull,
    Entry,
    InvalidRecord,
    MemoryDisk,
    Operation,
    OsDisk,
    Record,
    Section,
    ShortWrite,
    StoreUnavailable,
    Unusable,
    snapshot_name,
)

from .support import (
    LENGTHS,
    LOG,
    PAYLOADS,
    Notes,
    crc32c,
    log_of,
    open_store,
    replayed,
    write_snapshot,
)

ONE = Record(1, b"one")
TWO = Record(2, b"two " * 200)
THREE = Record(0x81, b"three")
NAME = snapshot_name(1, 5)


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return OsDisk(tmp_path) if request.param == "os" else MemoryDisk()


class Wrong(Notes):
    """Restores another state than was written."""

    def restore(self, sections: Mapping[int, memoryview]) -> None:
        self.records = [THREE]

    def replay(self, entry: Entry) -> None:
        if THREE in self.records:
            raise InvalidRecord("written twice")
        super().replay(entry)


def with_snapshot(disk: Disk, tail: list[Record]) -> None:
    """A store of two records under a snapshot, and a tail behind it."""
    notes = Notes()
    store = open_store(disk, notes)
    for record in (ONE, TWO):
        notes.replay(*store.append([record]))
    write_snapshot(store, notes)
    for record in tail:
        store.append([record])
    store.close()


def test_opening_restores_the_snapshot_and_replays_what_follows_it(disk: Disk) -> None:
    with_snapshot(disk, [THREE])
    notes = Notes()
    store = open_store(disk, notes)
    assert notes.records == [ONE, TWO, THREE]
    assert [entry.type for entry in notes.entries] == [THREE.type]
    status = store.status()
    assert isinstance(status.opened_with, Adopted)
    assert (status.opened_with.name, status.snapshot_next_seq) == (NAME, 5)
    assert status.snapshot_bytes == disk.names()[NAME]
    assert store.append([ONE])[0].seq == 6


def test_a_section_comes_back_whole_and_its_view_may_be_changed(disk: Disk) -> None:
    with_snapshot(disk, [])

    class Changing(Notes):
        def restore(self, sections: Mapping[int, memoryview]) -> None:
            assert sections.keys() == {1, 2, 3}
            assert sections[LENGTHS].cast("Q").tolist() == [3, 800]
            super().restore(sections)
            sections[PAYLOADS][0] = 99

    for _ in range(2):
        notes = Changing()
        open_store(disk, notes).close()
        assert notes.records == [ONE, TWO]


def test_a_snapshot_costs_one_flush_and_no_write_to_the_log() -> None:
    disk = MemoryDisk()
    notes = Notes()
    store = open_store(disk, notes)
    notes.replay(*store.append([ONE]))
    before = store.status()
    write_snapshot(store, notes)
    write_snapshot(store, notes)
    after = store.status()
    assert (before.snapshot_io.flushes, after.snapshot_io.flushes) == (0, 1)
    assert after.log_io.writes == before.log_io.writes
    assert after.directory_flushes == before.directory_flushes


def test_a_newer_snapshot_replaces_the_older() -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [])
    notes = Notes()
    store = open_store(disk, notes)
    notes.replay(*store.append([THREE]))
    write_snapshot(store, notes)
    assert [name for name in disk.files if name.endswith(".cvs")] == [snapshot_name(1, 6)]


def test_the_same_snapshot_is_written_again_only_where_there_is_more_to_save() -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [])
    notes = Notes()
    store = open_store(disk, notes)
    more = [*notes.sections(), Section(77, 1, b"more")]
    before = disk.files
    store.write_snapshot(store.position(), more, (2, 0))
    assert disk.files == before
    store.write_snapshot(store.position(), more, (2, 0), renew=True)
    assert before.keys() == disk.files.keys()
    assert len(disk.files[NAME]) > len(before[NAME])
    store.close()
    assert replayed(disk) == [ONE, TWO]


def test_every_flipped_bit_falls_back_to_the_log() -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [THREE])
    sound = disk.files[NAME]
    for bit in range(len(sound) * 8):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        notes = Notes()
        store = open_store(MemoryDisk(disk.files | {NAME: bytes(damaged)}), notes)
        assert notes.records == [ONE, TWO, THREE]
        assert len(notes.entries) == 3
        assert isinstance(store.status().opened_with, Unusable)


def test_every_cut_falls_back_to_the_log() -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [THREE])
    sound = disk.files[NAME]
    for length in range(len(sound)):
        for data in (sound[:length], sound[:length].ljust(len(sound), b"\0")):
            notes = Notes()
            open_store(MemoryDisk(disk.files | {NAME: data}), notes)
            assert notes.records == [ONE, TWO, THREE]
            assert len(notes.entries) == (1 if data == sound else 3)


def test_an_unusable_snapshot_is_written_anew() -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [])
    disk.open(NAME).pwrite(200, b"?")
    notes = Notes()
    store = open_store(disk, notes)
    assert store.status().opened_with == Unusable(NAME, "the table does not verify")
    write_snapshot(store, notes)
    store.close()
    assert isinstance(open_store(disk).status().opened_with, Adopted)


def test_a_snapshot_of_a_newer_format_is_passed_over() -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [])
    sound = disk.files[NAME]
    header = sound[:8] + b"\2" + sound[9:124]
    newer = header + crc32c(header).to_bytes(4, "little") + sound[128:]
    notes = Notes()
    store = open_store(MemoryDisk(disk.files | {NAME: newer}), notes)
    assert store.status().opened_with == Unusable(NAME, "of a newer format")
    assert notes.records == [ONE, TWO]


def test_an_unusable_snapshot_that_cannot_be_removed_is_replaced_later() -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [])
    disk.open(NAME).pwrite(200, b"?")

    def busy(operation: Operation) -> None:
        if operation.kind == "unlink":
            raise PermissionError(errno.EACCES, "held by another program")

    disk.hook = busy
    notes = Notes()
    store = open_store(disk, notes)
    with pytest.raises(StoreUnavailable):
        write_snapshot(store, notes)
    disk.hook = lambda operation: None
    write_snapshot(store, notes)
    store.close()
    assert isinstance(open_store(disk).status().opened_with, Adopted)


def test_a_section_is_of_whole_elements() -> None:
    store = open_store(MemoryDisk())
    with pytest.raises(ValueError, match="no whole elements"):
        store.write_snapshot(store.position(), [Section(1, 8, b"seven..")], (0, 0))


@pytest.mark.parametrize("seed", [2, 3])
def test_a_snapshot_of_another_log_is_passed_over(seed: int) -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [])
    notes = Notes()
    other = MemoryDisk({LOG: log_of([THREE], seed=seed), NAME: disk.files[NAME]})
    assert open_store(other, notes).status().opened_with == Unusable(NAME, "of another log")
    assert notes.records == [THREE]


def test_a_snapshot_that_the_application_declines_is_passed_over() -> None:
    disk = MemoryDisk()
    notes = Notes()
    store = open_store(disk, notes)
    notes.replay(*store.append([ONE]))
    store.write_snapshot(store.position(), [Section(9, 1, b"of another application")], (1, 0))
    store.close()
    notes = Notes()
    opened_with = open_store(disk, notes).status().opened_with
    assert opened_with == Unusable(snapshot_name(1, 4), "a snapshot of another application")
    assert (notes.records, notes.resets) == ([ONE], 1)


def test_the_log_decides_when_it_contradicts_a_restored_state() -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [THREE])
    notes = Wrong()
    opened_with = open_store(disk, notes).status().opened_with
    assert isinstance(opened_with, Unusable)
    assert "written twice" in opened_with.reason
    assert notes.records == [ONE, TWO, THREE]


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log[: len(log_of([ONE]))],
        lambda log: log[:-1],
        lambda log: log[:-1] + b"\xff",
        lambda log: log_of([ONE], [Record(2, b"TWO " * 200)]),
    ],
    ids=["cut between frames", "cut within a frame", "damaged", "another record"],
)
def test_row_16_a_log_that_lost_what_its_snapshot_covers_is_refused(
    change: Callable[[bytes], bytes],
) -> None:
    disk = MemoryDisk()
    with_snapshot(disk, [])
    disk = MemoryDisk(disk.files | {LOG: change(disk.files[LOG])})
    with pytest.raises(CorruptLog, match=f"lost what {NAME} covers, up to sequence 4"):
        open_store(disk)


def test_a_snapshot_is_due_after_a_tail_of_some_size() -> None:
    disk = MemoryDisk()
    notes = Notes()
    store = open_store(disk, notes)
    big = Record(1, b"x" * (1 << 20))

    def appends_until_due() -> int:
        count = 0
        while not store.snapshot_due:
            store.append([big])
            count += 1
        return count

    assert appends_until_due() == 4
    write_snapshot(store, notes)
    assert not store.snapshot_due
    assert [appends_until_due(), appends_until_due()] == [4, 0]
    for _ in range(16):
        store.append([big])
    write_snapshot(store, notes)
    assert appends_until_due() == 9  # a quarter of what there is then


@pytest.mark.parametrize("kind", ["create", "truncate", "pwrite", "sync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_snapshot_that_cannot_be_written_hurts_nobody(kind: str, number: int) -> None:
    disk = MemoryDisk()
    notes = Notes()
    store = open_store(disk, notes)
    for _ in range(5):
        notes.replay(*store.append([Record(1, b"x" * (1 << 20))]))
    assert store.snapshot_due

    def hook(operation: Operation) -> None:
        if operation.kind == kind and operation.name.endswith(".cvs"):
            raise ShortWrite(number, 600) if kind == "pwrite" else OSError(number, "injected")

    disk.hook = hook
    with pytest.raises(DiskFull if number == errno.ENOSPC else StoreUnavailable):
        write_snapshot(store, notes)
    assert not store.snapshot_due
    assert store.failed is None
    assert not [name for name in disk.files if name.endswith(".cvs")]
    disk.hook = lambda operation: None
    write_snapshot(store, notes)
    store.append([ONE])
    store.close()
    assert isinstance(open_store(disk).status().opened_with, Adopted)


def test_a_position_of_another_log_is_an_error() -> None:
    store, other = open_store(MemoryDisk()), open_store(MemoryDisk(), seed=2)
    other.append([ONE])
    with pytest.raises(ValueError, match="not one of the present log"):
        store.write_snapshot(other.position(), [], (0, 0))


@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 8]), st.binary())),
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
)
def test_any_sections_come_back(
    sections: list[tuple[int, int, bytes]], counts: tuple[int, int]
) -> None:
    expected = {id: data * size for id, size, data in sections}
    restored: dict[int, bytes] = {}

    class Any(Notes):
        def restore(self, sections: Mapping[int, memoryview]) -> None:
            restored.update({id: bytes(view) for id, view in sections.items()})

    disk = MemoryDisk()
    store = open_store(disk)
    written = [Section(id, size, data * size) for id, size, data in sections]
    store.write_snapshot(store.position(), written, counts)
    store.close()
    open_store(disk, Any()).close()
    assert restored == expected
