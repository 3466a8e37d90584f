"""Measure the storage engine against what it stands on and what else could stand there.

    python -m bench.storage [--dir DIR] [--appends N] [--records N ...]

Durable appends are timed one by one, in turns with the same bytes appended raw (one pwrite,
one fdatasync), SQLite (WAL, synchronous=FULL, one row a transaction) and LMDB where it can be
imported; so all see the same disk at the same time, and the ratios are what to trust. Then
replay, compaction and opening from a snapshot, by number of records of 300 bytes.
"""

import argparse
import importlib
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.measuring import MB, percentile, timed_ms
from bench.tables import Cell, show
from convmem.storage import (
    Entry,
    Environment,
    OsDisk,
    Record,
    Section,
    Store,
    encode_frame,
)

# Sizes of payloads, and the share of --appends that each is given: a megabyte takes its time.
SIZES = {"200 B": (200, 1.0), "4 KiB": (4 << 10, 1.0), "1 MiB": (1 << 20, 0.2)}
REPLAYED_BYTES = 300
# What a row of a message takes in a snapshot (fixed columns, filters, id table, order).
ROW_BYTES = 76
LMDB_MAP_BYTES = 4 << 30
WORDS = ("the ", "memory ", "of ", "a ", "conversation ", "会話の記憶", "Gespräch ", "it said ")

Append = Callable[[bytes], object]


class Counting:
    """An application that only counts; its snapshot is rows of zeros."""

    known_types = frozenset({1})

    def __init__(self) -> None:
        self.count = 0

    def restore(self, sections: Mapping[int, memoryview]) -> None:
        self.count = len(sections[1]) // ROW_BYTES

    def reset(self) -> None:
        self.count = 0

    def replay(self, entry: Entry) -> None:
        self.count += 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the storage engine.")
    parser.add_argument(
        "--dir", type=Path, help="where to write, the temporary folder if not given"
    )
    parser.add_argument("--appends", type=int, default=500, help="of each kind and size")
    parser.add_argument("--records", type=int, nargs="*", default=[100_000, 1_000_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="convmem-bench-", dir=options.dir) as folder:
        rows: list[list[Cell]] = []
        for label, (size, share) in SIZES.items():
            with ExitStack() as resources:
                where = Path(folder) / label.replace(" ", "")
                where.mkdir()
                count = max(1, int(options.appends * share))
                rows += append_rows(label, measure_appends(where, size, count, resources))
        show("storage.appends", ["durable append", "us p50 / p99", "times raw"], rows)
        rows = [[n, *measure_records(Path(folder) / str(n), n)] for n in options.records]
        show(
            "storage.records",
            [
                f"records of {REPLAYED_BYTES} bytes",
                "log, MB",
                "written, ms",
                "read and copied, ms",
                "replayed, ms",
                "opened from a snapshot, ms",
            ],
            rows,
        )
    return 0


def measure_appends(
    folder: Path, size: int, count: int, resources: ExitStack
) -> dict[str, list[float]]:
    """Seconds of each append, by contender, taken in turns."""
    contenders = {
        "raw": _raw(folder, resources),
        "store": _store(folder, resources),
        "sqlite": _sqlite(folder, resources),
    }
    lmdb = _lmdb(folder, resources)
    if lmdb:
        contenders["lmdb"] = lmdb
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    text = "".join(random.choices(WORDS, k=size // 4)).encode()
    for turn in range(count):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            # Fresh for each, as what a server writes was just made; raw gets the whole frame.
            payload = (b"%06d " % turn + text)[:size].ljust(size)
            data = encode_frame(1, turn, 0, 0, payload)[0] if name == "raw" else payload
            began = time.perf_counter()
            contenders[name](data)
            taken[name].append(time.perf_counter() - began)
    return taken


def append_rows(label: str, taken: dict[str, list[float]]) -> list[list[Cell]]:
    raw = statistics.median(taken["raw"])
    return [
        [
            f"{label}, {name}",
            [1e6 * percentile(times, share) for share in (0.5, 0.99)],
            statistics.median(times) / raw,
        ]
        for name, times in taken.items()
    ]


def _raw(folder: Path, resources: ExitStack) -> Append:
    """The bytes of the frames that the store writes, and nothing else."""
    descriptor = os.open(folder / "raw", os.O_RDWR | os.O_CREAT, 0o600)
    resources.callback(os.close, descriptor)
    offset = 0

    def append(frame: bytes) -> None:
        nonlocal offset
        os.pwrite(descriptor, frame, offset)
        os.fdatasync(descriptor)
        offset += len(frame)

    return append


def _store(folder: Path, resources: ExitStack) -> Append:
    store = _open(folder / "store", Counting())
    resources.callback(store.close)
    return lambda payload: store.append([Record(1, payload)])


def _sqlite(folder: Path, resources: ExitStack) -> Append:
    database = sqlite3.connect(folder / "sqlite", isolation_level=None)
    resources.callback(database.close)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, payload BLOB)")
    return lambda payload: database.execute("INSERT INTO records (payload) VALUES (?)", (payload,))


def _lmdb(folder: Path, resources: ExitStack) -> Append | None:
    try:
        lmdb: Any = importlib.import_module("lmdb")
    except ImportError:
        return None
    environment = resources.enter_context(lmdb.open(str(folder / "lmdb"), map_size=LMDB_MAP_BYTES))
    count = 0

    def append(payload: bytes) -> None:
        nonlocal count
        count += 1
        with environment.begin(write=True) as transaction:
            transaction.put(count.to_bytes(8, "big"), payload, append=True)

    return append


def _open(folder: Path, application: Counting) -> Store:
    environment = Environment(lambda: time.time_ns() // 1_000_000, os.urandom, bytes(16))
    return Store.open(OsDisk(folder), environment, application)


def _records(count: int) -> Iterator[Record]:
    for number in range(count):
        yield Record(1, number.to_bytes(8, "little") * (REPLAYED_BYTES // 8))


def measure_records(folder: Path, count: int) -> list[float]:
    """Megabytes of log; milliseconds to write so many records, copy, replay and restore them."""
    store = _open(folder, Counting())
    places: list[tuple[int, int]] = []

    def compact(records: Iterator[Record]) -> None:
        places.clear()
        compacted = store.compact(
            records,
            (count, 0),
            expected_bytes=count * REPLAYED_BYTES,
            on_entry=lambda entry: places.append((entry.frame_offset, entry.start)),
            progress=lambda done: None,
        )
        store.switch(compacted)

    _, written_ms = timed_ms(lambda: compact(_records(count)))
    store.retire()
    here = list(places)
    _, copied_ms = timed_ms(lambda: compact(map(store.read, *zip(*here, strict=True))))
    store.retire()
    log_bytes = store.status().log_bytes
    store.close()

    application = Counting()
    store, replayed_ms = timed_ms(lambda: _open(folder, application))
    assert application.count == count
    store.write_snapshot(
        store.position(), [Section(1, ROW_BYTES, bytes(count * ROW_BYTES))], (count, 0)
    )
    store.close()
    restored = Counting()
    store, restored_ms = timed_ms(lambda: _open(folder, restored))
    assert restored.count == count
    store.close()

    return [log_bytes / MB, written_ms, copied_ms, replayed_ms, restored_ms]


if __name__ == "__main__":
    sys.exit(main())
