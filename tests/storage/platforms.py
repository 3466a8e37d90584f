"""The disk as other systems have it: the same file, loaded with that system's calls faked.

What a fake stands for is that system's documentation; nothing here ran there.
"""

import errno
import fcntl
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from convmem.storage import Disk, OsDisk

# msvcrt.locking(): lock without waiting, and unlock.
LK_UNLCK, LK_NBLCK = 0, 2
F_FULLFSYNC = 51
# A flag that Linux takes for large files and ignores.
O_BINARY = 0x8000


@dataclass(slots=True)
class Platform:
    """A loaded disk, and the calls that it made."""

    module: ModuleType
    calls: list[tuple[str, Any]] = field(default_factory=list)

    def disk(self, path: Path) -> Disk:
        made: Disk = self.module.OsDisk(path)
        return made

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


def load(module_name: str, platform: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the library as it is on a platform, beside the one that is in use."""
    package = OsDisk.__module__.rpartition(".")[0]
    folder = sys.modules[package].__file__
    assert folder is not None
    path = Path(folder).with_name(f"{module_name}.py")
    name = f"{package}.{module_name}_on_{platform}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    with pytest.MonkeyPatch.context() as while_loading:
        while_loading.setattr(sys, "platform", platform)
        spec.loader.exec_module(module)
    return module


def _recorded(platform: Platform, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        platform.calls.append((name, arguments))
        return original(*arguments)

    monkeypatch.setattr(owner, name, call)


def on_windows(monkeypatch: pytest.MonkeyPatch) -> Platform:
    """Windows: no pread, pwrite, fdatasync or flock; text mode unless told otherwise."""
    msvcrt = ModuleType("msvcrt")
    platform = Platform(msvcrt)

    def locking(descriptor: int, mode: int, count: int) -> None:
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        platform.calls.append(("locking", (mode, count, place)))
        if mode == LK_UNLCK:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    msvcrt.__dict__.update(locking=locking, LK_NBLCK=LK_NBLCK, LK_UNLCK=LK_UNLCK)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    monkeypatch.setattr(os, "O_BINARY", O_BINARY, raising=False)
    for name in ("pread", "pwrite", "fdatasync"):
        monkeypatch.delattr(os, name)
    for name in ("open", "fsync"):
        _recorded(platform, monkeypatch, os, name)
    platform.module = load("disk", "win32", monkeypatch)
    monkeypatch.setattr(
        platform.module.time, "sleep", lambda pause_s: platform.calls.append(("sleep", pause_s))
    )
    return platform


def on_macos(monkeypatch: pytest.MonkeyPatch, refusal: OSError | None = None) -> Platform:
    """macOS: no fdatasync, and F_FULLFSYNC, which may be refused."""
    platform = Platform(ModuleType("unused"))

    def control(descriptor: int, command: int) -> int:
        platform.calls.append(("fcntl", command))
        if refusal is not None:
            raise refusal
        os.fstat(descriptor)  # as any call on a closed descriptor fails
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.delattr(os, "fdatasync")
    _recorded(platform, monkeypatch, os, "fsync")
    platform.module = load("disk", "darwin", monkeypatch)
    return platform
