"""What the library asks of the directory that holds its files: the interface, and the counters.

`disk.OsDisk` keeps it on a real directory and `memory_disk.MemoryDisk` in memory; one test
suite holds both to it. Operations raise OSError as it comes; judging it is the caller's part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from .errors import Holder
from .place import Hazard


@dataclass(slots=True)
class Counters:
    """Logical operations on files of one kind since the disk was made.

    A write is one `pwrite`, however many system calls it took. Reads are counted without
    a lock, so they are exact only while one thread reads.
    """

    writes: int = 0
    bytes_written: int = 0
    flushes: int = 0
    reads: int = 0
    bytes_read: int = 0


Buffer = bytes | memoryview


class File(Protocol):
    """An open file, read and written at given places only."""

    def size(self) -> int: ...

    def pread(self, offset: int, length: int) -> bytes:
        """The bytes at `offset`: all `length` of them, or those before the end."""

    def pwrite(self, offset: int, data: Buffer) -> None:
        """Write all of `data`; after an OSError any part of it may have been written."""

    def truncate(self, size: int) -> None: ...

    def sync_data(self) -> None:
        """Make content and size durable. FileNotFoundError if the file was removed meanwhile."""

    def sync(self) -> None:
        """Make content and everything else about the file durable."""

    def close(self) -> None:
        """Idempotent."""


class Lock(Protocol):
    """A store held; `release` is idempotent. `previous` is who held it before, if known."""

    @property
    def previous(self) -> Holder | None: ...

    def publish(self, endpoint: str) -> None:
        """Let those who are refused the lock know how to reach its holder."""

    def release(self) -> None: ...


class Disk(Protocol):
    """One directory. Names are relative, with at most one subdirectory before a slash."""

    @property
    def path(self) -> str:
        """The directory, for messages."""

    @property
    def counters(self) -> Mapping[str, Counters]:
        """By the suffix of the file's name, "" for directories (flushes only)."""

    def hazards(self) -> tuple[Hazard, ...]:
        """What may be wrong with the place."""

    def free_bytes(self) -> int:
        """The room that is left for this user's files."""

    def make_directory(self) -> None:
        """Make the directory and its parents where missing, durably, for the owner only."""

    def lock(self, host: str, since_ms: int) -> Lock:
        """Hold the store until released or this process ends. Raises StoreLocked."""

    def refuse_locked(self) -> None:
        """Raises StoreLocked while somebody holds the store; writes nothing."""

    def create(self, name: str) -> File:
        """A new empty file, its subdirectory made when missing. Raises FileExistsError."""

    def open(self, name: str, *, writable: bool = True) -> File: ...

    def map(self, name: str) -> memoryview:
        """All of a file that nobody changes, read when touched; counted as one read.

        Writing to the view changes it for this process only.
        """

    def unlink(self, name: str) -> None: ...

    def names(self, directory: str = "") -> dict[str, int]:
        """The size of every file by its name; none when there is no such directory."""

    def sync_directory(self, directory: str = "") -> None:
        """Make the entries of the directory durable."""
