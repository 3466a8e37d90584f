"""One contract for every disk, and what a crash leaves of the one in memory."""

import errno
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from convmem.storage import Disk, File, MemoryDisk, Operation, OsDisk, ShortWrite, StoreLocked

from .platforms import on_macos, on_windows

NAME = "log-00000001.cvl"


@pytest.fixture(params=["os", "memory", "windows", "macos"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made: Disk
    match request.param:
        case "memory":
            made = MemoryDisk()
        case "os":
            made = OsDisk(tmp_path / "store")
        case "windows":
            made = on_windows(monkeypatch).disk(tmp_path / "store")
        case _:
            made = on_macos(monkeypatch).disk(tmp_path / "store")
    made.make_directory()
    return made


def test_what_is_written_is_read(disk: Disk) -> None:
    file = disk.create(NAME)
    file.pwrite(0, b"one line\r\n\x1a end")
    file.pwrite(4, b"LINE")
    assert file.pread(0, 100) == b"one LINE\r\n\x1a end"
    assert file.pread(4, 4) == b"LINE"
    assert file.pread(100, 5) == b""
    file.close()
    assert disk.open(NAME).size() == 15


def test_a_write_past_the_end_leaves_zeros(disk: Disk) -> None:
    file = disk.create(NAME)
    file.pwrite(3, b"x")
    assert file.pread(0, 9) == b"\0\0\0x"


def test_truncate_shortens_and_lengthens(disk: Disk) -> None:
    file = disk.create(NAME)
    file.pwrite(0, b"abcdef")
    file.truncate(2)
    file.truncate(4)
    assert file.pread(0, 9) == b"ab\0\0"


def test_an_empty_write_writes_nothing(disk: Disk) -> None:
    file = disk.create(NAME)
    file.pwrite(0, b"")
    assert file.size() == 0


def test_create_is_exclusive(disk: Disk) -> None:
    disk.create(NAME).close()
    with pytest.raises(FileExistsError):
        disk.create(NAME)


def test_a_missing_file_is_an_error(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(NAME)
    with pytest.raises(FileNotFoundError):
        disk.unlink(NAME)


def test_names_have_sizes_and_subdirectories_are_made(disk: Disk) -> None:
    disk.create("quarantine/cut-1.bin").pwrite(0, b"12345")
    disk.create(NAME).pwrite(0, b"123")
    disk.sync_directory("quarantine")
    disk.sync_directory()
    assert disk.names("quarantine") == {"cut-1.bin": 5}
    assert disk.names().keys() == {"quarantine", NAME}
    assert disk.names()[NAME] == 3
    assert disk.names("elsewhere") == {}
    disk.unlink("quarantine/cut-1.bin")
    assert disk.names("quarantine") == {}


def test_a_file_that_is_opened_to_read_is_not_written(disk: Disk) -> None:
    disk.create(NAME).pwrite(0, b"as it was")
    file = disk.open(NAME, writable=False)
    assert file.pread(0, 99) == b"as it was"
    with pytest.raises(OSError, match="Errno"):
        file.pwrite(0, b"x")
    with pytest.raises(OSError, match="Errno"):
        file.truncate(0)
    assert disk.names()[NAME] == 9


def test_a_mapping_is_private_and_outlives_its_file(disk: Disk) -> None:
    file = disk.create(NAME)
    assert disk.map(NAME).tobytes() == b""
    file.pwrite(0, b"one two")
    file.close()
    view = disk.map(NAME)
    view[:3] = b"ONE"
    assert view.tobytes() == b"ONE two"
    assert disk.open(NAME).pread(0, 9) == b"one two"
    disk.unlink(NAME)
    assert view.tobytes() == b"ONE two"


def test_a_mapping_counts_as_one_read(disk: Disk) -> None:
    disk.create(NAME).pwrite(0, b"12345")
    disk.map(NAME)
    counted = disk.counters[".cvl"]
    assert (counted.reads, counted.bytes_read) == (1, 5)


def test_a_lock_is_held_once_and_names_who_had_it_before(disk: Disk) -> None:
    disk.refuse_locked()
    first = disk.lock("a", 1)
    assert first.previous is None
    with pytest.raises(StoreLocked):
        disk.lock("b", 2)
    with pytest.raises(StoreLocked) as refused:
        disk.refuse_locked()
    assert refused.value.holder is not None
    assert (refused.value.holder.host, refused.value.holder.since_ms) == ("a", 1)
    first.release()
    first.release()
    disk.refuse_locked()
    previous = disk.lock("b", 2).previous
    assert previous is not None
    assert previous.host == "a"


def test_there_is_room(disk: Disk) -> None:
    assert disk.free_bytes() > 0


@pytest.mark.parametrize(
    "use",
    [
        lambda file: file.size(),
        lambda file: file.pread(0, 1),
        lambda file: file.pwrite(0, b"x"),
        lambda file: file.truncate(0),
        lambda file: file.sync(),
        lambda file: file.sync_data(),
    ],
    ids=["size", "pread", "pwrite", "truncate", "sync", "sync_data"],
)
def test_a_closed_file_refuses(disk: Disk, use: Callable[[File], object]) -> None:
    file = disk.create(NAME)
    file.close()
    file.close()
    with pytest.raises(OSError, match=rf"\[Errno {errno.EBADF}\]"):
        use(file)


def test_operations_are_counted_by_kind_of_file(disk: Disk) -> None:
    log = disk.create(NAME)
    log.pwrite(0, b"12345")
    log.sync_data()
    log.sync()
    log.pread(1, 100)
    disk.create("snap-00000001-000000000001.cvs").pwrite(0, b"1")
    disk.sync_directory()
    counted = disk.counters[".cvl"]
    assert (counted.writes, counted.bytes_written, counted.flushes) == (1, 5, 2)
    assert (counted.reads, counted.bytes_read) == (1, 4)
    assert disk.counters[".cvs"].writes == 1
    assert disk.counters[""].flushes == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no modes there")
def test_directories_and_files_are_made_for_their_owner_only(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path / "some" / "where")
    disk.make_directory()
    disk.make_directory()
    disk.create("quarantine/cut-1.bin").close()
    made = [tmp_path / "some", tmp_path / "some/where", tmp_path / "some/where/quarantine"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}
    assert stat.S_IMODE((made[2] / "cut-1.bin").stat().st_mode) == 0o600


def test_a_crash_keeps_what_was_synced_and_maybe_the_rest() -> None:
    disk = MemoryDisk()
    file = disk.create(NAME)
    file.pwrite(0, b"durable")
    file.sync()
    disk.sync_directory()
    file.pwrite(7, b"+++")
    contents = {state.get(NAME) for state in disk.crash_states()}
    assert {b"durable", b"durable+++", b"durable+", b"durable\0\0\0"} <= contents
    assert all(content is not None and content[:7] == b"durable" for content in contents)


def test_a_crash_may_lose_a_name_until_its_directory_is_synced() -> None:
    disk = MemoryDisk()
    disk.create(NAME).sync()
    assert {NAME in state for state in disk.crash_states()} == {True, False}
    disk.sync_directory()
    assert {NAME in state for state in disk.crash_states()} == {True}
    disk.unlink(NAME)
    assert {NAME in state for state in disk.crash_states()} == {True, False}


def test_weak_order_lets_a_later_name_survive_alone() -> None:
    disk = MemoryDisk()
    disk.create("a.bin")
    disk.create("b.bin")
    later_alone = {"b.bin": b""}
    assert later_alone not in list(disk.crash_states())
    assert later_alone in list(disk.crash_states(weak_order=True))


def test_a_file_without_its_directory_is_lost() -> None:
    disk = MemoryDisk()
    disk.create("quarantine/cut.bin").sync()
    disk.sync_directory("quarantine")
    assert {} in list(disk.crash_states())
    disk.sync_directory()
    assert list(disk.crash_states()) == [{"quarantine/cut.bin": b""}]


def test_a_failed_sync_forgets_what_was_pending() -> None:
    disk = MemoryDisk({NAME: b"old"})
    file = disk.open(NAME)
    file.pwrite(0, b"new")

    def fail(operation: Operation) -> None:
        raise OSError(errno.EIO, "injected")

    disk.hook = fail
    with pytest.raises(OSError, match="injected"):
        file.sync()
    disk.hook = lambda operation: None
    file.sync()
    assert disk.files == {NAME: b"new"}
    assert list(disk.crash_states()) == [{NAME: b"old"}]


def test_a_short_write_writes_a_part() -> None:
    disk = MemoryDisk({NAME: b""})
    disk.hook = lambda operation: _raise(ShortWrite(errno.ENOSPC, 2))
    with pytest.raises(OSError, match="injected") as refused:
        disk.open(NAME).pwrite(0, b"abcd")
    assert refused.value.errno == errno.ENOSPC
    assert disk.files == {NAME: b"ab"}


def _raise(error: OSError) -> None:
    raise error
