"""What is done differently on Windows and macOS, held to it through fakes."""

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import pytest

from convmem.storage import (
    Hazard,
    HazardKind,
    MemoryDisk,
    OsDisk,
    Record,
    Store,
    StoreUnavailable,
    log_name,
    mounted_type,
    sync_folder,
)

from .platforms import F_FULLFSYNC, LK_NBLCK, LK_UNLCK, O_BINARY, load, on_macos, on_windows
from .support import LOG, Notes, compact, environment, open_store

NAME = log_name(1)


def test_windows_opens_binary_and_flushes_files_but_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = on_windows(monkeypatch)
    disk = windows.disk(tmp_path / "store")
    disk.make_directory()
    file = disk.create(NAME)
    file.pwrite(0, b"a\r\n\x1a")
    file.sync_data()
    file.sync()
    disk.sync_directory()
    disk.open(NAME).close()
    disk.map(NAME)
    opened = [arguments for name, arguments in windows.calls if name == "open"]
    assert opened
    assert all(flags & O_BINARY for _, flags, *_ in opened)
    assert windows.names().count("fsync") == 2
    assert disk.counters[""].flushes == 1


def test_windows_locks_a_byte_that_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = on_windows(monkeypatch)
    disk = windows.disk(tmp_path)
    disk.lock("a", 1).release()
    assert [call for name, call in windows.calls if name == "locking"] == [
        (LK_NBLCK, 1, 1 << 30),
        (LK_UNLCK, 1, 1 << 30),
    ]
    assert b'"host": "a"' in (tmp_path / "store.lock").read_bytes()


class SharingError(PermissionError):
    """As Windows raises it while another program has the file."""

    def __init__(self, winerror: int) -> None:
        super().__init__(errno.EACCES, "in use")
        self.winerror = winerror


@pytest.mark.parametrize("winerror", [5, 32, 33])
@pytest.mark.parametrize("times", [1, 5, 99])
def test_windows_waits_a_while_for_a_file_that_another_program_has(
    winerror: int, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = on_windows(monkeypatch)
    disk = windows.disk(tmp_path)
    disk.create(NAME).close()
    unlink = Path.unlink
    left = times

    def busy(path: Path) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise SharingError(winerror)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", busy)
    if times > 5:
        with pytest.raises(SharingError):
            disk.unlink(NAME)
    else:
        disk.unlink(NAME)
        assert not (tmp_path / NAME).exists()
    pauses = [pause for name, pause in windows.calls if name == "sleep"]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8][:times]


def test_windows_does_not_wait_for_what_will_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = on_windows(monkeypatch)
    disk = windows.disk(tmp_path)
    with pytest.raises(FileNotFoundError):
        disk.open(NAME)
    assert "sleep" not in windows.names()


