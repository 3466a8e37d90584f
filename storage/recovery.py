"""From the files of a directory to a log that may be appended to.

    list -> no log, nothing else: create            (with other parts of a store: refuse)
         -> unfinished creation: create anew
         -> scan, replay, judge the end -> torn: quarantine, cut
         -> write the last frame again in place, sync file and directory -> serve

Nothing is cut but what `scan` calls torn, and never before its bytes were copied aside.
The last frame is written again because a process that died, or a sync that failed, may
have left it in the page cache only, where it reads well and would yet be lost: nothing is
served that a power cut could take back.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

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
from .scan import End, Handlers, Position, Verdict, data_end_of, scan, start_of

Replay = Callable[[Entry], None]


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


def recover(
    disk: Disk, environment: Environment, known_types: frozenset[int], replay: Replay
) -> tuple[Log, Recovery]:
    """Open or create the log, giving every application record in it to `replay`.

    Raises CorruptLog, FormatTooNew, MissingLog, OSError; nothing was changed then.
    """
    listing = parse(disk.names())
    match listing.generations:
        case ():
            _refuse_parts_of_a_store(disk, listing)
            return _create(disk, environment), Created()
        case (generation,):
            file = disk.open(log_name(generation))
        case _:
            raise CorruptLog(log_name(listing.generations[-1]), 0, "more than one generation")
    try:
        if _is_unfinished_creation(file, listing):
            file.close()
            disk.unlink(log_name(generation))
            return _create(disk, environment), Created()
        return _open(disk, file, generation, known_types, replay)
    except BaseException:
        file.close()
        raise


def _refuse_parts_of_a_store(disk: Disk, listing: Listing) -> None:
    found = listing.snapshots + ((QUARANTINE,) if listing.has_quarantine else ())
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
    disk: Disk, file: File, generation: int, known_types: frozenset[int], replay: Replay
) -> tuple[Log, Recovery]:
    name = log_name(generation)
    header = _read_header(file, name, generation)
    own = _OwnRecords(header)
    end = scan(file, start_of(header), header.salt, own.handlers(known_types, replay))
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
    return Log(file, header, position), recovery


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

    def __init__(self, header: FileHeader) -> None:
        self._header = header
        self._generation: Generation | None = None
        self._sealed = False

    def handlers(self, known_types: frozenset[int], replay: Replay) -> Handlers:
        own = {GENERATION: self._take_generation, SEAL: self._take_seal}
        return own | dict.fromkeys(known_types, replay)

    def require_seal(self, name: str, offset: int) -> None:
        """Raises CorruptLog for a log that never became valid."""
        if self._generation is None or not self._sealed:
            raise CorruptLog(name, offset, "the log is not sealed")

    def _take_generation(self, entry: Entry) -> None:
        generation = decode_generation(entry.payload)
        if entry.frame_offset != FILE_HEADER_BYTES:
            raise InvalidRecord("a GENERATION record within the log")
        if generation.parent != self._header.parent:
            raise InvalidRecord("GENERATION and file header name different parents")
        self._generation = generation

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
