"""Walking the frames of a log, and judging how it ends.

`scan` is the only reader of a whole log. It believes a frame when crc, sequence and chain
are right, gives its records to the handlers of their types, and at the first place where
no frame verifies it decides, by the table `Ending`, whether the file simply ends, was
left by an interrupted write, is damaged, or is newer than this reader. It changes nothing
and knows nothing of files: `Readable` is all it asks for.

    o = where the verified frames stop      E = after the last non-zero byte
    a frame follows = an aligned frame header in (o, E) whose crc is right and whose
                      sequence is not older than the one expected at o

One append is one write of one frame, and the next begins after its sync. So an interrupted
write can spoil the last frame only, by sectors or bytes that are missing (read as zeros or
not there); a frame that follows, or a full set of sectors with wrong content, is damage.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from .errors import InvalidRecord
from .format import (
    ALIGNMENT,
    BATCH,
    FILE_HEADER_BYTES,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    IGNORABLE,
    MAGIC,
    MAGIC_NUMBER,
    RECORD_VERSION,
    SECTOR_BYTES,
    Entry,
    FileHeader,
    Frame,
    checksum,
    decode_batch,
    decode_frame,
    frame_bytes,
    frame_bytes_at,
    whiten,
)
from .limits import PAYLOAD_BYTES_MAX, SCAN_BYTES

Handlers = Mapping[int, Callable[[Entry], None]]

# Frames are searched for, and the last non-zero byte, in pieces of this size.
SEARCH_BYTES: Final = 1 << 20


class Readable(Protocol):
    """Bytes that can be read at any place; a read past the end gives what there is."""

    def size(self) -> int: ...
    def pread(self, offset: int, length: int) -> bytes: ...


class Position(NamedTuple):
    """Between two frames: where the next one goes, and what it must carry.

    `last_offset` is where the frame before begins, `offset` itself when there is none.
    """

    offset: int
    seq: int
    chain: int
    last_offset: int


class Verdict(Enum):
    """What is to be done about an ending."""

    CLEAN = "go on"
    TORN = "cut: an interrupted write, never acknowledged"
    CORRUPT = "refuse"
    TOO_NEW = "refuse, and leave it to a newer version"


class Ending(Enum):
    """Every way in which the verified frames of a log stop."""

    CLEAN = (Verdict.CLEAN, "the file ends after a frame")
    ZERO_TAIL = (Verdict.TORN, "only zeros follow the last frame")
    SHORT_HEADER = (Verdict.TORN, "the last frame stops within its header")
    SHORT_PAYLOAD = (Verdict.TORN, "the last frame stops before its end")
    MISSING_SECTOR = (Verdict.TORN, "a sector of the last frame was never written")
    MISSING_HEADER_SECTOR = (Verdict.TORN, "a sector of the last header was never written")
    LENGTH_OVER_FRAME = (Verdict.CORRUPT, "a frame begins inside another")
    DAMAGED_MIDDLE = (Verdict.CORRUPT, "a damaged frame with frames after it")
    BYTES_AFTER = (Verdict.CORRUPT, "a damaged frame with bytes after it")
    DAMAGED_LAST = (Verdict.CORRUPT, "the last frame was written whole and is damaged")
    HEADER_MIDDLE = (Verdict.CORRUPT, "a damaged frame header with frames after it")
    HEADER_LAST = (Verdict.CORRUPT, "the last frame header was written and is damaged")
    SPLICED = (Verdict.CORRUPT, "a frame with another sequence or predecessor than expected")
    OVER_LIMIT = (Verdict.CORRUPT, "a frame with a payload over the limit")
    IMPOSSIBLE = (Verdict.CORRUPT, "a record of impossible content")
    TOO_NEW = (Verdict.TOO_NEW, "a record of a newer version or of an unknown type")

    def __init__(self, verdict: Verdict, reason: str) -> None:
        self.verdict = verdict
        self.reason = reason


@dataclass(frozen=True, slots=True)
class End:
    """Where the verified frames stop (o), how, and the end of all that is not zero (E)."""

    position: Position
    ending: Ending
    data_end: int
    detail: str = ""

    @property
    def reason(self) -> str:
        """The ending in words."""
        return f"{self.ending.reason}: {self.detail}" if self.detail else self.ending.reason


class _Stopped(Exception):
    """A frame that verifies, but whose records cannot be taken."""

    def __init__(self, position: Position, ending: Ending, detail: str) -> None:
        self.position = position
        self.ending = ending
        self.detail = detail


def start_of(header: FileHeader) -> Position:
    """Where the first frame of a log stands."""
    return Position(FILE_HEADER_BYTES, header.first_seq, header.salt, FILE_HEADER_BYTES)


def agrees(position: Position, log: Readable, salt: int) -> bool:
    """Whether the log holds the frame that ends at `position`: false means it lost it."""
    data = log.pread(position.last_offset, position.offset - position.last_offset)
    frame = decode_frame(data, salt)
    return (
        frame is not None
        and frame.seq == position.seq - 1
        and int.from_bytes(data[:4], "little") == position.chain
    )


def scan(log: Readable, start: Position, salt: int, handlers: Handlers) -> End:
    """Give every record from `start` on to the handler of its type, and judge the end.

    Batches are unpacked. A type without handler is skipped when it is marked ignorable and
    ends the scan (TOO_NEW) when it is not; a handler ends it by InvalidRecord (IMPOSSIBLE).
    """
    data_end = max(data_end_of(log), start.offset)
    position = start
    while True:
        window = log.pread(position.offset, min(SCAN_BYTES, data_end - position.offset))
        try:
            reached = _walk(window, position, salt, handlers)
        except _Stopped as stopped:
            return End(stopped.position, stopped.ending, data_end, stopped.detail)
        if reached == position:
            ending, detail = _judge(log, position, salt, data_end)
            return End(position, ending, data_end, detail)
        position = reached


def data_end_of(log: Readable) -> int:
    """The place after the last byte that is not zero (E)."""
    end = log.size()
    while end:
        start = max(0, end - SEARCH_BYTES)
        kept = log.pread(start, end - start).rstrip(b"\0")
        if kept:
            return start + len(kept)
        end = start
    return 0


def _walk(window: bytes, position: Position, salt: int, handlers: Handlers) -> Position:
    """Take the frames that stand whole in `window`, which begins at `position`.

    Returns the place of the first that does not verify, or does not end in the window.
    The hot loop of every open: one crc a frame, everything it uses in local names.
    """
    base, next_seq, chain, last_offset = position
    unpack, size, view = FRAME_HEADER.unpack_from, len(window), memoryview(window)
    at = 0
    try:
        while at + FRAME_HEADER_BYTES <= size:
            crc, magic, type, version, flags, length, seq, previous, _ = unpack(window, at)
            end = at + FRAME_HEADER_BYTES + length + ALIGNMENT - length % ALIGNMENT
            if (
                magic != MAGIC_NUMBER
                or end > size
                or checksum(view[at + 4 : end], salt) != crc
                or seq != next_seq
                or previous != chain
                or version != RECORD_VERSION
                or flags & 0xFF
                or length > PAYLOAD_BYTES_MAX
            ):
                break
            payload = window[at + FRAME_HEADER_BYTES : at + FRAME_HEADER_BYTES + length]
            if flags:
                payload = whiten(payload, flags >> 8)
            handler = handlers.get(type)
            if handler is not None:
                handler(Entry(seq, base + at, 0, type, payload))
            elif type == BATCH:
                _unpack_batch(Frame(seq, type, payload), base + at, handlers)
            elif type < IGNORABLE:
                break
            last_offset, at, next_seq, chain = base + at, end, seq + 1, crc
    except InvalidRecord as error:
        here = Position(base + at, next_seq, chain, last_offset)
        raise _Stopped(here, Ending.IMPOSSIBLE, str(error)) from error
    except _UnknownType as error:
        here = Position(base + at, next_seq, chain, last_offset)
        raise _Stopped(here, Ending.TOO_NEW, str(error)) from error
    return Position(base + at, next_seq, chain, last_offset)


class _UnknownType(Exception):
    """A batch holds a record that only a newer application understands."""


def _unpack_batch(frame: Frame, offset: int, handlers: Handlers) -> None:
    for start, (type, payload) in decode_batch(frame.payload):
        handler = handlers.get(type)
        if handler is not None:
            handler(Entry(frame.seq, offset, start, type, payload))
        elif type < IGNORABLE:
            raise _UnknownType(f"type {type} in a batch")


def _judge(log: Readable, position: Position, salt: int, data_end: int) -> tuple[Ending, str]:
    """Decide, by rows 1-14 of the table, what the bytes at `position` are."""
    offset = position.offset
    if offset == data_end:
        return (Ending.CLEAN if log.size() == data_end else Ending.ZERO_TAIL), ""
    if data_end - offset < FRAME_HEADER_BYTES:
        return Ending.SHORT_HEADER, ""
    header = log.pread(offset, FRAME_HEADER_BYTES)
    crc, magic, type, version, flags, length, seq, chain, header_crc = FRAME_HEADER.unpack(header)
    if magic != MAGIC_NUMBER or checksum(header[4:28], salt) != header_crc:
        return _judge_header(log, position, salt, data_end)
    if version != RECORD_VERSION or flags & 0xFF:
        return Ending.TOO_NEW, f"version {version}, flags {flags & 0xFF}"
    if (seq, chain) != (position.seq, position.chain):
        return Ending.SPLICED, f"sequence {seq} where {position.seq} belongs"
    if length > PAYLOAD_BYTES_MAX:
        return Ending.OVER_LIMIT, f"{length} bytes"
    end = offset + frame_bytes(length)
    frame = log.pread(offset, min(end, data_end) - offset)
    if end <= data_end and checksum(memoryview(frame)[4:], salt) == crc:
        return Ending.TOO_NEW, f"type {type}"
    follows = _frame_after(log, position, salt, data_end)
    if end > data_end:
        return (Ending.LENGTH_OVER_FRAME, follows) if follows else (Ending.SHORT_PAYLOAD, "")
    if follows:
        return Ending.DAMAGED_MIDDLE, follows
    if end < data_end:
        return Ending.BYTES_AFTER, f"{data_end - end} bytes"
    missing = _misses_a_sector(frame, offset)
    return (Ending.MISSING_SECTOR if missing else Ending.DAMAGED_LAST), ""


def _judge_header(
    log: Readable, position: Position, salt: int, data_end: int
) -> tuple[Ending, str]:
    """Decide, by rows 10-12, about a frame header that does not verify."""
    follows = _frame_after(log, position, salt, data_end)
    if follows:
        return Ending.HEADER_MIDDLE, follows
    if data_end - position.offset > FRAME_BYTES_MAX:
        return Ending.HEADER_LAST, "more bytes than one write"
    header = log.pread(position.offset, FRAME_HEADER_BYTES)
    missing = _misses_a_sector(header, position.offset)
    return (Ending.MISSING_HEADER_SECTOR if missing else Ending.HEADER_LAST), ""


def _misses_a_sector(data: bytes, offset: int) -> bool:
    """Whether some piece of `data`, cut at the sectors of the file, is all zero."""
    start = 0
    while start < len(data):
        end = min(start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES, len(data))
        if not any(data[start:end]):
            return True
        start = end
    return False


def frames_after(log: Readable, position: Position, salt: int) -> Iterator[tuple[int, Frame]]:
    """Every whole frame that verifies behind a place where none does, with its offset.

    Sequences rise, and may leave gaps; of what the frames hold nothing is asked.
    """
    end, next_seq = position.offset, position.seq
    for offset, seq, size in _headers_after(log, end, salt, data_end_of(log)):
        if end <= offset and next_seq <= seq:
            frame = decode_frame(log.pread(offset, size), salt)
            if frame is not None:
                end, next_seq = offset + size, seq + 1
                yield offset, frame


def _frame_after(log: Readable, position: Position, salt: int, data_end: int) -> str:
    """Words for the first frame header that follows `position`, empty when none does."""
    for offset, seq, _ in _headers_after(log, position.offset, salt, data_end):
        if position.seq <= seq:
            return f"sequence {seq} at byte {offset}"
    return ""


def _headers_after(
    log: Readable, offset: int, salt: int, data_end: int
) -> Iterator[tuple[int, int, int]]:
    """Every frame header that verifies behind `offset`: place, sequence, size of the frame."""
    start = offset + ALIGNMENT
    while start + FRAME_HEADER_BYTES <= data_end:
        # Pieces overlap by one header, so that none is missed at a seam.
        piece = log.pread(start, min(SEARCH_BYTES + FRAME_HEADER_BYTES, data_end - start))
        found = piece.find(MAGIC, 4)
        while found != -1:
            at = found - 4
            if at % ALIGNMENT == 0:
                size = frame_bytes_at(piece[at : at + FRAME_HEADER_BYTES], salt)
                if size is not None:
                    yield start + at, FRAME_HEADER.unpack_from(piece, at)[6], size
            found = piece.find(MAGIC, found + 1)
        start += SEARCH_BYTES
