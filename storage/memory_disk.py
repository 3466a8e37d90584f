"""A disk in memory that knows what a crash would leave of it, and fails on demand.

Every file has a content that reads see, a content that is durable, and the changes pending
between the two; so has the set of names. A sync makes durable; a failed sync forgets what
was pending, as Linux does, while reads still see it (names taken away stay pending: they may
come back). `crash_states` enumerates the disks that a power cut at this moment could leave:

    names   every prefix of the pending changes, or (weak order) every subset of few
    files   every prefix of the pending changes; each change missing; the last write cut
            after each sector and at odd bytes, each sector missing, each one alone,
            none but with the new size, the same and zeros up to a block; what was not
            written holds what it held
    both    each file against nothing and everything else that survived; all
            combinations when they are few

A `hook` is called before every change of the disk and may raise an OSError, which is then
what the operation does: `ShortWrite` after a part of the data has been written.
"""

import errno
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from .errors import Holder, StoreLocked
from .format import SECTOR_BYTES
from .layout import LOCK
from .medium import Buffer, Counters, File, Lock
from .place import Hazard

BLOCK_BYTES: Final = 4096
# Pending changes of names are few; more than this would not be enumerated in a lifetime.
SUBSET_CHANGES_MAX: Final = 6
# Combinations of files beyond this are sampled: one file at a time.
PRODUCT_STATES_MAX: Final = 400
# A megabyte has 2,048 sectors: take those at both ends, and some between.
SECTORS_TRIED_MAX: Final = 48
ODD_CUTS: Final = (1, 7, 8, 9, 31, 32, 33)


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


@dataclass(frozen=True, slots=True)
class _Write:
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Resize:
    size: int


_Change = _Write | _Resize


@dataclass(slots=True, eq=False)
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[_Change] = field(default_factory=list)
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class _Link:
    """A name given to an inode, or taken away (None)."""

    name: str
    inode: _Inode | None


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
        self._names: dict[str, _Inode] = {}
        self._pending: list[_Link] = []
        for name, data in (files or {}).items():
            if directory := _directory_of(name):
                self._names[directory] = _Inode(is_directory=True)
            self._names[name] = _Inode(bytearray(data), data)
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
            self._link(LOCK, _Inode())
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
        directory = _directory_of(name)
        if directory and directory not in self._names:
            self._link(directory, _Inode(is_directory=True))
        self._link(name, _Inode())
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
            if _directory_of(name) == directory
        }

    def sync_directory(self, directory: str = "") -> None:
        self.counters[""].flushes += 1
        synced = [link for link in self._pending if _directory_of(link.name) == directory]
        others = [link for link in self._pending if link not in synced]
        try:
            self.before("sync_directory", directory)
        except OSError:
            # As with files: no later sync will write the names that were given.
            self._pending = [link for link in self._pending if link in others or link.inode is None]
            raise
        self._pending = others
        self._durable_names = _relinked(self._durable_names, synced)

    def before(self, kind: str, name: str) -> None:
        """Count a change and let the hook see it, and perhaps prevent it."""
        self._operations += 1
        self.hook(Operation(kind, name, self._operations))

    def crash_states(self, *, weak_order: bool = False) -> Iterator[dict[str, bytes]]:
        """Every set of files that a power cut now could leave, each once.

        `weak_order`: changes of names may reach the disk in any order.
        """
        seen: set[frozenset[tuple[str, bytes]]] = set()
        for names in self._name_states(weak_order):
            for state in _file_states(names):
                key = frozenset(state.items())
                if key not in seen:
                    seen.add(key)
                    yield state

    def _link(self, name: str, inode: _Inode | None) -> None:
        link = _Link(name, inode)
        self._names = _relinked(self._names, [link])
        self._pending.append(link)

    def _name_states(self, weak_order: bool) -> Iterator[dict[str, _Inode]]:
        changes = self._pending
        if weak_order and len(changes) <= SUBSET_CHANGES_MAX:
            picks = itertools.product((False, True), repeat=len(changes))
            survivors = [list(itertools.compress(changes, pick)) for pick in picks]
        else:
            survivors = [changes[:count] for count in range(len(changes) + 1)]
        for links in survivors:
            names = _relinked(self._durable_names, links)
            yield {
                name: inode
                for name, inode in names.items()
                if not inode.is_directory
                and (_directory_of(name) == "" or _directory_of(name) in names)
            }


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
        self, disk: MemoryDisk, name: str, inode: _Inode, counters: Counters, writable: bool
    ) -> None:
        self._disk = disk
        self._name = name
        self._inode: _Inode | None = inode
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
            _change(inode, _Write(offset, bytes(data[: error.written])))
            raise
        _change(inode, _Write(offset, bytes(data)))

    def truncate(self, size: int) -> None:
        inode = self._opened(to_write=True)
        self._disk.before("truncate", self._name)
        _change(inode, _Resize(size))

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
        inode.durable = _changed(inode.durable, inode.pending)
        inode.pending.clear()

    def _opened(self, *, to_write: bool = False) -> _Inode:
        if self._inode is None or (to_write and not self._writable):
            raise OSError(errno.EBADF, "the file is closed", self._name)
        return self._inode


