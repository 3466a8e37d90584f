"""What is deterministic about cost: bytes, writes, flushes, modules, calls. The gate of CI.

    python -m bench.budgets [--renew [--note WHY]]

Prints every figure beside the one in ``bench/baseline.json``. One that is worse by a tenth or
more fails ``tests/test_baseline.py``. ``--renew`` writes the figures of now down; where one is so
much worse it takes a ``--note`` that says why, which is kept beside it. Figures that depend on the
version of Python (modules, calls) are compared on the version they were taken with only.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from bench.messages import messages
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


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare what is deterministic about cost.")
    parser.add_argument("--renew", action="store_true", help="write the figures of now down")
    parser.add_argument("--note", help="why a figure may be worse")
    options = parser.parse_args()
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"figures": {}}
    found = figures()
    for name, value in found.items():
        print(f"{name:<40}{value:>12,.1f}{baseline['figures'].get(name, float('nan')):>12,.1f}")
    bad = worse(found, baseline)
    print(*(f"worse by a tenth or more: {name}" for name in bad), sep="\n")
    if not options.renew:
        return 1 if bad else 0
    bad = [name for name in bad if name in baseline["figures"]]  # a new one needs no excuse
    if bad and not options.note:
        print("--note WHY is needed to write them down")
        return 2
    notes = baseline.get("notes", {}) | dict.fromkeys(bad, options.note)
    renewed = {"python": PYTHON, "figures": found, "notes": notes}
    BASELINE.write_text(json.dumps(renewed, indent=2) + "\n")
    return 0


def worse(found: dict[str, float], baseline: dict[str, Any]) -> list[str]:
    """The figures that are worse than those of a baseline by a tenth or more, or missing in it."""
    known = baseline["figures"]
    compared = (
        name for name in found if not is_of_python(name) or baseline.get("python") == PYTHON
    )
    return [
        name
        for name in compared
        if name not in known or found[name] >= max(known[name] * (1 + WORSE_SHARE), 1e-9) > 0
    ]


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
    search = SearchMessages(
        query="who has the changelog", limit=10, max_bytes=1 << 16, mode="auto", tags=()
    )

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
