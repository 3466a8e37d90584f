r"""The bytes of a log: the one description of them, for writers and readers.

    log        := header frame(GENERATION) frame* frame(SEAL) frame*
    header     := magic: 8 bytes      89 'C' 'V' 'L' 0D 0A 1A 0A, spoiled by a text-mode copy
                  major: u16          1
                  header_bytes: u16   64
                  salt: u32           random, one a file
                  generation: u64
                  store_id: 16 bytes  one for the life of the store
                  first_seq: u64      of the GENERATION frame
                  parent: u64         generation this one was made from, 0 = none
                  flags: u32          0
                  crc: u32            of the 60 bytes before it
    frame      := crc: u32            seed = salt, of all that follows in the frame
                  magic: 4 bytes      "CVM1"
                  type: u8            bit 7: a reader that does not know it skips the frame
                  version: u8         1
                  flags: u16          high byte: whitening mask, low byte: 0
                  payload_bytes: u32
                  seq: u64            +1 a frame, and on across generations
                  chain: u32          crc of the frame before; of the first frame: salt
                  header_crc: u32     seed = salt, of the 24 bytes from magic to chain
                  payload
                  pad: n = 1..8 bytes, each A0 | n, up to the next multiple of 8
    GENERATION := parent: u64   parent_next_seq: u64   parent_chain: u32
                  kind: u8 (0 created, 1 compacted, 2 imported, 3 repaired)   0: 3 bytes
                  created_ms: i64   host_id: 16 bytes
    SEAL       := frames: u64 (since GENERATION)   count: u64   count: u64
    BATCH      := records: u32   record*
    record     := type: u8   0: 3 bytes   payload_bytes: u32   payload   0 to the next 8

All integers are little-endian; every crc is CRC-32C (Castagnoli). The file header and its
crc keep their places in every later version, so a newer file is told from a damaged one.

Worked example: a new log is 64 + (32 + 48 + 8) + (32 + 24 + 8) = 216 bytes.

Three properties let the end of a file be judged, and are kept by the writer here:
a frame ends in a non-zero byte (so zeros at the end were never written); no 512-byte
sector of a frame is all zero (so a zero sector was never written: a payload with such a
run is whitened, XORed with a byte); a frame is accepted only in its own file (the salt)
and only after its own predecessor (the chain).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import crc32c

from .errors import InvalidRecord
from .limits import BATCH_BYTES_MAX, PAYLOAD_BYTES_MAX

checksum = crc32c.crc32c

FILE_MAGIC = b"\x89CVL\r\n\x1a\n"
FILE_HEADER = struct.Struct("<8sHHIQ16sQQII")
FILE_HEADER_BYTES: Final = 64
MAJOR = 1

MAGIC = b"CVM1"
MAGIC_NUMBER: Final = int.from_bytes(MAGIC, "little")
FRAME_HEADER = struct.Struct("<IIBBHIQII")
FRAME_HEADER_BYTES: Final = 32
RECORD_VERSION: Final = 1
ALIGNMENT = 8
FRAME_BYTES_MAX = FRAME_HEADER_BYTES + PAYLOAD_BYTES_MAX + ALIGNMENT

GENERATION_PAYLOAD = struct.Struct("<QQIB3xq16s")
SEAL_PAYLOAD = struct.Struct("<QQQ")
BATCH_HEADER = struct.Struct("<I")
BATCH_RECORD = struct.Struct("<B3xI")

CREATION_BYTES = 216
SECTOR_BYTES = 512

# Types of the log itself; every other type belongs to the application.
GENERATION: Final = 4
SEAL: Final = 5
BATCH: Final = 6
OWN_TYPES = frozenset({GENERATION, SEAL, BATCH})
IGNORABLE: Final = 0x80

assert FILE_HEADER.size == FILE_HEADER_BYTES
assert FRAME_HEADER.size == FRAME_HEADER_BYTES
assert GENERATION_PAYLOAD.size == 48
assert SEAL_PAYLOAD.size == 24
assert BATCH_RECORD.size == ALIGNMENT


class Record(NamedTuple):
    """What an application appends: one of its own types, and bytes opaque to the store."""

    type: int
    payload: bytes


class Entry(NamedTuple):
    """A record as it stands in the log.

    Records of one batch share `seq` and `frame_offset`; `start` is where the payload of
    this one begins in the payload of the frame, 0 outside a batch.
    """

    seq: int
    frame_offset: int
    start: int
    type: int
    payload: bytes


class Frame(NamedTuple):
    """A frame that verified, its payload as it was before whitening."""

    seq: int
    type: int
    payload: bytes


class Origin(Enum):
    """Why a generation was begun."""

    CREATED = 0
    COMPACTED = 1
    IMPORTED = 2
    REPAIRED = 3


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The first 64 bytes of a log."""

    salt: int
    generation: int
    store_id: bytes
    first_seq: int
    parent: int


