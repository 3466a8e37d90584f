"""Makes the folders under `golden/` that every later version must still open.

Run once for a format version, and never again for one that was released:

    python -m tests.storage.make_golden
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from convmem.storage import MemoryDisk, Record, Store

from .support import Notes, compact, open_store, write_snapshot

FOLDER = Path(__file__).parent / "golden" / "v1"
EXPECTED = "expected.json"
TEXT = Record(1, "Grüße, 世界 🎌\r\n\0".encode())
NULS = Record(2, bytes(1700))
BATCH = [TEXT, Record(2, b""), Record(0x81, b"an ignorable record")]


def _appended(store: Store, notes: Notes) -> None:
    for records in ([TEXT], BATCH, [NULS]):
        for entry in store.append(records):
            notes.replay(entry)


def _torn(store: Store, notes: Notes) -> None:
    _appended(store, notes)
    store.append([Record(1, b"cut short " * 99)])


def _snapshot(store: Store, notes: Notes) -> None:
    _appended(store, notes)
    write_snapshot(store, notes)
    notes.replay(*store.append([TEXT]))


def _compacted(store: Store, notes: Notes) -> None:
    _appended(store, notes)
    store.switch(compact(store, notes.records))
    store.retire()
    write_snapshot(store, notes)
    notes.replay(*store.append([NULS]))


def _interrupted(store: Store, notes: Notes) -> None:
    """A compaction that was sealed, and its parent not removed."""
    _appended(store, notes)
    compact(store, notes.records)


MAKERS: dict[str, Callable[[Store, Notes], None]] = {
    "created": lambda store, notes: None,
    "appended": _appended,
    "torn": _torn,
    "snapshot": _snapshot,
    "compacted": _compacted,
    "interrupted": _interrupted,
}


def main() -> None:
    for name, make in MAKERS.items():
        disk, notes = MemoryDisk(), Notes()
        store = open_store(disk, notes)
        make(store, notes)
        files = disk.files
        store.close()
        folder = FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file, data in files.items():
            (folder / file).write_bytes(data[:-1] if name == "torn" else data)
        records = [[record.type, record.payload.hex()] for record in notes.records]
        (folder / EXPECTED).write_text(json.dumps(records) + "\n")


if __name__ == "__main__":
    main()
