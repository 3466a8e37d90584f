"""What is deterministic about cost: bytes, writes, flushes, modules, calls. The gate of CI.

    python -m bench.budgets [--renew [--note WHY]]

Shows every figure beside the one in ``bench/baseline.json``. One that is worse by a tenth or more,
or that only one of the two has, fails ``tests/test_baseline.py``. ``--renew`` writes the figures of
now down; where one is so much worse it takes a ``--note`` that says why, which is kept beside it.
Figures that depend on the version of Python (modules, calls) are compared on the version they were
taken with only; a renewal on another version takes a note too.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from types import FrameType
from typing import Any

from bench.corpus import messages, question
from bench.tables import show
from convmem import ids, operations
from convmem.codec import encode
from convmem.commands import Granted
from convmem.engine import Engine
from convmem.ledger import Ledger
from convmem.operations import Command, SearchMessages
from convmem.records import PutMessage
from convmem.storage import Environment, MemoryDisk, Record

BASELINE = Path(__file__).with_name("baseline.json")
WORSE_SHARE = 0.1

TEXT = "x" * 300
STORED = 1000
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class BaselineDamaged(Exception):
    """The baseline cannot be compared with, and why."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare what is deterministic about cost.")
    parser.add_argument("--renew", action="store_true", help="write the figures of now down")
    parser.add_argument("--note", help="why a figure may be worse")
    options = parser.parse_args()
    if options.renew and not BASELINE.exists():
        baseline: dict[str, Any] = {"python": PYTHON, "figures": {}}
    else:
        try:
            baseline = read(BASELINE)
        except BaselineDamaged as problem:
            print(f"{BASELINE.name}: {problem}", file=sys.stderr)
            return 2
    found = figures()
    known = baseline["figures"]
    show(
        "budgets.figures",
        [f"Python {PYTHON}", "now", f"baseline, {baseline['python']}"],
        [[name, found.get(name), known.get(name)] for name in {**known, **found}],
    )
    bad = worse(found, baseline)
    print(*(f"worse by a tenth or more, new or gone: {name}" for name in bad), sep="\n")
    if options.renew:
        return renew(found, baseline, options.note)
    return 1 if bad else 0


def read(path: Path) -> dict[str, Any]:
    """A baseline. Raises BaselineDamaged."""
    try:
        baseline = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise BaselineDamaged(f"{problem}; restore it, or write a new one with --renew") from None
    match baseline:
        case {"python": str(), "figures": {**known}} if all(map(_is_figure, known.values())):
            return dict(baseline)
    raise BaselineDamaged('no {"python", "figures"} of numbers; restore it')


def renew(found: dict[str, float], baseline: dict[str, Any], note: str | None) -> int:
    """Write the figures of now down; the exit status. What gets worse by it takes a note."""
    bad = [name for name in worse(found, baseline) if name in baseline["figures"]]
    if baseline["python"] != PYTHON:  # those of another version cannot be compared
        bad += filter(is_of_python, found)
    if bad and not note:
        print("--note WHY is needed to write them down", file=sys.stderr)
        return 2
    notes = baseline.get("notes", {}) | dict.fromkeys(bad, note)
    kept = {name: why for name, why in notes.items() if name in found}
    renewed = {"python": PYTHON, "figures": found, "notes": kept}
    BASELINE.write_text(json.dumps(renewed, indent=2) + "\n", encoding="utf-8")
    return 0


def worse(found: Mapping[str, float], baseline: Mapping[str, Any]) -> list[str]:
    """The figures that are worse than those of a baseline by a tenth or more, or in one only."""
    known = baseline["figures"]
    compared = (
        name
        for name in {**known, **found}
        if not is_of_python(name) or baseline.get("python") == PYTHON
    )
    return [
        name
        for name in compared
        if name not in known or not _is_figure(found.get(name)) or _is_worse(found, known, name)
    ]


def _is_worse(found: Mapping[str, float], known: Mapping[str, float], name: str) -> bool:
    return found[name] > 0 and found[name] >= known[name] * (1 + WORSE_SHARE)


def _is_figure(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and isfinite(value)
        and value >= 0
    )


def is_of_python(name: str) -> bool:
    """Whether a figure depends on the version of Python."""
    return name.startswith(("modules", "calls"))


def figures() -> dict[str, float]:
    """All of them, by name."""
    return io_figures() | size_figures() | call_figures() | module_figures()


