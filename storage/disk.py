"""The only door to the operating system: a `medium.Disk` on a directory of this machine.

What differs between systems (durable flush on macOS; text mode, missing pread and files that
other programs hold on Windows; locks) ends here. No buffering, no renaming, no O_APPEND (it
makes Linux ignore the offset of a write).
"""

import errno
import json
import mmap
import os
import shutil
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar, TypeVar

from .errors import Holder, StoreLocked
from .layout import LOCK
from .medium import Buffer, Counters, File, Lock
from .place import Hazard, hazards_of

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Windows locks are mandatory: lock a byte that nobody reads, far beyond the text.
_LOCKED_BYTE = 1 << 30
_HOLDER_BYTES_MAX = 4096
# A descriptor that no process has: what uses it fails as a closed one should (EBADF).
_CLOSED = (1 << 31) - 1

T = TypeVar("T")


class OsDisk:
    """A `Disk` on a directory of this machine."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self.path = str(path)
        self.counters: defaultdict[str, Counters] = defaultdict(Counters)
        self._claimed: Lock | None = None

    def hazards(self) -> tuple[Hazard, ...]:
        return hazards_of(self._path)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._path).free

    def make_directory(self) -> None:
        missing = [path for path in (self._path, *self._path.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            _sync_directory(path.parent)

    def claim(self, host: str, since_ms: int) -> None:
        """Hold the store before it is opened, which takes what is claimed: others then see who
        has it, and need not load what opening takes. Raises StoreLocked, OSError.
        """
        self.make_directory()
        self._claimed = self.lock(host, since_ms)

    def disclaim(self) -> None:
        """Let go of a claim that no opening took."""
        if self._claimed is not None:
            self._claimed.release()
            self._claimed = None

    def lock(self, host: str, since_ms: int) -> Lock:
        claimed, self._claimed = self._claimed, None
        return claimed or _OsLock(self._path / LOCK, Holder(os.getpid(), host, since_ms))

    def refuse_locked(self) -> None:
        _OsLock.probe(self._path / LOCK)

    def create(self, name: str) -> File:
        path = self._path / name
        if path.parent != self._path:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        return self._file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def open(self, name: str, *, writable: bool = True) -> File:
        return self._file(name, os.O_RDWR if writable else os.O_RDONLY)

    def map(self, name: str) -> memoryview:
        descriptor = _open(self._path / name, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            # An empty file cannot be mapped. The view keeps the mapping, not the descriptor.
            view = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY) if size else b""
        finally:
            os.close(descriptor)
        counters = self.counters[PurePosixPath(name).suffix]
        counters.reads += 1
        counters.bytes_read += size
        return memoryview(view)

    def unlink(self, name: str) -> None:
        _retried((self._path / name).unlink)

    def names(self, directory: str = "") -> dict[str, int]:
        try:
            found = os.scandir(self._path / directory)
        except FileNotFoundError:
            return {}
        sizes = {}
        with found:
            for entry in found:
                # It may be gone by now: a check runs beside a store in use.
                with suppress(FileNotFoundError):
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
        return sizes

    def sync_directory(self, directory: str = "") -> None:
        self.counters[""].flushes += 1
        _sync_directory(self._path / directory)

    def _file(self, name: str, flags: int) -> File:
        descriptor = _retried(lambda: _open(self._path / name, flags))
        return _OsFile(descriptor, self.counters[PurePosixPath(name).suffix])


class _OsFile:
    def __init__(self, descriptor: int, counters: Counters) -> None:
        self._descriptor = descriptor
        self._counters = counters

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def pread(self, offset: int, length: int) -> bytes:
        data = _pread(self._descriptor, length, offset)
        while len(data) < length:
            more = _pread(self._descriptor, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        self._counters.reads += 1
        self._counters.bytes_read += len(data)
        return data

    def pwrite(self, offset: int, data: Buffer) -> None:
        left = memoryview(data)
        self._counters.writes += 1
        self._counters.bytes_written += len(left)
        while left:
            written = _pwrite(self._descriptor, left, offset)
            if not written:
                raise OSError(errno.EIO, "a write of no bytes")
            left = left[written:]
            offset += written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync_data(self) -> None:
        self._counters.flushes += 1
        _sync_data(self._descriptor)
        # A file that somebody removed takes writes as before, and ends with this process.
        if os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the file was removed from its directory")

    def sync(self) -> None:
        self._counters.flushes += 1
        _sync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)


class _OsLock:
    """A lock that ends with its process, on a file that stays.

    The registry refuses a second lock in this process before the file is touched: where a
    network file system turns the lock into a record lock, closing a second descriptor of
    the file would drop the first one's lock.
    """

    _registry: ClassVar[dict[tuple[int, int], Holder]] = {}
    _registry_lock = threading.Lock()

    def __init__(self, path: Path, holder: Holder) -> None:
        with self._registry_lock:
            self._refuse_own(path)
            self._descriptor = _open(path, os.O_RDWR | os.O_CREAT)
            _lock_or_close(self._descriptor)
            self._held = _identity(os.fstat(self._descriptor))
            self._registry[self._held] = holder
        self._holder = holder
        self.previous = _read_holder(self._descriptor)
        # The text is for those who are refused; a full disk must not keep the store closed.
        with suppress(OSError):
            self._write_holder()

    def publish(self, endpoint: str) -> None:
        with self._registry_lock:
            self._holder = replace(self._holder, endpoint=endpoint)
            self._registry[self._held] = self._holder
        self._write_holder()

    def _write_holder(self) -> None:
        text = json.dumps(asdict(self._holder)).encode()
        _pwrite(self._descriptor, memoryview(text), 0)  # a full disk refuses this, and all stays
        os.ftruncate(self._descriptor, len(text))

    @classmethod
    def probe(cls, path: Path) -> None:
        """Raises StoreLocked while somebody, here or elsewhere, holds the lock."""
        with cls._registry_lock:
            cls._refuse_own(path)
            try:
                descriptor = _open(path, os.O_RDONLY)
            except FileNotFoundError:
                return
            _lock_or_close(descriptor)
            _unlock(descriptor)
            os.close(descriptor)

    def release(self) -> None:
        with self._registry_lock:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            if descriptor != _CLOSED:
                del self._registry[self._held]
                _unlock(descriptor)
                os.close(descriptor)

    @classmethod
    def _refuse_own(cls, path: Path) -> None:
        if path.exists() and (holder := cls._registry.get(_identity(path.stat()))):
            raise StoreLocked(holder)


def _lock_or_close(descriptor: int) -> None:
    try:
        _lock(descriptor)
    except OSError as error:
        holder = _read_holder(descriptor)
        os.close(descriptor)
        if error.errno not in _LOCKED_BY_ANOTHER:
            raise
        raise StoreLocked(holder) from error


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _read_holder(descriptor: int) -> Holder | None:
    """Who the text of a lock file names; None when it is not (yet) complete."""
    try:
        return Holder(**json.loads(_pread(descriptor, _HOLDER_BYTES_MAX, 0)))
    except (OSError, ValueError, TypeError):
        return None


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)


if sys.platform == "win32":
    _LOCKED_BY_ANOTHER = (errno.EACCES, errno.EDEADLK)
    # Access denied, sharing violation, lock violation: a virus scanner has the file, or a
    # mapping of it is about to go.
    _SHARING_ERRORS = (5, 32, 33)
    _RETRY_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
    # A read or write at a place is two calls there: no other thread may come between.
    _seek_lock = threading.Lock()

    def _pread(descriptor: int, length: int, offset: int) -> bytes:
        with _seek_lock:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, length)

    def _pwrite(descriptor: int, data: memoryview, offset: int) -> int:
        with _seek_lock:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.write(descriptor, data)

    _sync = _sync_data = os.fsync

    def _retried(call: Callable[[], T]) -> T:
        """Call again, for a bounded time, while another program has the file."""
        for pause_s in _RETRY_PAUSES_S:
            try:
                return call()
            except OSError as error:
                if getattr(error, "winerror", None) not in _SHARING_ERRORS:
                    raise
                time.sleep(pause_s)
        return call()

    def _sync_directory(path: Path) -> None:
        """Nothing: the file system logs a new entry before the flush of its file returns."""

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    _LOCKED_BY_ANOTHER = (errno.EAGAIN, errno.EACCES)

    def _retried(call: Callable[[], T]) -> T:
        return call()

    _pread = os.pread
    _pwrite = os.pwrite

    def _sync_directory(path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    if sys.platform == "darwin":

        def _sync(descriptor: int) -> None:
            """Flush the drive's cache too, which fsync does not do there."""
            try:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                    raise
                os.fsync(descriptor)

        _sync_data = _sync
    else:
        _sync = os.fsync
        _sync_data = os.fdatasync
