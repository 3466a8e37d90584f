"""What can go wrong in a store, sorted by who must act.

The person at the machine: `StoreLocked`, `StoreUnavailable`, `DiskFull`, `MissingLog`,
`CorruptLog`, `FormatTooNew`. The application: `InvalidRecord`. Nobody but a restart:
`StoreFailed`. Everything raised by this library on purpose is a `StorageError`.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

# What the operating system says when there is no room, or no more for this user or file.
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a store: process id, host id (hexadecimal), since when (UTC ms).

    `endpoint` is what the holder told others of how to reach it, None if nothing. It may be
    a secret of the user's processes: not for messages.
    """

    pid: int
    host: str
    since_ms: int
    endpoint: str | None = field(default=None, repr=False)


class StorageError(Exception):
    """The root of all errors of this library."""


class StoreLocked(StorageError):
    """Another open store, here or in another process, holds the directory.

    `holder` is None when its text cannot be read, as in the moment before it is written.
    """

    def __init__(self, holder: Holder | None) -> None:
        self.holder = holder
        who = f"process {holder.pid} on host {holder.host}" if holder else "another process"
        super().__init__(f"the store is in use by {who}")


class StoreUnavailable(StorageError):
    """The operating system refuses the directory or a file in it."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class DiskFull(StoreUnavailable):
    """No room (or no quota) for a write. Nothing of it remains; the store stays usable."""


class MissingLog(StorageError):
    """The directory holds parts of a store without their log: never taken for a new store."""

    def __init__(self, path: str, found: tuple[str, ...]) -> None:
        self.path = path
        self.found = found
        super().__init__(f"{path}: the log is missing that {', '.join(found)} came from")


class LogError(StorageError):
    """A place in a file where opening stopped; nothing was changed."""

    def __init__(self, name: str, offset: int, reason: str) -> None:
        self.name = name
        self.offset = offset
        self.reason = reason
        super().__init__(f"{name} at byte {offset}: {reason}")


class CorruptLog(LogError):
    """Stored data is damaged in a way that an interrupted write cannot explain."""


class ForkedLogs(CorruptLog):
    """Two logs that contradict each other: two histories of one store, or two stores."""


class RepairRefused(StorageError):
    """There is nothing that giving up records would mend; nothing was changed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class FormatTooNew(LogError):
    """Written by a newer version of this library or of the application: not damage."""


class StoreFailed(StorageError):
    """A write or sync failed earlier; what reached the disk is unknown until a reopen.

    Raised for that append and for every later one. Reads go on.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the store accepts no more writes: {reason}")


class InvalidRecord(StorageError):
    """A record that cannot be.

    The application raises it while it replays a record whose content is impossible, and
    opening then fails with `CorruptLog`. `append` raises it for a record over a limit.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@contextmanager
def refusals(path: str) -> Iterator[None]:
    """Turn what the operating system refuses into an error that names the store."""
    try:
        yield
    except OSError as error:
        kind = DiskFull if error.errno in NO_ROOM else StoreUnavailable
        raise kind(path, error.strerror or str(error)) from error
