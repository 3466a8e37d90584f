"""Vectors of texts, a byte for each number, in rows: what is near a query, and on disk.

    file    := header block*                    all little-endian
    header  := "CVVECTOR"  version: u32  dimensions: u32  model: 64 bytes, zero padded
    block   := crc: u32  rows: u32   then, as the crc covers them,
               keys: 16 bytes rows*   revisions: u32 rows*   scales: f32 rows*
               numbers: i8 (rows, dimensions)

A row is a segment of a text: a vector is its numbers times its scale. The rows of a key that stand
last count; of a key that is gone none do. The file is derived from the log and can
be thrown away: one of another model, or damaged, is begun anew or read up to the damage.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"CVVECTOR"
_VERSION = 1
_HEADER = struct.Struct("<8sII64s")
_BLOCK = struct.Struct("<II")
_KEY_BYTES = 16
_LEVELS = 127
_SCALE_MIN = np.finfo(np.float32).tiny

# Rows are made floating as many at a time as take so much, and stay in the cache of a core. Twice
# what fits there takes two to four times as long.
_FLOATS_BYTES = 1 << 19

Numbers = NDArray[np.int8]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rows:
    """Segments of texts: the key (16 bytes) and revision of each, and its vector."""

    keys: list[bytes]
    revisions: NDArray[np.uint32]
    scales: NDArray[np.float32]
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.keys)


def rows_of(keys: Sequence[bytes], revisions: Sequence[int], vectors: Vectors) -> Rows:
    """Vectors made a byte for each number: float32 of shape (keys, dimensions)."""
    scales = (np.abs(vectors).max(axis=1, initial=0) / _LEVELS).astype(np.float32)
    scales[scales < _SCALE_MIN] = 1  # as good as nothing, and too small to divide by
    numbers = np.rint(vectors / scales[:, None]).astype(np.int8)
    return Rows(list(keys), np.array(revisions, np.uint32), scales, numbers)


class Table:
    """Rows that grow."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._count = 0
        self._numbers = np.zeros((256, dimensions), np.int8)
        self._scales = np.zeros(256, np.float32)
        # Made once: pages that are new with every query take longer than all else.
        self._floats = np.empty((max(1, _FLOATS_BYTES // (4 * dimensions)), dimensions), np.float32)

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Rows) -> range:
        """Take rows in; where they are."""
        first, end = self._count, self._count + len(rows)
        if end > len(self._scales):
            room = max(end, 2 * len(self._scales))
            self._numbers = np.concatenate(
                (self._numbers[:first], np.zeros((room - first, self.dimensions), np.int8))
            )
            self._scales = np.concatenate(
                (self._scales[:first], np.zeros(room - first, np.float32))
            )
        self._numbers[first:end] = rows.numbers
        self._scales[first:end] = rows.scales
        self._count = end
        return range(first, end)

    def rows(self, keys: Sequence[bytes], revisions: Sequence[int], places: Sequence[int]) -> Rows:
        """Rows of the table again, as they stand at these places."""
        at = np.array(places, np.intp)
        return Rows(list(keys), np.array(revisions, np.uint32), self._scales[at], self._numbers[at])

    def cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """How near every row is to a vector of length 1: float32. One thread at a time."""
        found = np.empty(self._count, np.float32)
        for first in range(0, self._count, len(self._floats)):
            here = slice(first, min(first + len(self._floats), self._count))
            floats = self._floats[: here.stop - first]
            np.copyto(floats, self._numbers[here])
            np.dot(floats, query, out=found[here])
        found *= self._scales[: self._count]
        return found

    def memory_bytes(self) -> int:
        return int(self._numbers.nbytes + self._scales.nbytes)


def encode_header(model: str, dimensions: int) -> bytes:
    """The start of a file."""
    return _HEADER.pack(_MAGIC, _VERSION, dimensions, model.encode()[:64])


def encode_block(rows: Rows) -> bytes:
    """Rows, as they stand in a file."""
    body = b"".join(
        (
            *rows.keys,
            rows.revisions.astype("<u4").tobytes(),
            rows.scales.astype("<f4").tobytes(),
            rows.numbers.tobytes(),
        )
    )
    covered = len(rows).to_bytes(4, "little") + body
    return zlib.crc32(covered).to_bytes(4, "little") + covered


def decode(data: bytes, model: str, dimensions: int) -> tuple[list[Rows], int]:
    """The rows of a file, block by block, and how many bytes of it could be read.

    None of them is read of a file of another model, or of no such file.
    """
    header = encode_header(model, dimensions)
    if data[: len(header)] != header:
        return [], 0
    blocks = []
    end = len(header)
    for rows, after in _blocks(data, end, dimensions):
        blocks.append(rows)
        end = after
    return blocks, end


def _blocks(data: bytes, start: int, dimensions: int) -> Iterator[tuple[Rows, int]]:
    while start + _BLOCK.size <= len(data):
        crc, count = _BLOCK.unpack_from(data, start)
        at = start + _BLOCK.size
        end = at + count * (_KEY_BYTES + 4 + 4 + dimensions)
        if end > len(data) or zlib.crc32(data[start + 4 : end]) != crc:
            return
        keys_end = at + _KEY_BYTES * count
        keys = [data[key : key + _KEY_BYTES] for key in range(at, keys_end, _KEY_BYTES)]
        revisions = np.frombuffer(data, "<u4", count, keys_end)
        scales = np.frombuffer(data, "<f4", count, keys_end + 4 * count)
        numbers = np.frombuffer(data, np.int8, count * dimensions, keys_end + 8 * count)
        yield Rows(keys, revisions, scales, numbers.reshape(count, dimensions)), end
        start = end
