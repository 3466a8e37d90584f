"""From the files of a directory to a log that may be appended to.

    list -> no log, nothing else: create            (with other parts of a store: refuse)
         -> unfinished creation: create anew
         -> several logs: choose by lineage
         -> adopt a snapshot, scan and replay what follows it, judge the end
         -> torn: quarantine, cut
         -> write the last frame again in place, sync file and directory
         -> remove what is left over -> serve

Nothing is cut but what `scan` calls torn, and never before its bytes were copied aside.
The last frame is written again because a process that died, or a sync that failed, may
have left it in the page cache only, where it reads well and would yet be lost: nothing is
served that a power cut could take back. Before that nothing is removed.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

from . import snapshot
from .errors import CorruptLog, FormatTooNew, InvalidRecord, MissingLog
from .format import (
    CREATION_BYTES,
    FILE_HEADER_BYTES,
    GENERATION,
    SEAL,
    Entry,
    FileHeader,
    Generation,
    HeaderFault,
    Origin,
)
from .generation import write_generation
from .layout import QUARANTINE, Listing, log_name, parse, quarantine_name
from .limits import COPY_BYTES
from .lineage import Lineage, choose
from .log import Environment, Log
from .medium import Disk, File
from .scan import End, Ending, Position, Verdict, agrees, data_end_of, scan, start_of
from .snapshot import Snapshot, Unusable
from .survey import OwnRecords, read_header, read_origin, survey_all


class Application(Protocol):
    """Who keeps a state over the records of a store, and what opening asks of it."""

    @property
    def known_types(self) -> frozenset[int]:
        """The types of record that it understands."""

    def restore(self, sections: Mapping[int, memoryview]) -> None:
        """Take the state from the sections of a snapshot; it may keep, and change, the views.

        Raises InvalidRecord for sections that cannot be taken; `reset` follows then.
        """

    def reset(self) -> None:
        """Forget everything: the whole log is about to be replayed."""

    def replay(self, entry: Entry) -> None:
        """Take one record, in log order. Raises InvalidRecord for impossible content."""


@dataclass(frozen=True, slots=True)
class Created:
    """There was no store, or one whose making was interrupted: it is new and empty."""


@dataclass(frozen=True, slots=True)
class Clean:
    """The log ended after a whole frame."""


@dataclass(frozen=True, slots=True)
class Cut:
    """An interrupted write was removed: `length` bytes at `offset` of the log.

    `quarantine` names their copy, None when they were all zero or could not be copied.
    """

    offset: int
    length: int
    reason: str
    quarantine: str | None


Recovery = Created | Clean | Cut


@dataclass(frozen=True, slots=True)
class Adopted:
    """The snapshot that opening began with, and the place in the log that it covers."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class Recovered:
    """An open log and how it came about; no snapshot: everything was replayed.

    `removed` are files that were left over; `superseded` those that should have gone and
    could not be removed, the oldest first.
    """

    log: Log
    origin: Generation
    recovery: Recovery
    snapshot: Adopted | Unusable | None
    removed: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


def recover(disk: Disk, environment: Environment, application: Application) -> Recovered:
    """Open or create the log, and bring the application to the state that it holds.

    Raises CorruptLog, FormatTooNew, MissingLog, OSError; nothing was changed then.
    """
    listing = parse(disk.names())
    match listing.generations:
        case ():
            _refuse_parts_of_a_store(disk, listing)
            return _create(disk, environment)
        case (1,) if is_unfinished_creation(disk, listing):
            disk.unlink(log_name(1))
            return _create(disk, environment)
        case (generation,):
            lineage = Lineage(generation)
        case generations:
            lineage = choose(survey_all(disk, generations, application.known_types))
    refuse_orphans(disk, listing, lineage)
    file = disk.open(log_name(lineage.live))
    try:
        recovered = _open(disk, file, lineage, listing, application)
    except BaseException:
        file.close()
        raise
    return _clear(disk, lineage, listing, recovered)


