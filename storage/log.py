"""The log in append mode: one append is one frame, one write and one sync.

A `Log` is made only from a `Position` that a scan of the file has reached, or by writing a
new file (`generation`): what must be read before it is written is a type of its own. `append`
returns when its records are durable. A write refused for lack of room is rolled back, and the
log goes on; after any other failure the end of the file is unknown, and the log accepts no
more writes (a failed sync may have dropped the data and told so once only). Reads always go
on, in any thread. It does not read a log as a whole (`scan`) nor choose one (`recovery`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from .errors import NO_ROOM, CorruptLog, DiskFull, InvalidRecord, StoreFailed, StoreUnavailable
from .format import (
    BATCH,
    FRAME_BYTES_MAX,
    Entry,
    FileHeader,
    Record,
    decode_frame,
    encode_batch,
    encode_frame,
    frame_bytes_at,
    record_in,
)
from .layout import log_name
from .limits import RECORD_READ_BYTES
from .medium import File
from .scan import Position, agrees


@dataclass(frozen=True, slots=True)
class Environment:
    """What a store takes from outside, so that a test can choose it.

    `now_ms`: UTC milliseconds. `random_bytes`: as many unpredictable bytes as asked for.
    `host_id`: 16 bytes that tell this machine from others.
    """

    now_ms: Callable[[], int]
    random_bytes: Callable[[int], bytes]
    host_id: bytes

    def salt(self) -> int:
        """A number that makes the frames of a file its own."""
        return int.from_bytes(self.random_bytes(4), "little")


class Log:
    """An open log whose frames up to `end` are durable.

    `snapshot` is where its newest usable snapshot ends, and `snapshot_tried_end` the offset
    up to which one was last attempted.
    """

    def __init__(self, file: File, header: FileHeader, end: Position) -> None:
        self.header = header
        self.end = end
        self.failed: str | None = None
        self.snapshot: Position | None = None
        self.snapshot_tried_end = 0
        self._file = file

    @property
    def name(self) -> str:
        return log_name(self.header.generation)

    def append(self, records: Sequence[Record]) -> list[Entry]:
        """Add the records as one frame; they are durable when this returns.

        Raises InvalidRecord (over a limit; nothing written), DiskFull (rolled back) and
        StoreFailed (this and every later append). One thread appends at a time.
        """
        if self.failed is not None:
            raise StoreFailed(self.failed)
        type, payload, starts = _frame_of(records)
        offset, seq, chain, _ = self.end
        frame, crc = encode_frame(type, seq, chain, self.header.salt, payload)
        try:
            self._write(frame)
        except DiskFull:
            raise
        except BaseException as error:  # an interrupt leaves the file unknown as well
            self._fail(error)
            if isinstance(error, OSError):
                raise StoreFailed(str(self.failed)) from error
            raise
        # Readers compare with `end`: it moves only now, and at once.
        self.end = Position(offset + len(frame), seq + 1, crc, offset)
        return [
            Entry(seq, offset, start, record.type, record.payload)
            for start, record in zip(starts, records, strict=True)
        ]

    def read(self, frame_offset: int, start: int) -> Record:
        """The record at a place that `append` or a scan gave, verified. Safe in any thread.

        One read of the file for a small frame, else two. Raises CorruptLog when the frame
        does not verify, StoreUnavailable when the file cannot be read.
        """
        end = self.end.offset
        salt = self.header.salt
        try:
            data = self._file.pread(frame_offset, min(RECORD_READ_BYTES, end - frame_offset))
            size = frame_bytes_at(data, salt)
            if size is None or min(FRAME_BYTES_MAX, end - frame_offset) < size:
                raise CorruptLog(self.name, frame_offset, "no frame stands there")
            if len(data) < size:
                data += self._file.pread(frame_offset + len(data), size - len(data))
        except OSError as error:
            raise StoreUnavailable(self.name, f"cannot be read: {error}") from error
        frame = decode_frame(data[:size], salt)
        if frame is None:
            raise CorruptLog(self.name, frame_offset, "the frame does not verify")
        try:
            return record_in(frame, start)
        except InvalidRecord as error:
            raise CorruptLog(self.name, frame_offset, error.reason) from error

    def holds(self, position: Position) -> bool:
        """Whether the log has, or had, its end at `position`. Raises OSError."""
        return agrees(position, self._file, self.header.salt)

    def close(self) -> None:
        self._file.close()

    def _write(self, frame: bytes) -> None:
        try:
            self._file.pwrite(self.end.offset, frame)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            # Durable too: a part of this frame must never show behind a shorter next one.
            self._file.truncate(self.end.offset)
            self._file.sync()
            raise DiskFull(self.name, f"{len(frame)} bytes: {error.strerror}") from error
        self._file.sync_data()

    def _fail(self, error: BaseException) -> None:
        self.failed = f"{type(error).__name__}: {error}"
        # What was not acknowledged should not be found later; it may be, and that is allowed.
        with suppress(OSError):
            self._file.truncate(self.end.offset)


def _frame_of(records: Sequence[Record]) -> tuple[int, bytes, list[int]]:
    """Type and payload of the frame that holds the records, and where each starts in it."""
    match records:
        case []:
            raise InvalidRecord("an append of no records")
        case [record]:
            return record.type, record.payload, [0]
        case _:
            payload, starts = encode_batch(records)
            return BATCH, payload, starts
