"""A log up to a place, read beside the process that appends to it.

What an appender has acknowledged is never changed, only followed by more: up to a place that it
has named, its log can be read by anybody, at any time, and is a picture of that moment.
"""

from contextlib import ExitStack

from .errors import CorruptLog, refusals
from .format import FILE_HEADER_BYTES, GENERATION, SEAL, HeaderFault, decode_header
from .layout import log_name
from .log import Log
from .medium import Disk, File
from .recovery import Application
from .scan import Ending, scan, start_of
from .survey import OwnRecords


def open_view(disk: Disk, generation: int, log_bytes: int, application: Application) -> Log:
    """The first `log_bytes` of a log, replayed to a fresh application; for reading only.

    Raises StoreUnavailable, as for a log that a compaction has removed meanwhile; CorruptLog
    where the bytes do not end with a frame that verifies.
    """
    name = log_name(generation)
    with ExitStack() as resources, refusals(disk.path):
        file = disk.open(name, writable=False)
        resources.callback(file.close)
        header = decode_header(file.pread(0, FILE_HEADER_BYTES))
        if isinstance(header, HeaderFault):
            raise CorruptLog(name, 0, header.value)
        own = OwnRecords(header)
        handlers = dict.fromkeys(application.known_types, application.replay)
        handlers |= {GENERATION: own.take_generation, SEAL: own.take_seal}
        end = scan(_Prefix(file, log_bytes), start_of(header), header.salt, handlers)
        if end.ending is not Ending.CLEAN or end.position.offset != log_bytes:
            raise CorruptLog(name, end.position.offset, end.reason)
        resources.pop_all()
        return Log(file, header, end.position)


class _Prefix:
    """A file of which nothing is seen past a place."""

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size

    def size(self) -> int:
        return min(self._size, self._file.size())

    def pread(self, offset: int, length: int) -> bytes:
        return self._file.pread(offset, max(0, min(length, self._size - offset)))
