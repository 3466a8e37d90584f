"""Writing a generation: the one way in which a log begins to exist.

    create -> header, GENERATION -> records -> SEAL -> sync file -> sync directory

Creation, compaction, import and repair differ only in the records and in what GENERATION
says. Until the seal is written nothing of the file counts, and until this returns nothing
refers to it, so an error or a crash at any step costs nothing: the file is removed, here or
by the next opening. Nothing is renamed and nothing that exists is touched. Memory is bounded:
the records are taken one by one and leave in pieces.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from .format import (
    GENERATION,
    SEAL,
    Entry,
    FileHeader,
    Generation,
    Record,
    Seal,
    encode_frame,
    encode_generation,
    encode_header,
    encode_seal,
)
from .layout import log_name
from .limits import COPY_BYTES
from .log import Log
from .medium import Disk, File
from .scan import Position, start_of


def write_generation(
    disk: Disk,
    header: FileHeader,
    origin: Generation,
    records: Iterable[Record] = (),
    counts: tuple[int, int] = (0, 0),
    on_entry: Callable[[Entry], None] = lambda entry: None,
    progress: Callable[[int], None] = lambda records: None,
) -> Log:
    """Make a sealed log of these records, durable before it is returned.

    `on_entry` gets each record at its new place, `progress` now and then the number of
    records so far. Raises OSError, InvalidRecord, and what the three callers' iterables
    and callables raise; no file is left then.
    """
    file = disk.create(log_name(header.generation))
    try:
        writer = _Writer(file, header)
        writer.add(GENERATION, encode_generation(origin))
        count = 0
        for count, record in enumerate(records, 1):
            on_entry(writer.add(*record))
            if writer.is_full:
                writer.flush()
                progress(count)
        writer.add(SEAL, encode_seal(Seal(count, counts)))
        writer.flush()
        progress(count)
        file.sync()
        disk.sync_directory()
    except BaseException:
        file.close()
        # What a failed sync left reads well and may yet be lost: do not let it be opened.
        with suppress(OSError):
            disk.unlink(log_name(header.generation))
        raise
    return Log(file, header, writer.end)


class _Writer:
    """Frames on their way into a new file, gathered to large writes.

    Several frames in one write are safe here only: a damaged one among them costs the seal.
    """

    def __init__(self, file: File, header: FileHeader) -> None:
        self.end: Position = start_of(header)
        self._file = file
        self._salt = header.salt
        self._gathered = bytearray(encode_header(header))

    @property
    def is_full(self) -> bool:
        return len(self._gathered) >= COPY_BYTES

    def add(self, type: int, payload: bytes) -> Entry:
        offset, seq, chain, _ = self.end
        frame, crc = encode_frame(type, seq, chain, self._salt, payload)
        self._gathered += frame
        self.end = Position(offset + len(frame), seq + 1, crc, offset)
        return Entry(seq, offset, 0, type, payload)

    def flush(self) -> None:
        self._file.pwrite(self.end.offset - len(self._gathered), bytes(self._gathered))
        self._gathered.clear()