@pytest.mark.parametrize("platform", [on_windows, on_macos])
def test_a_store_lives_there(
    platform: Callable[[pytest.MonkeyPatch], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = platform(monkeypatch).disk(tmp_path / "store")
    store = open_store(disk)
    kept = store.append([Record(1, b"kept"), Record(2, b"not kept")])[0]
    store.switch(compact(store, [store.read(kept.frame_offset, kept.start)]))
    store.retire()
    store.close()
    notes = Notes()
    open_store(disk, notes).close()
    assert len(notes.records) == 1
    assert not (tmp_path / "store" / LOG).exists()


def test_macos_flushes_the_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    macos = on_macos(monkeypatch)
    disk = macos.disk(tmp_path)
    file = disk.create(NAME)
    file.sync()
    file.sync_data()
    disk.sync_directory()
    assert macos.calls == [("fcntl", F_FULLFSYNC)] * 3


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_macos_falls_back_where_the_drive_cannot_be_flushed(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    macos = on_macos(monkeypatch, OSError(number, "not here"))
    macos.disk(tmp_path).create(NAME).sync_data()
    assert macos.names() == ["fcntl", "fsync"]


def test_macos_passes_on_a_flush_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    macos = on_macos(monkeypatch, OSError(errno.EIO, "the drive is gone"))
    with pytest.raises(OSError, match="the drive is gone"):
        macos.disk(tmp_path).create(NAME).sync()
    assert macos.names() == ["fcntl"]


MOUNTS = """\
22 27 0:20 / /proc rw,nosuid - proc proc rw
27 1 254:1 / / rw - ext4 /dev/vda1 rw
40 27 0:40 / /home/u/my\\040mail rw - nfs4 server:/mail rw
41 27 0:41 / /home/u/far rw shared:7 master:1 - fuse.sshfs u@host: rw
42 41 0:42 / /home/u/far/near rw - tmpfs tmpfs rw
43 27 0:43 / /over rw - ext4 /dev/vdb rw
44 27 0:44 / /over rw - cifs //server/share rw
a line that makes no sense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/u", "ext4"),
        ("/home/u/my mail/store", "nfs4"),
        ("/home/u/my mailbox", "ext4"),
        ("/home/u/far", "fuse.sshfs"),
        ("/home/u/far/near/store", "tmpfs"),
        ("/over/it", "cifs"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert mounted_type(MOUNTS, Path(path)) == kind
    assert mounted_type("", Path(path)) is None


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/home/u/Dropbox/notes", "Dropbox"),
        ("/Users/u/Library/Mobile Documents/com~apple~CloudDocs/x", "Mobile Documents"),
        ("/Users/u/Library/CloudStorage/GoogleDrive-u@example.org/x", "CloudStorage"),
        ("/c/Users/u/OneDrive - A Company/x", "OneDrive - A Company"),
        ("/home/u/Dropboxes/x", None),
        ("/home/u/notes", None),
    ],
)
def test_the_folder_of_a_tool_that_copies(path: str, folder: str | None) -> None:
    assert sync_folder(Path(path)) == folder


def test_a_folder_that_syncthing_keeps(tmp_path: Path) -> None:
    (tmp_path / ".stfolder").mkdir()
    assert sync_folder(tmp_path / "deep" / "store") == str(tmp_path / ".stfolder")


def test_the_drives_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"C:\\": 3, "Z:\\": 4}
    kernel = SimpleNamespace(kernel32=SimpleNamespace(GetDriveTypeW=kinds.get))
    monkeypatch.setattr(ctypes, "windll", kernel, raising=False)
    network_type = load("place", "win32", monkeypatch)._network_type
    assert network_type(PureWindowsPath(r"C:\Users\u\store")) is None
    assert network_type(PureWindowsPath(r"Z:\store")) == "network drive"
    assert network_type(PureWindowsPath(r"\\server\share\store")) == "UNC path"


@pytest.mark.parametrize(
    ("flags", "result", "kind"), [(0, 0, "smbfs"), (0x1000, 0, None), (0, -1, None)]
)
def test_the_mounts_of_macos(
    flags: int, result: int, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def statfs(path: bytes, status: Any) -> int:
        asked.append(path)
        status[64:68] = flags.to_bytes(4, "little")
        status[72:77] = b"smbfs"
        return result

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(statfs=statfs))
    network_type = load("place", "darwin", monkeypatch)._network_type
    assert network_type(Path("/tmp/not/there/yet")) == kind
    assert asked == [b"/tmp"]


def test_other_systems_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("place", "freebsd14", monkeypatch)._network_type(Path("/")) is None


NETWORK = Hazard(HazardKind.NETWORK, "nfs4")
SYNCED = Hazard(HazardKind.SYNCED, "Dropbox")


def test_a_network_file_system_is_refused_unless_allowed() -> None:
    disk = MemoryDisk()
    disk.hazards_found = (SYNCED, NETWORK)
    with pytest.raises(StoreUnavailable, match=r"one machine only \(nfs4\)"):
        open_store(disk)
    assert disk.files == {}
    store = Store.open(disk, environment(), Notes(), allow_network=True)
    assert store.status().hazards == (SYNCED, NETWORK)


def test_another_host_before_is_a_hazard_once() -> None:
    disk = MemoryDisk()
    open_store(disk).close()
    elsewhere = environment()
    elsewhere = type(elsewhere)(elsewhere.now_ms, elsewhere.random_bytes, bytes(16))
    first = Store.open(disk, elsewhere, Notes())
    (hazard,) = first.status().hazards
    assert hazard == Hazard(HazardKind.OTHER_HOST, f"host {environment().host_id.hex()}")
    first.close()
    again = Store.open(disk, elsewhere, Notes())
    assert again.status().hazards == ()
    again.close()
    (hazard,) = Store.open(MemoryDisk(disk.files), elsewhere, Notes()).status().hazards
    assert hazard.kind is HazardKind.OTHER_HOST


def test_this_place_is_known(tmp_path: Path) -> None:
    (tmp_path / "Dropbox").mkdir()
    kinds = {hazard.kind for hazard in OsDisk(tmp_path / "Dropbox" / "store").hazards()}
    assert HazardKind.SYNCED in kinds
    assert os.listdir(tmp_path / "Dropbox") == []
