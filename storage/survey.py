"""What a log says of itself: where it comes from, whether it is sealed, how it ends.

A survey reads one log whole and understands the log's own records only; it changes nothing.
It gives the facts that `lineage` compares and `check` reports. `OwnRecords` holds GENERATION
and SEAL to their places, here and wherever a log is replayed.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from .errors import CorruptLog, InvalidRecord
from .format import (
    FILE_HEADER,
    FILE_HEADER_BYTES,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    GENERATION,
    GENERATION_PAYLOAD,
    IGNORABLE,
    SEAL,
    SECTOR_BYTES,
    Entry,
    FileHeader,
    Generation,
    HeaderFault,
    decode_frame,
    decode_generation,
    decode_header,
    decode_seal,
    frame_bytes,
)
from .layout import log_name
from .medium import Disk, File
from .scan import End, Position, Verdict, data_end_of, frames_after, scan, start_of

_IGNORABLE_TYPES: Final = range(IGNORABLE, 256)


@dataclass(frozen=True, slots=True)
class Range:
    """Sequences from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A log without a sound file header. `unwritten`: none ever reached the disk."""

    name: str
    generation: int
    file_bytes: int
    fault: HeaderFault
    unwritten: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """A log with a sound file header.

    `origin` and `seal_seq` are None where the log does not verify as far as its GENERATION
    and its SEAL. `chain_at_claim` is the crc of the frame before the sequence that was asked
    about. `after` are the frames that verify behind damage, `after_seal` those of them that
    follow a seal.
    """

    name: str
    generation: int
    file_bytes: int
    header: FileHeader
    origin: Generation | None
    seal_seq: int | None
    end: End
    chain_at_claim: int | None
    after: Range | None
    after_seal: Range | None

    @property
    def sealed(self) -> bool:
        return self.seal_seq is not None

    @property
    def appended(self) -> bool:
        """Whether anything was added after the seal, or damage there may hide it."""
        added = self.seal_seq is not None and self.seal_seq + 1 < self.end.position.seq
        return added or self.end.ending.verdict is Verdict.CORRUPT


class OwnRecords:
    """Takes GENERATION and SEAL records, each once and in its place.

    As a handler of a scan it raises InvalidRecord for any other. With an `origin` the scan
    begins behind the seal.
    """

    def __init__(self, header: FileHeader, origin: Generation | None = None) -> None:
        self.header = header
        self.origin = origin
        self.sealed = origin is not None
        self.seal_seq: int | None = None

    def take_generation(self, entry: Entry) -> None:
        generation = decode_generation(entry.payload)
        if entry.frame_offset != FILE_HEADER_BYTES:
            raise InvalidRecord("a GENERATION record within the log")
        if generation.parent != self.header.parent:
            raise InvalidRecord("GENERATION and file header name different parents")
        self.origin = generation

    def take_seal(self, entry: Entry) -> None:
        seal = decode_seal(entry.payload)
        if self.sealed:
            raise InvalidRecord("a second SEAL record")
        if seal.frames != entry.seq - self.header.first_seq - 1:
            raise InvalidRecord(f"a SEAL record over {seal.frames} frames")
        self.sealed = True
        self.seal_seq = entry.seq

    def require_seal(self, name: str, offset: int) -> Generation:
        """The origin. Raises CorruptLog for a log that never became valid."""
        if self.origin is None or not self.sealed:
            raise CorruptLog(name, offset, "the log is not sealed")
        return self.origin


def read_header(file: File, generation: int) -> FileHeader | HeaderFault:
    """The file header of an open log of that generation. Raises OSError."""
    header = decode_header(file.pread(0, FILE_HEADER_BYTES))
    if isinstance(header, FileHeader) and header.generation != generation:
        return HeaderFault.RENAMED
    return header


def salvaged_header(file: File) -> FileHeader | None:
    """What a damaged file header must have said, by the first frame. Raises OSError.

    That frame carries the salt as its chain, and proves it. The store's id has no witness and
    is taken as it stands.
    """
    raw = file.pread(0, FILE_HEADER_BYTES + frame_bytes(GENERATION_PAYLOAD.size))
    if len(raw) < FILE_HEADER_BYTES + FRAME_HEADER_BYTES:
        return None
    _, _, _, _, _, _, seq, salt, _ = FRAME_HEADER.unpack_from(raw, FILE_HEADER_BYTES)
    _, _, _, _, generation, store_id, _, parent, _, _ = FILE_HEADER.unpack_from(raw)
    header = FileHeader(salt, generation, store_id, seq, parent)
    return header if read_origin(file, header) else None


def read_origin(file: File, header: FileHeader) -> Generation | None:
    """What the first frame of a log says; None when it does not verify. Raises OSError."""
    size = frame_bytes(GENERATION_PAYLOAD.size)
    frame = decode_frame(file.pread(FILE_HEADER_BYTES, size), header.salt)
    if frame is None or frame.type != GENERATION:
        return None
    try:
        return decode_generation(frame.payload)
    except InvalidRecord:
        return None


def survey_all(
    disk: Disk, generations: Iterable[int], known_types: frozenset[int]
) -> list[Survey | Unreadable]:
    """Survey logs, the highest generation first, each asked for what its child claims of it."""
    surveys: list[Survey | Unreadable] = []
    claimed_seq: int | None = None
    for generation in sorted(generations, reverse=True):
        found = survey(disk, generation, known_types, claimed_seq)
        surveys.append(found)
        if isinstance(found, Survey) and found.sealed and found.origin:
            claimed_seq = found.origin.parent_next_seq
    return surveys


def survey(
    disk: Disk, generation: int, known_types: frozenset[int], claimed_seq: int | None = None
) -> Survey | Unreadable:
    """Read the log of a generation. Raises OSError."""
    name = log_name(generation)
    with closing(disk.open(name, writable=False)) as file:
        header = read_header(file, generation)
        if isinstance(header, HeaderFault):
            first_sector = file.pread(0, SECTOR_BYTES)
            unwritten = data_end_of(file) < FILE_HEADER_BYTES or not any(first_sector)
            return Unreadable(name, generation, file.size(), header, unwritten)
        return _survey(file, name, header, known_types, claimed_seq)


def _survey(
    file: File,
    name: str,
    header: FileHeader,
    known_types: frozenset[int],
    claimed_seq: int | None,
) -> Survey:
    own = OwnRecords(header)
    claimed: list[int] = []

    def take(entry: Entry) -> None:
        if claimed_seq is not None and entry.seq == claimed_seq - 1:
            claimed.append(entry.frame_offset)
        if entry.type == GENERATION:
            own.take_generation(entry)
        elif entry.type == SEAL:
            own.take_seal(entry)

    handlers = dict.fromkeys({GENERATION, SEAL, *known_types, *_IGNORABLE_TYPES}, take)
    end = scan(file, start_of(header), header.salt, handlers)
    after, after_seal = None, None
    if end.ending.verdict is Verdict.CORRUPT:
        after, after_seal = ranges_after(file, end.position, header.salt)
    return Survey(
        name=name,
        generation=header.generation,
        file_bytes=file.size(),
        header=header,
        origin=own.origin,
        seal_seq=own.seal_seq,
        end=end,
        chain_at_claim=int.from_bytes(file.pread(claimed[0], 4), "little") if claimed else None,
        after=after,
        after_seal=after_seal,
    )


def ranges_after(file: File, position: Position, salt: int) -> tuple[Range | None, Range | None]:
    """The sequences that verify behind damage, and those of them that follow a seal."""
    after: Range | None = None
    after_seal: Range | None = None
    sealed = False
    for _, frame in frames_after(file, position, salt):
        after = Range(after.first if after else frame.seq, frame.seq)
        if sealed:
            after_seal = Range(after_seal.first if after_seal else frame.seq, frame.seq)
        sealed = sealed or frame.type == SEAL
    return after, after_seal