def _refuse_parts_of_a_store(disk: Disk, listing: Listing) -> None:
    found = tuple(part.name for part in listing.snapshots)
    found += (QUARANTINE,) if listing.has_quarantine else ()
    if found:
        raise MissingLog(disk.path, found)


def refuse_orphans(disk: Disk, listing: Listing, lineage: Lineage) -> None:
    """Raises MissingLog for a snapshot of a later log: that log was there, and was used."""
    later = tuple(found.name for found in listing.snapshots if lineage.live < found.generation)
    if later:
        raise MissingLog(disk.path, later)


def is_unfinished_creation(disk: Disk, listing: Listing) -> bool:
    """Whether the first log's one write was interrupted: nothing was ever in it."""
    if listing.snapshots or listing.has_quarantine or listing.generations != (1,):
        return False
    with closing(disk.open(log_name(1), writable=False)) as file:
        return data_end_of(file) < CREATION_BYTES


def _create(disk: Disk, environment: Environment) -> Recovered:
    now_ms = environment.now_ms()
    header = FileHeader(
        salt=environment.salt(),
        generation=1,
        store_id=now_ms.to_bytes(6, "big") + environment.random_bytes(10),
        first_seq=1,
        parent=0,
    )
    origin = Generation(0, 0, 0, Origin.CREATED, now_ms, environment.host_id)
    return Recovered(write_generation(disk, header, origin), origin, Created(), None)


def _open(
    disk: Disk, file: File, lineage: Lineage, listing: Listing, application: Application
) -> Recovered:
    name = log_name(lineage.live)
    header = _header(file, name, lineage.live)
    adopted = _adopt(disk, file, header, listing, application)
    if isinstance(adopted, Adopted):
        own = OwnRecords(header, origin=_origin(file, name, header))
        end = _replay(file, adopted.position, own, application)
        if end.ending is Ending.IMPOSSIBLE:
            # Perhaps it is the snapshot that is wrong: the log alone decides.
            adopted = Unusable(adopted.name, f"the log goes on with {end.reason}")
            application.reset()
    if not isinstance(adopted, Adopted):
        own = OwnRecords(header)
        end = _replay(file, start_of(header), own, application)
    recovery: Recovery
    match end.ending.verdict:
        case Verdict.CORRUPT:
            verified = f"; frames up to sequence {end.position.seq - 1} verify"
            raise CorruptLog(name, end.position.offset, end.reason + verified)
        case Verdict.TOO_NEW:
            raise FormatTooNew(name, end.position.offset, end.reason)
        case Verdict.CLEAN:
            origin = own.require_seal(name, end.position.offset)
            recovery = Clean()
        case Verdict.TORN:
            origin = own.require_seal(name, end.position.offset)
            recovery = _cut(disk, file, lineage.live, end)
        case _ as unreachable:
            assert_never(unreachable)
    _write_again(file, end.position, whole=lineage.fresh)
    disk.sync_directory()
    log = Log(file, header, end.position)
    if isinstance(adopted, Adopted):
        log.snapshot, log.snapshot_tried_end = adopted.position, adopted.position.offset
    return Recovered(log, origin, recovery, adopted)


def _header(file: File, name: str, generation: int) -> FileHeader:
    match read_header(file, generation):
        case HeaderFault.TOO_NEW as fault:
            raise FormatTooNew(name, 0, fault.value)
        case HeaderFault() as fault:
            raise CorruptLog(name, 0, fault.value)
        case header:
            return header


def _origin(file: File, name: str, header: FileHeader) -> Generation:
    origin = read_origin(file, header)
    if origin is None:
        raise CorruptLog(name, FILE_HEADER_BYTES, "the first frame does not verify")
    return origin


