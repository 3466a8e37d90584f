"""The same messages in convmem and in @modelcontextprotocol/server-memory, both over MCP.

    python -m bench.peers [--count N...]

Both servers are real processes that hold N messages of 300 bytes when they start; every figure
is the median of single calls through the same client, a search is for one telling word. The peer is
installed with npm into a temporary folder; without npm there is only our side.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.corpus import START_MS, fill, messages, question, save_snapshot
from bench.measuring import resident_mb, timed_ms
from bench.tables import Cell, show
from convmem.cli.launch import server_command
from convmem.protocol import BlockingClient

PACKAGE = "@modelcontextprotocol/server-memory"
INSTALL_TIMEOUT_S = 300
CALLS = 25
TEXT = "x" * 300
ROWS = [
    "start to the first answer, ms",
    "write one, ms",
    "read one, ms",
    "search for a word, ms",
    "resident at the start, MB",
    "resident after the calls, MB",
]

Figures = list[float | None]


class PeerMissing(Exception):
    """The peer cannot be had here, and why."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one server that are compared, each made from a number: tool and arguments."""

    first: tuple[str, dict[str, object]]
    write: Callable[[int], tuple[str, dict[str, object]]]
    read: Callable[[int], tuple[str, dict[str, object]]]
    search: Callable[[int], tuple[str, dict[str, object]]]


OURS = Calls(
    ("read_messages", {"view": "sessions", "limit": 1}),
    lambda n: ("write_message", {"session_id": "new", "role": "user", "content": f"{n} {TEXT}"}),
    lambda n: ("read_messages", {"view": "history", "session_id": f"session-{n}", "limit": 1}),
    lambda n: ("search_messages", {"query": word(n)}),
)
THEIRS = Calls(
    ("open_nodes", {"names": ["none"]}),
    lambda n: (
        "create_entities",
        {"entities": [{"name": f"new {n}", "entityType": "message", "observations": [TEXT]}]},
    ),
    lambda n: ("open_nodes", {"names": [str(START_MS + n)]}),
    lambda n: ("search_nodes", {"query": word(n)}),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare with the official memory server.")
    parser.add_argument("--count", type=int, nargs="+", default=[10_000])
    for count in parser.parse_args().count:
        if count < CALLS:
            parser.error(f"--count: at least {CALLS} messages are needed")
        compare(count)
    return 0


def compare(count: int) -> None:
    """Measure both over so many messages, and show it."""
    columns = [f"{count:,} messages of 300 bytes", "convmem"]
    print(columns[0], flush=True)
    with tempfile.TemporaryDirectory(prefix="convmem-peers-") as folder:
        figures = [measure_ours(Path(folder, "store"), count)]
        try:
            program = install_peer(Path(folder))
        except PeerMissing as problem:
            print(f"{PACKAGE}: {problem}, not measured", flush=True)
        else:
            figures.append(measure_peer(program, Path(folder), count))
            columns += ["server-memory", "times"]
    rows: list[list[Cell]] = [
        [what, *each, *([each[1] / each[0]] if len(each) > 1 and each[0] and each[1] else [])]
        for what, *each in zip(ROWS, *figures, strict=True)
    ]
    show(f"peers.{count}", columns, rows)


def measure_ours(store: Path, count: int) -> Figures:
    fill(store, messages(count))
    command = [*server_command(store), "--semantic", "off"]
    with BlockingClient(command) as client:  # indexes, and saves at its end
        call(client, *OURS.search(0))
    save_snapshot(store)
    return measure(command, OURS)


def measure_peer(program: list[str], folder: Path, count: int) -> Figures:
    data = folder / "memory.jsonl"
    with data.open("w", encoding="utf-8") as lines:
        for message in messages(count):
            entity = {
                "type": "entity",
                "name": str(message.timestamp),
                "entityType": "message",
                "observations": [message.content],
            }
            lines.write(json.dumps(entity, ensure_ascii=False) + "\n")
    return measure(program, THEIRS, os.environ | {"MEMORY_FILE_PATH": str(data)})


def measure(program: list[str], calls: Calls, env: Mapping[str, str] | None = None) -> Figures:
    """What ``ROWS`` names, of a server over what it holds."""
    began_s = time.perf_counter()
    with BlockingClient(program, env=env) as client:
        call(client, *calls.first)
        start_ms = 1000 * (time.perf_counter() - began_s)
        resident = resident_mb(client.pid or 0)
        took_ms = [
            statistics.median(
                timed_ms(lambda: call(client, *made(n)))[1]  # noqa: B023
                for n in range(CALLS)
            )
            for made in (calls.write, calls.read, calls.search)
        ]
        return [start_ms, *took_ms, resident, resident_mb(client.pid or 0)]


def word(number: int) -> str:
    """What is searched for: the longest word of a question."""
    return max(question(number).split(), key=len)


def install_peer(folder: Path) -> list[str]:
    """Install the official memory server there: the command that starts it. Raises PeerMissing."""
    npm = shutil.which("npm")
    if npm is None:
        raise PeerMissing("npm is not here")
    install = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder)]
    try:
        subprocess.run([*install, PACKAGE], check=True, timeout=INSTALL_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as problem:
        raise PeerMissing(f"npm cannot install it ({type(problem).__name__})") from problem
    return ["node", str(folder / "node_modules" / PACKAGE / "dist" / "index.js")]


def call(client: BlockingClient, tool: str, arguments: dict[str, object]) -> None:
    result = client.call_tool(tool, arguments)
    if result.is_error:
        sys.exit(f"{tool}: {result.text}")


if __name__ == "__main__":
    sys.exit(main())
