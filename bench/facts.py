"""Setting and reading facts, beside SQLite and beside a bare append and flush.

    python -m bench.facts [--full]

Each store holds N facts of 100 bytes when it is measured. SQLite has the table of facts and the
table of events that a shared store needs, in WAL mode with synchronous FULL. All in one process,
the rounds interleaved; medians. --full measures 100,000 facts as well.
"""

import argparse
import asyncio
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.tables import Cell, show
from convmem.engine import Engine
from convmem.limits import FACTS_FOUND_DEFAULT, REPLY_BYTES_DEFAULT
from convmem.operations import ReadFact, SearchFacts, SetFact

ROUNDS = 300
SEED = 7
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# What the log writes for one of these: frame, record and padding.
FRAME_BYTES = 200


def main() -> int:
    parser = argparse.ArgumentParser(description="Set and read facts.")
    parser.add_argument("--full", action="store_true", help="100,000 facts as well")
    counts = [200, 10_000, *([100_000] if parser.parse_args().full else [])]
    rows: list[list[Cell]] = []
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="convmem-facts-") as folder:
            took_s = asyncio.run(measured(Path(folder), count))
        rows.append([count, *(1000 * each for each in took_s)])
    columns = ["raw append", "set", "SQLite set", "get", "SQLite get", "search"]
    show("facts.times", ["facts; medians in ms", *columns], rows)
    return 0


async def measured(folder: Path, count: int) -> list[float]:
    """Seconds of a raw append, a set, SQLite's, a get, SQLite's, and a search."""
    engine = Engine.open(folder / "store", audit=False)
    with closing(_sqlite(folder / "facts.db")) as database, (folder / "raw").open("wb") as raw:
        await _fill(engine, count)
        _sqlite_fill(database, count)
        took: dict[str, list[float]] = {name: [] for name in ("raw", "set", "their", "get", "got")}
        for number in range(ROUNDS):
            key = f"key/{number * 7919 % count}"
            value = text(number)
            took["raw"].append(_timed(lambda: _append(raw.fileno())))
            took["set"].append(await _timed_async(engine, SetFact(key=key, value=value)))
            took["their"].append(_timed(lambda: _sqlite_set(database, key, value)))  # noqa: B023
            took["get"].append(await _timed_async(engine, _read(key)))
            took["got"].append(_timed(lambda: _sqlite_get(database, key)))  # noqa: B023
        await engine.query(_search("warm"))
        queries = [" ".join(text(n).split()[:3]) for n in range(0, count, max(1, count // 20))]
        searched = [await _timed_async(engine, _search(query)) for query in queries]
    await engine.close()
    return [statistics.median(times) for times in (*took.values(), searched)]


def text(number: int) -> str:
    """Some hundred characters of made-up words, the same for the same number."""
    choices = random.Random(SEED + number)
    return " ".join("".join(choices.choices(LETTERS, k=choices.randint(3, 9))) for _ in range(15))


def _read(key: str) -> ReadFact:
    return ReadFact(key=key, include_events=False, max_bytes=REPLY_BYTES_DEFAULT)


def _search(query: str) -> SearchFacts:
    return SearchFacts(query=query, top_k=FACTS_FOUND_DEFAULT, max_bytes=REPLY_BYTES_DEFAULT)


async def _fill(engine: Engine, count: int) -> None:
    for first in range(0, count, 500):
        keys = range(first, min(count, first + 500))
        await asyncio.gather(
            *(engine.execute(SetFact(key=f"key/{n}", value=text(n))) for n in keys)
        )


async def _timed_async(engine: Engine, operation: SetFact | ReadFact | SearchFacts) -> float:
    began_s = time.perf_counter()
    if isinstance(operation, SetFact):
        await engine.execute(operation)
    else:
        await engine.query(operation)
    return time.perf_counter() - began_s


def _timed(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _append(descriptor: int) -> None:
    os.write(descriptor, b"x" * FRAME_BYTES)
    getattr(os, "fdatasync", os.fsync)(descriptor)


def _sqlite(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT, client TEXT, set_at INTEGER)"
    )
    connection.execute(
        "CREATE TABLE events (id INTEGER PRIMARY KEY, key TEXT, action TEXT, value TEXT, "
        "client TEXT, at INTEGER)"
    )
    return connection


def _sqlite_fill(database: sqlite3.Connection, count: int) -> None:
    database.execute("BEGIN")
    for number in range(count):
        _sqlite_rows(database, f"key/{number}", text(number))
    database.execute("COMMIT")


def _sqlite_set(database: sqlite3.Connection, key: str, value: str) -> None:
    database.execute("BEGIN IMMEDIATE")
    _sqlite_rows(database, key, value)
    database.execute("COMMIT")


def _sqlite_rows(database: sqlite3.Connection, key: str, value: str) -> None:
    at = time.time_ns()
    database.execute("REPLACE INTO facts VALUES (?, ?, 'bench', ?)", (key, value, at))
    database.execute(
        "INSERT INTO events (key, action, value, client, at) VALUES (?, 'set', ?, 'bench', ?)",
        (key, value, at),
    )


def _sqlite_get(database: sqlite3.Connection, key: str) -> object:
    return database.execute("SELECT * FROM facts WHERE key = ?", (key,)).fetchone()


if __name__ == "__main__":
    sys.exit(main())
