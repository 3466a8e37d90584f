"""From the files of a directory to a log that may be appended to.

    list -> no log, nothing else: create            (with other parts of a store: refuse)
         -> unfinished creation: create anew
         -> adopt a snapshot, scan and replay what follows it, judge the end
         -> torn: quarantine, cut
         -> write the last frame again in place, sync file and directory -> serve

Nothing is cut but what `scan` calls torn, and never before its bytes were copied aside.
The last frame is written again because a process that died, or a sync that failed, may
have left it in the page cache only, where it reads well and would yet be lost: nothing is
served that a power cut could take back.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, assert_never

from . import snapshot
from .disk import Disk, File
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
    decode_generation,
    decode_header,
    decode_seal,
)
from .layout import QUARANTINE, Listing, log_name, parse, quarantine_name
from .log import Environment, Log, create_log
from .scan import End, Ending, Position, Verdict, agrees, data_end_of, scan, start_of
from .snapshot import Snapshot, Unusable


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
    """An open log and how it came about; no snapshot: everything was replayed."""

    log: Log
    recovery: Recovery
    snapshot: Adopted | Unusable | None


def recover(disk: Disk, environment: Environment, application: Application) -> Recovered:
    """Open or create the log, and bring the application to the state that it holds.

    Raises CorruptLog, FormatTooNew, MissingLog, OSError; nothing was changed then.
    """
    listing = parse(disk.names())
    match listing.generations:
        case ():
            _refuse_parts_of_a_store(disk, listing)
            return Recovered(_create(disk, environment), Created(), None)
        case (generation,):
            file = disk.open(log_name(generation))
        case _:
            raise CorruptLog(log_name(listing.generations[-1]), 0, "more than one generation")
    try:
        if _is_unfinished_creation(file, listing):
            file.close()
            disk.unlink(log_name(generation))
            return Recovered(_create(disk, environment), Created(), None)
        return _open(disk, file, generation, listing, application)
    except BaseException:
        file.close()
        raise


def _refuse_parts_of_a_store(disk: Disk, listing: Listing) -> None:
    found = tuple(name for _, name in listing.snapshots)
    found += (QUARANTINE,) if listing.has_quarantine else ()
    if found:
        raise MissingLog(disk.path, found)


def _is_unfinished_creation(file: File, listing: Listing) -> bool:
    """Whether creation was interrupted before its one write was whole: nothing is lost."""
    alone = not listing.snapshots and not listing.has_quarantine
    return alone and listing.generations == (1,) and data_end_of(file) < CREATION_BYTES


def _create(disk: Disk, environment: Environment) -> Log:
    now_ms = environment.now_ms()
    header = FileHeader(
        salt=int.from_bytes(environment.random_bytes(4), "little"),
        generation=1,
        store_id=now_ms.to_bytes(6, "big") + environment.random_bytes(10),
        first_seq=1,
        parent=0,
    )
    generation = Generation(0, 0, 0, Origin.CREATED, now_ms, environment.host_id)
    return create_log(disk, header, generation)


def _open(
    disk: Disk, file: File, generation: int, listing: Listing, application: Application
) -> Recovered:
    name = log_name(generation)
    header = _read_header(file, name, generation)
    adopted = _adopt(disk, file, header, listing, application)
    if isinstance(adopted, Adopted):
        own = _OwnRecords(header, sealed=True)
        end = own.scan(file, adopted.position, application)
        if end.ending is Ending.IMPOSSIBLE:
            # Perhaps it is the snapshot that is wrong: the log alone decides.
            adopted = Unusable(adopted.name, f"the log goes on with {end.reason}")
            application.reset()
    if not isinstance(adopted, Adopted):
        own = _OwnRecords(header, sealed=False)
        end = own.scan(file, start_of(header), application)
    position = end.position
    recovery: Recovery
    match end.ending.verdict:
        case Verdict.CORRUPT:
            verified = f"; frames up to sequence {position.seq - 1} verify"
            raise CorruptLog(name, position.offset, end.reason + verified)
        case Verdict.TOO_NEW:
            raise FormatTooNew(name, position.offset, end.reason)
        case Verdict.CLEAN:
            own.require_seal(name, position.offset)
            recovery = Clean()
        case Verdict.TORN:
            own.require_seal(name, position.offset)
            recovery = _cut(disk, file, generation, end)
        case _ as unreachable:
            assert_never(unreachable)
    _write_again(file, position)
    disk.sync_directory()
    return Recovered(Log(file, header, position), recovery, adopted)


def _adopt(
    disk: Disk, file: File, header: FileHeader, listing: Listing, application: Application
) -> Adopted | Unusable | None:
    """Restore the application from the newest snapshot of the log that can be used."""
    found: Unusable | None = None
    for generation, name in reversed(listing.snapshots):
        if generation != header.generation:
            continue
        loaded = snapshot.load(disk, name, header)
        match loaded:
            case Unusable():
                found = found or loaded
            case Snapshot(position=position):
                if not agrees(position, file, header.salt):
                    reason = f"it has lost what {name} covers, up to sequence {position.seq - 1}"
                    raise CorruptLog(log_name(generation), position.last_offset, reason)
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


def _write_again(file: File, end: Position) -> None:
    """Make durable what the last write put there: a frame, or the whole of a new log."""
    start = 0 if end.offset == CREATION_BYTES else end.last_offset
    file.pwrite(start, file.pread(start, end.offset - start))
    file.sync()


def _read_header(file: File, name: str, generation: int) -> FileHeader:
    match decode_header(file.pread(0, FILE_HEADER_BYTES)):
        case HeaderFault.TOO_NEW as fault:
            raise FormatTooNew(name, 0, fault.value)
        case HeaderFault.DAMAGED as fault:
            raise CorruptLog(name, 0, fault.value)
        case header:
            if header.generation != generation:
                raise CorruptLog(name, 0, f"holds generation {header.generation}")
            return header


class _OwnRecords:
    """Holds GENERATION and SEAL to their places: the first frame, and one seal."""

    def __init__(self, header: FileHeader, *, sealed: bool) -> None:
        """`sealed`: the scan begins after the seal."""
        self._header = header
        self._begun = self._sealed = sealed

    def scan(self, file: File, start: Position, application: Application) -> End:
        handlers = dict.fromkeys(application.known_types, application.replay)
        own = {GENERATION: self._take_generation, SEAL: self._take_seal}
        return scan(file, start, self._header.salt, handlers | own)

    def require_seal(self, name: str, offset: int) -> None:
        """Raises CorruptLog for a log that never became valid."""
        if not (self._begun and self._sealed):
            raise CorruptLog(name, offset, "the log is not sealed")

    def _take_generation(self, entry: Entry) -> None:
        generation = decode_generation(entry.payload)
        if entry.frame_offset != FILE_HEADER_BYTES:
            raise InvalidRecord("a GENERATION record within the log")
        if generation.parent != self._header.parent:
            raise InvalidRecord("GENERATION and file header name different parents")
        self._begun = True

    def _take_seal(self, entry: Entry) -> None:
        seal = decode_seal(entry.payload)
        if self._sealed:
            raise InvalidRecord("a second SEAL record")
        if seal.frames != entry.seq - self._header.first_seq - 1:
            raise InvalidRecord(f"a SEAL record over {seal.frames} frames")
        self._sealed = True


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
    file = disk.create(name)
    try:
        file.pwrite(0, tail)
        file.sync()
    finally:
        file.close()
    disk.sync_directory(QUARANTINE)
    disk.sync_directory()
    return name