@dataclass(frozen=True, slots=True)
class Generation:
    """The first frame of a log: where it came from and who made it when."""

    parent: int
    parent_next_seq: int
    parent_chain: int
    origin: Origin
    created_ms: int
    host_id: bytes


@dataclass(frozen=True, slots=True)
class Seal:
    """Makes a generation valid: all up to here was written. The counts are the application's."""

    frames: int
    counts: tuple[int, int]


class HeaderFault(Enum):
    """Why the first bytes of a file are not a header of this version."""

    DAMAGED = "the file header does not verify"
    TOO_NEW = "the file is of a newer format"
    RENAMED = "the file holds another generation than its name says"


def encode_header(header: FileHeader) -> bytes:
    """The 64 bytes of `header`."""
    body = FILE_HEADER.pack(
        FILE_MAGIC,
        MAJOR,
        FILE_HEADER_BYTES,
        header.salt,
        header.generation,
        header.store_id,
        header.first_seq,
        header.parent,
        0,
        0,
    )[:-4]
    return body + checksum(body).to_bytes(4, "little")


def decode_header(data: bytes) -> FileHeader | HeaderFault:
    """The header at the start of `data`, or why there is none."""
    if len(data) < FILE_HEADER_BYTES:
        return HeaderFault.DAMAGED
    fields = FILE_HEADER.unpack_from(data)
    magic, major, size, salt, generation, store_id, first_seq, parent, flags, crc = fields
    if magic != FILE_MAGIC or checksum(data[: FILE_HEADER_BYTES - 4]) != crc:
        return HeaderFault.DAMAGED
    if (major, size, flags) != (MAJOR, FILE_HEADER_BYTES, 0):
        return HeaderFault.TOO_NEW
    return FileHeader(salt, generation, store_id, first_seq, parent)


def frame_bytes(payload_bytes: int) -> int:
    """The size of a whole frame, padding included."""
    return FRAME_HEADER_BYTES + payload_bytes + ALIGNMENT - payload_bytes % ALIGNMENT


def encode_frame(type: int, seq: int, chain: int, salt: int, payload: bytes) -> tuple[bytes, int]:
    """A frame, and its crc: the chain of the frame that follows.

    Raises InvalidRecord for a payload over PAYLOAD_BYTES_MAX.
    """
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise InvalidRecord(f"{len(payload)} bytes of payload, {PAYLOAD_BYTES_MAX} are allowed")
    mask = _mask_for(payload)
    body = whiten(payload, mask) if mask else payload
    padding = ALIGNMENT - len(payload) % ALIGNMENT
    pad = bytes([0xA0 | padding]) * padding
    head = FRAME_HEADER.pack(
        0, MAGIC_NUMBER, type, RECORD_VERSION, mask << 8, len(payload), seq, chain, 0
    )[4:28]
    head += checksum(head, salt).to_bytes(4, "little")
    crc = checksum(pad, checksum(body, checksum(head, salt)))
    return b"".join((crc.to_bytes(4, "little"), head, body, pad)), crc


def frame_bytes_at(data: bytes, salt: int) -> int | None:
    """The size of the frame whose header starts `data`; None when the header is damaged."""
    if len(data) < FRAME_HEADER_BYTES:
        return None
    _, magic, _, _, _, length, _, _, header_crc = FRAME_HEADER.unpack_from(data)
    if magic != MAGIC_NUMBER or checksum(data[4:28], salt) != header_crc:
        return None
    return frame_bytes(length)


def decode_frame(data: bytes, salt: int) -> Frame | None:
    """The frame that `data` is, no byte more or less; None when it does not verify."""
    if frame_bytes_at(data, salt) != len(data):
        return None
    crc, _, type, _, flags, length, seq, _, _ = FRAME_HEADER.unpack_from(data)
    if checksum(memoryview(data)[4:], salt) != crc:
        return None
    payload = data[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + length]
    return Frame(seq, type, whiten(payload, flags >> 8) if flags else payload)


def whiten(payload: bytes, mask: int) -> bytes:
    """`payload` with every byte XORed with `mask`: its own inverse."""
    return payload.translate(bytes(byte ^ mask for byte in range(256)))


