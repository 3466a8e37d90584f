"""A disk in memory that knows what a crash would leave of it, and fails on demand.

Every file has a content that reads see, a content that is durable, and the changes pending
between the two; so has the set of names. A sync makes durable; a failed sync forgets what
was pending, as Linux does, while reads still see it (names taken away stay pending: they may
come back). `crash_states` enumerates the disks that a power cut at this moment could leave, by
the rules of that module.

A `hook` is called before every change of the disk and may raise an OSError, which is then
what the operation does: `ShortWrite` after a part of the data has been written.
"""

import errno
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from .crash_states import (
    Inode,
    Link,
    Resize,
    Write,
    change_content,
    changed,
    directory_of,
    file_states,
    name_states,
    relinked,
)
from .errors import Holder, StoreLocked
from .layout import LOCK
from .medium import Buffer, Counters, File, Lock
from .place import Hazard


@dataclass(frozen=True, slots=True)
class Operation:
    """A change about to happen: what, to which name, and how many came before it."""

    kind: str
    name: str
    number: int


class ShortWrite(OSError):
    """Raised by a hook: `written` bytes get through before the error."""

    def __init__(self, number: int, written: int) -> None:
        super().__init__(number, "injected after a short write")
        self.written = written


class MemoryDisk:
    """A `Disk` in memory; see the module."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        """Begin with `files`, by name, all durable, and much room."""
        self.path = "memory"
        self.counters: defaultdict[str, Counters] = defaultdict(Counters)
        self.hook: Callable[[Operation], None] = lambda operation: None
        self.hazards_found: tuple[Hazard, ...] = ()
        self.room_bytes = 1 << 40
        self._operations = 0
        self._holder: Holder | None = None
        self._previous: Holder | None = None
        self._names: dict[str, Inode] = {}
        self._pending: list[Link] = []
        for name, data in (files or {}).items():
            if directory := directory_of(name):
                self._names[directory] = Inode(is_directory=True)
            self._names[name] = Inode(bytearray(data), data)
        self._durable_names = dict(self._names)

    @property
    def files(self) -> dict[str, bytes]:
        """Every file as a reader sees it, by name."""
        return {
            name: bytes(inode.content)
            for name, inode in self._names.items()
            if not inode.is_directory
        }

    def kill(self) -> None:
        """End the process that uses the disk: its lock goes, its unsynced writes stay."""
        self._holder = None

    def hazards(self) -> tuple[Hazard, ...]:
        return self.hazards_found

    def free_bytes(self) -> int:
        return self.room_bytes

    def make_directory(self) -> None:
        """Nothing: it is there."""

    def lock(self, host: str, since_ms: int) -> Lock:
        self.refuse_locked()
        self._holder = Holder(0, host, since_ms)
        lock = _MemoryLock(self, self._previous)
        self._previous = self._holder
        if LOCK not in self._names:
            self._link(LOCK, Inode())
        return lock

    def publish(self, endpoint: str) -> None:
        """Note how the holder of the lock is reached."""
        if self._holder is not None:
            self._holder = replace(self._holder, endpoint=endpoint)

    def refuse_locked(self) -> None:
        if self._holder is not None:
            raise StoreLocked(self._holder)

    def create(self, name: str) -> File:
        if name in self._names:
            raise FileExistsError(errno.EEXIST, "exists", name)
        self.before("create", name)
        directory = directory_of(name)
        if directory and directory not in self._names:
            self._link(directory, Inode(is_directory=True))
        self._link(name, Inode())
        return self.open(name)

    def open(self, name: str, *, writable: bool = True) -> File:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, "missing", name)
        suffix = name[name.rindex(".") :]
        return _MemoryFile(self, name, self._names[name], self.counters[suffix], writable)

    def map(self, name: str) -> memoryview:
        file = self.open(name)
        return memoryview(bytearray(file.pread(0, file.size())))

    def unlink(self, name: str) -> None:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, "missing", name)
        self.before("unlink", name)
        self._link(name, None)

    def names(self, directory: str = "") -> dict[str, int]:
        return {
            name.rpartition("/")[2]: len(inode.content)
            for name, inode in self._names.items()
            if directory_of(name) == directory
        }

    def sync_directory(self, directory: str = "") -> None:
        self.counters[""].flushes += 1
        synced = [link for link in self._pending if directory_of(link.name) == directory]
        others = [link for link in self._pending if link not in synced]
        try:
            self.before("sync_directory", directory)
        except OSError:
            # As with files: no later sync will write the names that were given.
            self._pending = [link for link in self._pending if link in others or link.inode is None]
            raise
        self._pending = others
        self._durable_names = relinked(self._durable_names, synced)

    def before(self, kind: str, name: str) -> None:
        """Count a change and let the hook see it, and perhaps prevent it."""
        self._operations += 1
        self.hook(Operation(kind, name, self._operations))

    def crash_states(self, *, weak_order: bool = False) -> Iterator[dict[str, bytes]]:
        """Every set of files that a power cut now could leave, each once.

        `weak_order`: changes of names may reach the disk in any order.
        """
        seen: set[frozenset[tuple[str, bytes]]] = set()
        for names in name_states(self._durable_names, self._pending, weak_order=weak_order):
            for state in file_states(names):
                key = frozenset(state.items())
                if key not in seen:
                    seen.add(key)
                    yield state

    def _link(self, name: str, inode: Inode | None) -> None:
        link = Link(name, inode)
        self._names = relinked(self._names, [link])
        self._pending.append(link)


class _MemoryLock:
    def __init__(self, disk: MemoryDisk, previous: Holder | None) -> None:
        self._disk: MemoryDisk | None = disk
        self.previous = previous

    def publish(self, endpoint: str) -> None:
        if self._disk is not None:
            self._disk.publish(endpoint)

    def release(self) -> None:
        if self._disk is not None:
            self._disk.kill()
            self._disk = None


class _MemoryFile:
    def __init__(
        self, disk: MemoryDisk, name: str, inode: Inode, counters: Counters, writable: bool
    ) -> None:
        self._disk = disk
        self._name = name
        self._inode: Inode | None = inode
        self._counters = counters
        self._writable = writable

    def size(self) -> int:
        return len(self._opened().content)

    def pread(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0:
            raise OSError(errno.EINVAL, "a negative offset or length")
        data = bytes(self._opened().content[offset : offset + length])
        self._counters.reads += 1
        self._counters.bytes_read += len(data)
        return data

    def pwrite(self, offset: int, data: Buffer) -> None:
        inode = self._opened(to_write=True)
        self._counters.writes += 1
        self._counters.bytes_written += len(data)
        try:
            self._disk.before("pwrite", self._name)
        except ShortWrite as error:
            change_content(inode, Write(offset, bytes(data[: error.written])))
            raise
        change_content(inode, Write(offset, bytes(data)))

    def truncate(self, size: int) -> None:
        inode = self._opened(to_write=True)
        self._disk.before("truncate", self._name)
        change_content(inode, Resize(size))

    def sync_data(self) -> None:
        self._flush("sync_data")

    def sync(self) -> None:
        self._flush("sync")

    def close(self) -> None:
        self._inode = None

    def _flush(self, kind: str) -> None:
        inode = self._opened()
        self._counters.flushes += 1
        try:
            self._disk.before(kind, self._name)
        except OSError:
            # Linux marks the pages clean: no later sync will write them.
            inode.pending.clear()
            raise
        inode.durable = changed(inode.durable, inode.pending)
        inode.pending.clear()

    def _opened(self, *, to_write: bool = False) -> Inode:
        if self._inode is None or (to_write and not self._writable):
            raise OSError(errno.EBADF, "the file is closed", self._name)
        return self._inode
