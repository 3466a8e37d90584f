"""An append-only store of opaque records: durable at acknowledgement, damage never silent.

Open `Store` on an `OsDisk`; the bytes are described in `format`, the endings of a log in
`scan`. Tests find the same store on a `MemoryDisk`, where they choose what a crash leaves.
"""

from typing import TYPE_CHECKING

from .check import FileReport, Finding, Report, check
from .disk import OsDisk
from .errors import (
    CorruptLog,
    DiskFull,
    ForkedLogs,
    FormatTooNew,
    Holder,
    InvalidRecord,
    LogError,
    MissingLog,
    RepairRefused,
    StorageError,
    StoreFailed,
    StoreLocked,
    StoreUnavailable,
)
from .format import (
    CREATION_BYTES,
    Entry,
    FileHeader,
    Frame,
    Generation,
    HeaderFault,
    Origin,
    Record,
    Seal,
    batch_record_bytes,
    decode_batch,
    decode_frame,
    decode_generation,
    decode_header,
    decode_seal,
    encode_batch,
    encode_frame,
    encode_generation,
    encode_header,
    encode_seal,
    frame_bytes,
)
from .layout import AUDIT, VECTORS, log_name, snapshot_name
from .limits import BATCH_BYTES_MAX, PAYLOAD_BYTES_MAX
from .log import Environment
from .medium import Counters, Disk, File, Lock
from .place import Hazard, HazardKind, mounted_type, sync_folder
from .recovery import Adopted, Application, Clean, Created, Cut, Recovery
from .repair import CutAt, Dropped, Repaired, Skip, repair
from .scan import End, Ending, Position, Verdict, scan, start_of
from .snapshot import Section, Unusable
from .store import Compacted, Store, StoreStatus
from .survey import Range
from .view import open_view

if TYPE_CHECKING:
    from .memory_disk import MemoryDisk, Operation, ShortWrite

__all__ = [
    "AUDIT",
    "BATCH_BYTES_MAX",
    "CREATION_BYTES",
    "PAYLOAD_BYTES_MAX",
    "VECTORS",
    "Adopted",
    "Application",
    "Clean",
    "Compacted",
    "CorruptLog",
    "Counters",
    "Created",
    "Cut",
    "CutAt",
    "Disk",
    "DiskFull",
    "Dropped",
    "End",
    "Ending",
    "Entry",
    "Environment",
    "File",
    "FileHeader",
    "FileReport",
    "Finding",
    "ForkedLogs",
    "FormatTooNew",
    "Frame",
    "Generation",
    "Hazard",
    "HazardKind",
    "HeaderFault",
    "Holder",
    "InvalidRecord",
    "Lock",
    "LogError",
    "MemoryDisk",
    "MissingLog",
    "Operation",
    "Origin",
    "OsDisk",
    "Position",
    "Range",
    "Record",
    "Recovery",
    "RepairRefused",
    "Repaired",
    "Report",
    "Seal",
    "Section",
    "ShortWrite",
    "Skip",
    "StorageError",
    "Store",
    "StoreFailed",
    "StoreLocked",
    "StoreStatus",
    "StoreUnavailable",
    "Unusable",
    "Verdict",
    "batch_record_bytes",
    "check",
    "decode_batch",
    "decode_frame",
    "decode_generation",
    "decode_header",
    "decode_seal",
    "encode_batch",
    "encode_frame",
    "encode_generation",
    "encode_header",
    "encode_seal",
    "frame_bytes",
    "log_name",
    "mounted_type",
    "open_view",
    "repair",
    "scan",
    "snapshot_name",
    "start_of",
    "sync_folder",
]


def __getattr__(name: str) -> object:
    """What tests and dry runs want, on first use: a server must not pay for its start."""
    if name in ("MemoryDisk", "Operation", "ShortWrite"):
        from . import memory_disk

        return getattr(memory_disk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