def _replay(file: File, start: Position, own: OwnRecords, application: Application) -> End:
    handlers = dict.fromkeys(application.known_types, application.replay)
    handlers |= {GENERATION: own.take_generation, SEAL: own.take_seal}
    return scan(file, start, own.header.salt, handlers)


def _adopt(
    disk: Disk, file: File, header: FileHeader, listing: Listing, application: Application
) -> Adopted | Unusable | None:
    """Restore the application from the newest snapshot of the log that can be used."""
    found: Unusable | None = None
    for generation, _, name in reversed(listing.snapshots):
        if generation != header.generation:
            continue
        loaded = snapshot.load(disk, name, header)
        match loaded:
            case Unusable():
                found = found or loaded
            case Snapshot(position=position):
                if not agrees(position, file, header.salt):
                    raise lost_tail(loaded)
                try:
                    application.restore(loaded.sections)
                except InvalidRecord as error:
                    application.reset()
                    found = found or Unusable(name, error.reason)
                else:
                    return Adopted(name, position)
            case _ as unreachable:
                assert_never(unreachable)
    return found


def lost_tail(loaded: Snapshot) -> CorruptLog:
    """What is wrong with a log that no longer holds what its snapshot covers."""
    position = loaded.position
    reason = f"it has lost what {loaded.name} covers, up to sequence {position.seq - 1}"
    return CorruptLog(log_name(loaded.generation), position.last_offset, reason)


def _write_again(file: File, end: Position, *, whole: bool) -> None:
    """Make durable what the last write put there: a frame, or the whole of a new log."""
    start = 0 if whole or end.offset == CREATION_BYTES else end.last_offset
    for offset in range(start, end.offset, COPY_BYTES):
        file.pwrite(offset, file.pread(offset, min(COPY_BYTES, end.offset - offset)))
    file.sync()


def _cut(disk: Disk, file: File, generation: int, end: End) -> Cut:
    """Copy what is not zero of the torn tail aside, and shorten the file; the sync follows."""
    offset = end.position.offset
    length = file.size() - offset
    kept = None
    if offset < end.data_end:
        # Best effort: a disk without room for the copy must not keep the store closed.
        with suppress(OSError):
            tail = file.pread(offset, end.data_end - offset)
            kept = _quarantine(disk, generation, offset, tail)
    file.truncate(offset)
    return Cut(offset, length, end.reason, kept)


def _quarantine(disk: Disk, generation: int, offset: int, tail: bytes) -> str:
    name = quarantine_name(generation, offset, disk.names(QUARANTINE))
    with closing(disk.create(name)) as file:
        file.pwrite(0, tail)
        file.sync()
    disk.sync_directory(QUARANTINE)
    disk.sync_directory()
    return name


def _clear(disk: Disk, lineage: Lineage, listing: Listing, recovered: Recovered) -> Recovered:
    """Remove what decides nothing any more; it may as well stay when that fails."""
    used = recovered.snapshot.name if isinstance(recovered.snapshot, Adopted) else None
    names = [log_name(generation) for generation in lineage.discarded]
    names += [found.name for found in listing.snapshots if found.name != used]
    superseded = [log_name(generation) for generation in lineage.superseded]
    kept = remove_logs(disk, superseded)
    removed = [name for name in names if remove_if_possible(disk, name)]
    removed += superseded[: len(superseded) - len(kept)]
    return replace(recovered, removed=tuple(removed), superseded=tuple(kept))


def remove_if_possible(disk: Disk, name: str) -> bool:
    """Remove a file that nobody misses; whether that could be done."""
    try:
        disk.unlink(name)
    except OSError:
        return False
    return True


def remove_logs(disk: Disk, names: Iterable[str]) -> list[str]:
    """Remove logs, the oldest first, up to the first that cannot be; those that are left.

    A crash must not leave one without its child, so each is gone for good before the next.
    """
    left = list(names)
    with suppress(OSError):
        while left:
            disk.unlink(left[0])
            if left[1:]:
                disk.sync_directory()
            del left[0]
    return left