def io_figures() -> dict[str, float]:
    """Writes, flushes and bytes in the log of each kind of command."""
    disk = MemoryDisk()
    engine = Engine(Ledger(disk, _environment()))
    found: dict[str, float] = {}

    async def measured(name: str, *commands: Command) -> list[dict[str, Any]]:
        before = disk.counters[".cvl"]
        counts = before.writes, before.flushes, before.bytes_written
        answers = await asyncio.gather(*map(engine.execute, commands))
        after = disk.counters[".cvl"]
        for what, was, now in zip(
            ("writes", "flushes", "bytes"),
            counts,
            (after.writes, after.flushes, after.bytes_written),
            strict=True,
        ):
            found[f"{name}: {what}"] = now - was
        return answers

    async def all_commands() -> None:
        write = operations.WriteMessage(session_id="s", role="user", content=TEXT, client_id="c")
        (written,) = await measured("write", write)
        message_id = ids.from_text(written["message_id"])

        def update(revision: int, **changes: object) -> Command:
            return operations.UpdateMessage(
                message_id=message_id, expected_revision=revision, changes=changes
            )

        await measured("update of content", update(1, content=TEXT + "y"))
        await measured("update of metadata", update(2, importance=7))
        await measured("update that changes nothing", update(3, importance=7))
        await measured("delete", operations.DeleteMessage(message_id=message_id))
        await measured("16 writes at once", *[write] * 16)
        await measured("fact set", operations.SetFact(key="user/theme", value="dark"))
        await measured("fact deleted", operations.DeleteFact(key="user/theme"))
        await engine.close()

    asyncio.run(all_commands())
    return found


def size_figures() -> dict[str, float]:
    """Bytes a message in log, snapshot, state and index."""
    disk = MemoryDisk()
    ledger = _filled(disk)
    ledger.catch_up()()
    memory: Any = ledger.answer(operations.ReadHealth())
    ledger.snapshot()()
    sizes = {name: len(data) for name, data in disk.files.items()}
    log = sum(size for name, size in sizes.items() if name.endswith(".cvl"))
    snapshot = sum(size for name, size in sizes.items() if name.endswith(".cvs"))
    return {
        "bytes a message: log": log / STORED,
        "bytes a message: snapshot with index": snapshot / STORED,
        "bytes a message: state in memory": memory["memory_bytes"]["state"] / STORED,
        "bytes a message: index in memory": memory["memory_bytes"]["search"] / STORED,
    }


def call_figures() -> dict[str, float]:
    """Calls of Python functions below the wire, of a write, a page and a search."""
    ledger = _filled(MemoryDisk())
    ledger.catch_up()()
    write = operations.WriteMessage(session_id="s", role="user", content=TEXT)
    page = operations.ReadHistory(
        session_id="session-7", order="newest_first", limit=5, max_bytes=1 << 16
    )
    search = SearchMessages(query=question(0), limit=10, max_bytes=1 << 16, mode="auto", tags=())

    def write_one() -> None:
        decided = ledger.decide(write)
        assert isinstance(decided, Granted)
        (entry,) = ledger.append([Record(*encode(decided.record))])
        ledger.apply(decided.record, entry)

    ledger.answer(search)
    return {
        "calls: page of 5": calls_of(lambda: ledger.answer(page)),
        "calls: search": calls_of(lambda: ledger.answer(search)),
        "calls: write": calls_of(write_one),
    }


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions a piece of work calls, the second time."""
    work()
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def module_figures() -> dict[str, float]:
    """Modules that a server imports before it greets its host, beside what asyncio takes."""
    code = "import sys, asyncio, json; n = len(sys.modules); import {}; print(len(sys.modules) - n)"
    shown = [
        subprocess.run(
            [sys.executable, "-c", code.format(names)], check=True, capture_output=True, text=True
        )
        for names in ("convmem.cli, convmem.server", "convmem.sharing.guest, convmem.tools")
    ]
    return {
        "modules: before the greeting": int(shown[0].stdout),
        "modules: of a guest": int(shown[1].stdout),
    }


def _filled(disk: MemoryDisk) -> Ledger:
    ledger = Ledger(disk, _environment())
    for message in messages(STORED):
        record = PutMessage(message)
        (entry,) = ledger.append([Record(*encode(record))])
        ledger.apply(record, entry)
    return ledger


def _environment() -> Environment:
    return Environment(now_ms=lambda: 1_800_000_000_000, random_bytes=bytes, host_id=bytes(16))


if __name__ == "__main__":
    sys.exit(main())
