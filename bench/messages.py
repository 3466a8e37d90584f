"""What messages cost: to open, to hold in memory, to read, change and rebuild.

    python -m bench.messages [--full]

Stores of 10,000 and 100,000 messages of the seeded corpus (and 1,000,000 with --full); each
figure is taken in a fresh process. "Replayed" opens without a snapshot, "restored" with one and
1,000 messages after it. Beside them the same messages in an SQLite file (WAL, synchronous=FULL).
With --full also 1,000 messages of 1 MiB.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.corpus import fill, messages, save_snapshot
from bench.measuring import MB, own_resident_mb, timed_ms
from bench.tables import show
from convmem import codec, ids
from convmem.commands import Granted
from convmem.ledger import Ledger
from convmem.operations import MessageCommand, ReadContent, ReadHistory, UpdateMessage
from convmem.storage import Record

TAIL = 1000
PAGES = 200
READS = 10_000
UPDATES = 10_000
LARGE = 1000
LARGE_BYTES = 1 << 20

Figures = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what messages cost.")
    parser.add_argument("--full", action="store_true", help="1,000,000 and large ones as well")
    parser.add_argument("--probe", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--use", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        print(json.dumps(probe(options.probe, options.use)))
        return 0
    measured = {}
    for count in (10_000, 100_000, *([1_000_000] * options.full)):
        print(f"{count:,} messages", flush=True)
        measured[count] = measure(count)
    show_all(measured)
    if options.full:
        show_large()
    return 0


def show_all(measured: dict[int, dict[str, Figures]]) -> None:
    """One table a question, one row a size."""

    def table(name: str, **columns: tuple[str, str]) -> None:
        rows = [
            [count, *(figures[probed][figure] for probed, figure in columns.values())]
            for count, figures in measured.items()
        ]
        show(f"messages.{name}", ["messages", *columns], rows)

    table(
        "bytes",
        **{
            "log, MB": ("disk", "log_mb"),
            "snapshot, MB": ("disk", "snapshot_mb"),
            "SQLite file, MB": ("sqlite", "file_mb"),
        },
    )
    table(
        "open",
        **{
            "replayed, ms": ("replayed", "open_ms"),
            "restored, ms": ("restored", "open_ms"),
            "rebuild, ms": ("used", "rebuild_ms"),
        },
    )
    table(
        "use",
        **{
            "first page, ms": ("restored", "first_page_ms"),
            "page of 50, ms": ("used", "page_ms"),
            "SQLite page, ms": ("sqlite", "page_ms"),
            "read one, ms": ("used", "read_ms"),
            "update one of 50 to a flush, ms": ("used", "update_ms"),
        },
    )
    table(
        "memory",
        **{
            "Python and numpy, MB": ("restored", "base_mb"),
            "restored, MB": ("restored", "resident_mb"),
            "replayed, MB": ("replayed", "resident_mb"),
            "after pages, reads, updates, rebuild, MB": ("used", "used_mb"),
        },
    )


def measure(count: int) -> dict[str, Figures]:
    """All figures for a store of that many messages."""
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        store, database = Path(folder, "store"), Path(folder, "messages.db")
        fill(store, messages(count))
        replayed = run_probe(store)
        save_snapshot(store)
        fill(store, messages(TAIL, first=count))
        restored = run_probe(store)
        disk = {"log_mb": _size_mb(store, "log-*"), "snapshot_mb": _size_mb(store, "snap-*")}
        used = run_probe(store, use=True)
        sqlite = measure_sqlite(database, count)
    return {"disk": disk, "replayed": replayed, "restored": restored, "used": used} | {
        "sqlite": sqlite
    }


def _size_mb(store: Path, names: str) -> float:
    return sum(path.stat().st_size for path in store.glob(names)) / MB


def show_large() -> None:
    """A thousand messages of a mebibyte each: their texts stay on disk."""
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        fill(Path(folder), messages(LARGE, size=LARGE_BYTES))
        found = run_probe(Path(folder))
    beyond_mb = found["resident_mb"] - found["base_mb"]
    columns = ["messages of 1 MiB", "replayed, ms", "memory beyond Python and numpy, MB"]
    show("messages.large", columns, [[LARGE, found["open_ms"], beyond_mb]])


def run_probe(store: Path, use: bool = False) -> Figures:
    command = [sys.executable, "-m", "bench.messages", "--probe", str(store)]
    shown = subprocess.run(
        [*command, *(["--use"] if use else [])], check=True, stdout=subprocess.PIPE, text=True
    )
    figures: Figures = json.loads(shown.stdout)
    return figures


def probe(store: Path, use: bool) -> Figures:
    """In a process of its own: open the store, and with ``use`` read and change it."""
    figures = {"base_mb": own_resident_mb()}
    ledger, figures["open_ms"] = timed_ms(lambda: Ledger.open(store))
    figures["resident_mb"] = own_resident_mb()
    page = ReadHistory(session_id="session-7", order="newest_first", limit=50, max_bytes=65_536)
    _, figures["first_page_ms"] = timed_ms(lambda: ledger.answer(page))
    if not use:
        return figures
    _, pages_ms = timed_ms(lambda: [ledger.answer(page) for _ in range(PAGES)])
    figures["page_ms"] = pages_ms / PAGES
    reply: Any = ledger.answer(page)
    read = [content_of(message) for message in reply["messages"]]
    _, reads_ms = timed_ms(lambda: [ledger.answer(read[n % len(read)]) for n in range(READS)])
    figures["read_ms"] = reads_ms / READS
    revisions = dict.fromkeys((query.message_id for query in read), 1)
    _, updates_ms = timed_ms(lambda: update_many(ledger, revisions, UPDATES))
    figures["update_ms"] = updates_ms / UPDATES
    _, figures["rebuild_ms"] = timed_ms(lambda: rebuild(ledger))
    figures["used_mb"] = own_resident_mb()
    return figures


def content_of(message: dict[str, Any]) -> ReadContent:
    return ReadContent(message_id=ids.from_text(message["message_id"]), offset=0, limit=4096)


def update_many(ledger: Ledger, revisions: dict[bytes, int], count: int) -> None:
    """Updates in rounds over the same messages, a flush a round."""
    done = 0
    while done < count:
        commands: list[MessageCommand] = [
            UpdateMessage(
                message_id=message_id,
                expected_revision=revision,
                changes={"importance": 1 + revision % 100},
            )
            for message_id, revision in revisions.items()
        ]
        granted = [ledger.decide(command) for command in commands]
        records = [each.record for each in granted if isinstance(each, Granted)]
        entries = ledger.append([Record(*codec.encode(record)) for record in records])
        for record, entry in zip(records, entries, strict=True):
            ledger.apply(record, entry)
        for message_id in revisions:
            revisions[message_id] += 1
        done += len(records)


def rebuild(ledger: Ledger) -> None:
    rebuilt = ledger.compact(lambda done, total: None)
    assert rebuilt is not None
    ledger.switch(rebuilt)
    ledger.retire()


def measure_sqlite(path: Path, count: int) -> Figures:
    """The same messages in a table with the index that a history needs."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute(
            "CREATE TABLE m (id BLOB PRIMARY KEY, session TEXT, at INTEGER, text TEXT)"
        )
        database.execute("CREATE INDEX by_session ON m (session, id)")
        rows = ((m.message_id, m.session_id, m.timestamp, m.content) for m in messages(count))
        database.executemany("INSERT INTO m VALUES (?, ?, ?, ?)", rows)
    database.close()
    database = sqlite3.connect(path)
    query = "SELECT id, at, text FROM m WHERE session = 'session-7' ORDER BY id DESC LIMIT 50"
    _, pages_ms = timed_ms(lambda: [database.execute(query).fetchall() for _ in range(PAGES)])
    database.close()
    return {"file_mb": path.stat().st_size / MB, "page_ms": pages_ms / PAGES}


if __name__ == "__main__":
    sys.exit(main())
