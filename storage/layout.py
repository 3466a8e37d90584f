"""The names in a store's directory: the only place that makes or reads one.

    store.lock                          the lock; never unlinked, never renamed
    log-00000007.cvl                    the log of generation 7
    snap-00000007-000000012345.cvs      a snapshot of it up to a sequence; disposable
    quarantine/cut-00000007-4096-0.bin  bytes cut from it at an offset; never read again
    quarantine/log-00000007-0.cvl       a copy of it from before a repair; never read again
    audit/ vectors/                     the application's own, which the store leaves alone

Every other name is left alone and reported.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

LOCK: Final = "store.lock"
QUARANTINE: Final = "quarantine"
AUDIT: Final = "audit"
VECTORS: Final = "vectors"
LOG_SUFFIX: Final = ".cvl"
SNAPSHOT_SUFFIX: Final = ".cvs"
_LOG = re.compile(r"log-([0-9]{8})\.cvl")
_SNAPSHOT = re.compile(r"snap-([0-9]{8})-([0-9]{12})\.cvs")


class SnapshotName(NamedTuple):
    """What the name of a snapshot says: of which log, and up to which sequence."""

    generation: int
    next_seq: int
    name: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What the names in a directory say: generations and snapshots, rising, and the rest."""

    generations: tuple[int, ...]
    snapshots: tuple[SnapshotName, ...]
    has_quarantine: bool
    strange: tuple[str, ...]


def log_name(generation: int) -> str:
    """The file of a generation."""
    return f"log-{generation:08}{LOG_SUFFIX}"


def snapshot_name(generation: int, next_seq: int) -> str:
    """The file of a snapshot of a generation up to, not including, a sequence."""
    return f"snap-{generation:08}-{next_seq:012}{SNAPSHOT_SUFFIX}"


def quarantine_name(generation: int, offset: int, taken: Iterable[str]) -> str:
    """A free name in the quarantine directory; `taken` are the names in it."""
    stem = f"cut-{generation:08}-{offset}"
    free = next(n for n in count() if f"{stem}-{n}.bin" not in taken)
    return f"{QUARANTINE}/{stem}-{free}.bin"


def kept_name(name: str, taken: Iterable[str]) -> str:
    """A free name for the copy of a file in the quarantine directory; `taken` are those in it."""
    stem, _, suffix = name.rpartition(".")
    free = next(n for n in count() if f"{stem}-{n}.{suffix}" not in taken)
    return f"{QUARANTINE}/{stem}-{free}.{suffix}"


def parse(names: Iterable[str]) -> Listing:
    """Sort the names of a store's directory by what they are."""
    generations: list[int] = []
    snapshots: list[SnapshotName] = []
    strange: list[str] = []
    has_quarantine = False
    for name in sorted(names):
        if log := _LOG.fullmatch(name):
            generations.append(int(log[1]))
        elif snapshot := _SNAPSHOT.fullmatch(name):
            snapshots.append(SnapshotName(int(snapshot[1]), int(snapshot[2]), name))
        elif name == QUARANTINE:
            has_quarantine = True
        elif name not in (LOCK, AUDIT, VECTORS):
            strange.append(name)
    return Listing(tuple(generations), tuple(snapshots), has_quarantine, tuple(strange))