def _directory_of(name: str) -> str:
    return name.rpartition("/")[0]


def _relinked(names: Mapping[str, _Inode], links: Iterable[_Link]) -> dict[str, _Inode]:
    result = dict(names)
    for link in links:
        if link.inode is None:
            result.pop(link.name, None)
        else:
            result[link.name] = link.inode
    return result


def _change(inode: _Inode, change: _Change) -> None:
    _apply(inode.content, change)
    inode.pending.append(change)


def _apply(content: bytearray, change: _Change) -> None:
    match change:
        case _Write(offset, data):
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        case _Resize(size):
            del content[size:]
            content.extend(bytes(size - len(content)))


def _changed(durable: bytes, changes: Iterable[_Change]) -> bytes:
    content = bytearray(durable)
    for change in changes:
        _apply(content, change)
    return bytes(content)


def _file_states(names: Mapping[str, _Inode]) -> Iterator[dict[str, bytes]]:
    """The contents that the files under `names` may have together."""
    variants = {name: list(_variants(inode)) for name, inode in names.items()}
    combinations = 1
    for options in variants.values():
        combinations *= len(options)
    if combinations <= PRODUCT_STATES_MAX:
        for contents in itertools.product(*variants.values()):
            yield dict(zip(variants, contents, strict=True))
        return
    nothing = {name: inode.durable for name, inode in names.items()}
    everything = {name: _changed(inode.durable, inode.pending) for name, inode in names.items()}
    for others in (nothing, everything):
        for name, options in variants.items():
            for content in options:
                yield others | {name: content}


def _variants(inode: _Inode) -> set[bytes]:
    """What one file may hold after a power cut."""
    durable, pending = inode.durable, inode.pending
    variants = {_changed(durable, pending[:count]) for count in range(len(pending) + 1)}
    variants |= {
        _changed(durable, pending[:index] + pending[index + 1 :]) for index in range(len(pending))
    }
    for index, change in enumerate(pending):
        if isinstance(change, _Write):
            before = _changed(durable, pending[:index])
            variants |= {_changed(before, [torn]) for torn in _torn(change, before)}
    return variants


def _torn(write: _Write, before: bytes) -> Iterator[_Write]:
    """What of one interrupted write to a file of content `before` may have got through."""
    offset, data, length = write.offset, write.data, len(write.data)
    # A sector that was not written holds what it held: past the old end, zeros.
    old = before[offset : offset + length].ljust(length, b"\0")
    first = SECTOR_BYTES - offset % SECTOR_BYTES
    bounds = [0, *range(first, length, SECTOR_BYTES), length]
    sectors = list(itertools.pairwise(bounds))
    step = max(1, len(sectors) // SECTORS_TRIED_MAX)
    for start, end in [*sectors[:4], *sectors[4:-4:step], *sectors[4:][-4:]]:
        yield _Write(offset, data[:end])
        yield _Write(offset, data[:start] + old[start:end] + data[end:])
        yield _Write(offset, old[:start] + data[start:end] + old[end:])
    yield _Write(offset, old)
    if len(before) <= offset + length:
        yield _Write(offset, old + bytes(BLOCK_BYTES))
    for cut in (*ODD_CUTS, length - 1):
        if 0 < cut < length:
            yield _Write(offset, data[:cut])