def _mask_for(payload: bytes) -> int:
    """0, or a mask that leaves no run of SECTOR_BYTES zeros.

    There is none only for more than 128 KiB in which each of the 256 byte values has such
    a run; UTF-8 text cannot be that, for it never holds some of the values.
    """
    if len(payload) < SECTOR_BYTES or 0 not in payload:
        return 0
    for mask in range(256):
        if bytes([mask]) * SECTOR_BYTES not in payload:
            return mask
    raise InvalidRecord(f"runs of {SECTOR_BYTES} equal bytes, for every value of a byte")


def encode_generation(generation: Generation) -> bytes:
    """The payload of a GENERATION frame."""
    return GENERATION_PAYLOAD.pack(
        generation.parent,
        generation.parent_next_seq,
        generation.parent_chain,
        generation.origin.value,
        generation.created_ms,
        generation.host_id,
    )


def decode_generation(payload: bytes) -> Generation:
    """The value of a GENERATION payload. Raises InvalidRecord."""
    try:
        parent, next_seq, chain, kind, created_ms, host_id = GENERATION_PAYLOAD.unpack(payload)
        return Generation(parent, next_seq, chain, Origin(kind), created_ms, host_id)
    except (struct.error, ValueError) as error:
        raise InvalidRecord("a GENERATION record of impossible content") from error


def encode_seal(seal: Seal) -> bytes:
    """The payload of a SEAL frame."""
    return SEAL_PAYLOAD.pack(seal.frames, *seal.counts)


def decode_seal(payload: bytes) -> Seal:
    """The value of a SEAL payload. Raises InvalidRecord."""
    if len(payload) != SEAL_PAYLOAD.size:
        raise InvalidRecord("a SEAL record of impossible length")
    frames, *counts = SEAL_PAYLOAD.unpack(payload)
    return Seal(frames, (counts[0], counts[1]))


def batch_record_bytes(payload_bytes: int) -> int:
    """What one record adds to the payload of a batch, whose limit is BATCH_BYTES_MAX."""
    return BATCH_RECORD.size + payload_bytes + -payload_bytes % ALIGNMENT


def encode_batch(records: Sequence[Record]) -> tuple[bytes, list[int]]:
    """The payload of a BATCH frame, and where in it each record's payload starts.

    Raises InvalidRecord for a batch over BATCH_BYTES_MAX.
    """
    pieces = [BATCH_HEADER.pack(len(records))]
    starts = []
    end = BATCH_HEADER.size
    for type, payload in records:
        pieces += BATCH_RECORD.pack(type, len(payload)), payload, bytes(-len(payload) % ALIGNMENT)
        starts.append(end + BATCH_RECORD.size)
        end += batch_record_bytes(len(payload))
    if end > BATCH_BYTES_MAX:
        raise InvalidRecord(f"{end} bytes in one batch, {BATCH_BYTES_MAX} are allowed")
    return b"".join(pieces), starts


def record_in(frame: Frame, start: int) -> Record:
    """The record of an `Entry.start` in its frame. Raises InvalidRecord if none can be there.

    Only the one record is looked at: a place in a batch that is not an `Entry.start` may
    give other bytes of the batch.
    """
    if frame.type != BATCH:
        if start != 0:
            raise InvalidRecord(f"no record starts at byte {start} of a frame of one record")
        return Record(frame.type, frame.payload)
    try:
        type, length = BATCH_RECORD.unpack_from(frame.payload, start - BATCH_RECORD.size)
    except struct.error as error:
        raise InvalidRecord(f"byte {start} is outside the batch") from error
    if start < BATCH_HEADER.size + BATCH_RECORD.size or len(frame.payload) < start + length:
        raise InvalidRecord(f"no record of the batch starts at byte {start}")
    return Record(type, frame.payload[start : start + length])


def decode_batch(payload: bytes) -> list[tuple[int, Record]]:
    """The records of a batch, each with the start of its payload. Raises InvalidRecord."""
    found = []
    try:
        (count,) = BATCH_HEADER.unpack_from(payload)
        end = BATCH_HEADER.size
        for _ in range(count):
            type, length = BATCH_RECORD.unpack_from(payload, end)
            start = end + BATCH_RECORD.size
            end += batch_record_bytes(length)
            found.append((start, Record(type, payload[start : start + length])))
    except struct.error as error:
        raise InvalidRecord("a BATCH record shorter than its records") from error
    if end != len(payload):
        raise InvalidRecord("a BATCH record of another length than its records")
    if any(record.type in OWN_TYPES for _, record in found):
        raise InvalidRecord("a BATCH record that holds a record of the log itself")
    return found
