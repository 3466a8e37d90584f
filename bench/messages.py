"""What messages cost: to open, to hold in memory, to read, change and rebuild.

    python -m bench.messages [--full] [--json FILE]

Stores of 10,000 and 100,000 messages (and 1,000,000 with --full) of 300 bytes, half of them
Japanese, in 150 sessions; each figure is taken in a fresh process. Beside them the same messages
in an SQLite file (WAL, synchronous=FULL). With --full also 1,000 messages of 1 MiB.
"""

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from convmem import codec, ids
from convmem.commands import Granted
from convmem.ledger import Ledger
from convmem.message import Message
from convmem.operations import MessageCommand, ReadContent, ReadHistory, UpdateMessage
from convmem.records import PutMessage
from convmem.storage import Record

SESSIONS = 150
BATCH = 16  # what comes in together in life; a large frame is verified whole at every read
TAIL = 1000
START_MS = 1_700_000_000_000
ENGLISH = "We settled the release plan: beta on Friday, and the changelog goes to Mika. " * 4
JAPANESE = "リリース計画を決めました。ベータは金曜日、変更履歴はミカさんが書きます。" * 3
MIB = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what messages cost.")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--probe", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--use", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        print(json.dumps(probe(options.probe, options.use)))
        return 0
    results = [measure(count) for count in (10_000, 100_000, *([1_000_000] * options.full))]
    for result in results:
        show(result)
    if options.full:
        results.append(measure_large())
        show(results[-1])
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    return 0


def measure(count: int) -> dict[str, Any]:
    """All figures for a store of that many messages."""
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        store, database = Path(folder, "store"), Path(folder, "messages.db")
        fill(store, messages(count))
        replayed = run_probe(store)
        save_snapshot(store)
        fill(store, messages(TAIL, first=count))
        restored = run_probe(store)
        snapshot_bytes = sum(path.stat().st_size for path in store.glob("snap-*"))
        used = run_probe(store, use=True)
        return {
            "messages": count,
            "log_bytes": sum(path.stat().st_size for path in store.glob("log-*")),
            "snapshot_bytes": snapshot_bytes,
            "replayed": replayed,
            "restored": restored,
            "used": used,
            "sqlite": measure_sqlite(database, count),
        }


def measure_large() -> dict[str, Any]:
    """A thousand messages of a mebibyte each."""
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        fill(Path(folder), (each for each in messages(1000, size=MIB)))
        return {"messages": 1000, "message_bytes": MIB, "replayed": run_probe(Path(folder))}


def messages(count: int, first: int = 0, size: int = 300) -> Iterator[Message]:
    for number in range(first, first + count):
        text = (JAPANESE if number % 2 else ENGLISH).encode()
        content = (text * (size // len(text) + 1))[:size].decode(errors="ignore")
        yield Message(
            message_id=ids.successor(ids.NO_ID, START_MS + number, number.to_bytes(10, "big")),
            session_id=f"session-{number % SESSIONS}",
            timestamp=START_MS + number,
            updated_at=START_MS + number,
            revision=1,
            role="user" if number % 3 else "assistant",
            content=f"{number} {content}",
            written_by="bench",
        )


def fill(store: Path, new: Iterator[Message]) -> None:
    """Append messages to a store in large batches, past the tools."""
    ledger = Ledger.open(store)
    batch: list[Record] = []
    size = 0
    for message in new:
        record = Record(*codec.encode(PutMessage(message)))
        if batch and (len(batch) == BATCH or size + len(record.payload) > MIB // 2):
            ledger.append(batch)
            batch, size = [], 0
        batch.append(record)
        size += len(record.payload)
    ledger.append(batch)
    ledger.close()


def save_snapshot(store: Path) -> None:
    ledger = Ledger.open(store)
    ledger.snapshot()()
    ledger.close()


def run_probe(store: Path, use: bool = False) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.messages", "--probe", str(store)]
    shown = subprocess.run(
        [*command, *(["--use"] if use else [])], check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(shown.stdout)
    return figures


def probe(store: Path, use: bool) -> dict[str, float]:
    """In a process of its own: open the store, and with ``use`` read and change it."""
    base = resident_bytes()
    figures = {}
    ledger, figures["open_ms"] = timed(lambda: Ledger.open(store))
    figures["base_mb"] = base / MIB
    figures["resident_mb"] = resident_bytes() / MIB
    figures["bytes_a_message"] = max(0, resident_bytes() - base) / ledger.live
    page = ReadHistory(session_id="session-7", order="newest_first", limit=50, max_bytes=65_536)
    _, figures["first_page_ms"] = timed(lambda: ledger.answer(page))
    if not use:
        return figures
    _, pages_ms = timed(lambda: [ledger.answer(page) for _ in range(200)])
    figures["page_of_50_ms"] = pages_ms / 200
    reply: Any = ledger.answer(page)
    read = [bytes_of(message) for message in reply["messages"]]
    _, figures["read_10k_ms"] = timed(lambda: [ledger.answer(read[n % 50]) for n in range(10_000)])
    figures["resident_after_reads_mb"] = resident_bytes() / MIB
    revisions = dict.fromkeys((query.message_id for query in read), 1)
    _, figures["update_10k_ms"] = timed(lambda: update_many(ledger, revisions, 10_000))
    figures["resident_after_updates_mb"] = resident_bytes() / MIB
    _, figures["rebuild_ms"] = timed(lambda: rebuild(ledger))
    figures["resident_after_rebuild_mb"] = resident_bytes() / MIB
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def bytes_of(message: dict[str, Any]) -> ReadContent:
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


def measure_sqlite(path: Path, count: int) -> dict[str, float]:
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
    database, open_ms = timed(lambda: sqlite3.connect(path))
    query = "SELECT id, at, text FROM m WHERE session = 'session-7' ORDER BY id DESC LIMIT 50"
    _, first_ms = timed(lambda: database.execute(query).fetchall())
    _, pages_ms = timed(lambda: [database.execute(query).fetchall() for _ in range(200)])
    database.close()
    return {
        "file_bytes": path.stat().st_size,
        "open_ms": open_ms,
        "first_page_ms": first_ms,
        "page_of_50_ms": pages_ms / 200,
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - began) * 1000


def resident_bytes() -> int:
    """Resident memory now, where the system tells it (Linux), else the peak so far."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (kilobytes,) = [row.split()[1] for row in status.splitlines() if row.startswith("VmRSS")]
    return int(kilobytes) * 1024


def show(result: dict[str, Any], indent: str = "") -> None:
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            show(value, indent + "  ")
        else:
            text = f"{value:.1f}" if isinstance(value, float) else f"{value}"
            print(f"{indent}{name:<28}{text:>14}")


if __name__ == "__main__":
    sys.exit(main())
