r"""A snapshot: what an application made of a log up to a place, to open without replaying it.

    snapshot := header table section*
    header   := magic: 8 bytes      89 'C' 'V' 'S' 0D 0A 1A 0A
                major: u16          1
                header_bytes: u16   128
                sections: u32
                store_id: 16 bytes
                generation: u64     of the log
                salt: u32           of the log
                chain: u32          crc of the last frame covered
                last_offset: u64    where that frame begins
                offset: u64         where replay goes on
                next_seq: u64       of the frame there
                count: u64   count: u64   the application's
                created_ms: i64
                0: 24 bytes
                table_crc: u32      of the table
                crc: u32            of the 124 bytes before it
    table    := (id: u32   element_bytes: u32   offset: u64   length: u64   crc: u32   0: u32)*
    section  := bytes

Table and sections are each filled with zeros to a multiple of 64 bytes, and their crcs count
the filling, so no bit of the file goes unguarded and any column can be mapped where it lies.

A snapshot is disposable: it holds nothing that the log does not, is written under its final
name and synced once, and one that does not verify is only passed over. It is never changed
in place, so a mapping of it stays true. What the sections mean is the application's affair.
"""

import struct
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final

from .format import FileHeader, checksum
from .layout import snapshot_name
from .medium import Disk
from .scan import Position

SNAPSHOT_MAGIC = b"\x89CVS\r\n\x1a\n"
SNAPSHOT_HEADER = struct.Struct("<8sHHI16sQIIQQQQQq24xII")
SNAPSHOT_HEADER_BYTES: Final = 128
SNAPSHOT_MAJOR = 1
TABLE_ENTRY = struct.Struct("<IIQQI4x")
SECTION_ALIGNMENT: Final = 64

assert SNAPSHOT_HEADER.size == SNAPSHOT_HEADER_BYTES
assert TABLE_ENTRY.size == 32


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a snapshot: any C-contiguous buffer, of elements of one size."""

    id: int
    element_bytes: int
    data: bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that verified: the log up to `position`, and the sections by id."""

    name: str
    generation: int
    position: Position
    counts: tuple[int, int]
    sections: Mapping[int, memoryview]


@dataclass(frozen=True, slots=True)
class Unusable:
    """A snapshot to be passed over, and why."""

    name: str
    reason: str


def write(
    disk: Disk,
    log: FileHeader,
    position: Position,
    sections: Sequence[Section],
    counts: tuple[int, int],
    created_ms: int,
) -> str:
    """Write a snapshot of a log up to `position`, durably; its name. Raises OSError.

    After an error, or a crash before the return, what there is of it does not verify.
    """
    table, places, end = _table(sections)
    fields = (
        *(SNAPSHOT_MAGIC, SNAPSHOT_MAJOR, SNAPSHOT_HEADER_BYTES, len(sections)),
        *(log.store_id, log.generation, log.salt, position.chain, position.last_offset),
        *(position.offset, position.seq, *counts, created_ms, checksum(table), 0),
    )
    header = SNAPSHOT_HEADER.pack(*fields)[:-4]
    name = snapshot_name(log.generation, position.seq)
    file = disk.create(name)
    try:
        with closing(file):
            file.truncate(end)  # the filling of the sections
            file.pwrite(0, header + checksum(header).to_bytes(4, "little") + table)
            for place, section in zip(places, sections, strict=True):
                file.pwrite(place, _bytes_of(section))
            file.sync()
    except BaseException:
        with suppress(OSError):
            disk.unlink(name)
        raise
    return name


def load(disk: Disk, name: str, log: FileHeader) -> Snapshot | Unusable:
    """Map and verify a snapshot of this log. Raises OSError."""
    data = disk.map(name)
    if len(data) < SNAPSHOT_HEADER_BYTES:
        return Unusable(name, "shorter than its header")
    fields = SNAPSHOT_HEADER.unpack_from(data)
    magic, major, header_bytes, count, store_id, generation, salt, *place = fields
    chain, last_offset, offset, seq, *rest = place
    *counts, _, table_crc, crc = rest
    if magic != SNAPSHOT_MAGIC or checksum(data[: SNAPSHOT_HEADER_BYTES - 4]) != crc:
        return Unusable(name, "the header does not verify")
    if (major, header_bytes) != (SNAPSHOT_MAJOR, SNAPSHOT_HEADER_BYTES):
        return Unusable(name, "of a newer format")
    if (store_id, generation, salt) != (log.store_id, log.generation, log.salt):
        return Unusable(name, "of another log")
    table_end = SNAPSHOT_HEADER_BYTES + _filled(count * TABLE_ENTRY.size)
    if checksum(data[SNAPSHOT_HEADER_BYTES:table_end]) != table_crc:
        return Unusable(name, "the table does not verify")
    sections = {}
    for number in range(count):
        entry = TABLE_ENTRY.unpack_from(data, SNAPSHOT_HEADER_BYTES + number * TABLE_ENTRY.size)
        id, _, start, length, section_crc = entry
        if checksum(data[start : start + _filled(length)]) != section_crc:
            return Unusable(name, f"section {id} does not verify")
        sections[id] = data[start : start + length]
    position = Position(offset, seq, chain, last_offset)
    return Snapshot(name, generation, position, (counts[0], counts[1]), sections)


def _table(sections: Sequence[Section]) -> tuple[bytes, list[int], int]:
    """The table, where each section goes, and where the last one ends."""
    end = SNAPSHOT_HEADER_BYTES + _filled(len(sections) * TABLE_ENTRY.size)
    table, places = b"", []
    for section in sections:
        data = _bytes_of(section)
        if len(data) % section.element_bytes:
            raise ValueError(f"section {section.id}: {len(data)} bytes are no whole elements")
        crc = checksum(bytes(-len(data) % SECTION_ALIGNMENT), checksum(data))
        table += TABLE_ENTRY.pack(section.id, section.element_bytes, end, len(data), crc)
        places.append(end)
        end += _filled(len(data))
    return table.ljust(_filled(len(table)), b"\0"), places, end


def _bytes_of(section: Section) -> memoryview:
    view = memoryview(section.data)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _filled(length: int) -> int:
    return length + -length % SECTION_ALIGNMENT
