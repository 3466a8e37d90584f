"""The same messages in convmem and in @modelcontextprotocol/server-memory, both over MCP.

    python -m bench.peers [--count N]

Both servers are real processes that hold N messages of 300 bytes when they start; every figure
is the median of single calls through the same client. The peer is installed with npm into a
temporary folder; without npm there is only our side.
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
from collections.abc import Callable
from pathlib import Path

from bench.messages import fill, messages, save_snapshot
from convmem.cli.launch import server_command
from convmem.protocol import BlockingClient

PACKAGE = "@modelcontextprotocol/server-memory"
CALLS = 25


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare with the official memory server.")
    parser.add_argument("--count", type=int, default=10_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory(prefix="convmem-peers-") as folder:
        print(f"{count} messages of 300 bytes        start ms   write ms    read ms   resident MB")
        show("convmem", measure_ours(Path(folder, "store"), count))
        if shutil.which("npm") is None:
            print(f"{PACKAGE}: npm is not here, not measured")
            return 0
        show(PACKAGE, measure_peer(Path(folder), count))
    return 0


def measure_ours(store: Path, count: int) -> list[float]:
    fill(store, messages(count))
    save_snapshot(store)
    began = time.perf_counter()
    with BlockingClient(server_command(store)) as client:
        call(client, "get_system_health")
        start = time.perf_counter() - began
        write = median(
            lambda n: call(
                client, "write_message", session_id="new", role="user", content=f"{n} " + "x" * 300
            )
        )
        read = median(
            lambda n: call(
                client, "read_messages", view="history", session_id=f"session-{n}", limit=1
            )
        )
        return [start, write, read, resident_mb(client)]


def measure_peer(folder: Path, count: int) -> list[float]:
    program = install_peer(folder)
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
    environment = os.environ | {"MEMORY_FILE_PATH": str(data)}
    began = time.perf_counter()
    with BlockingClient(program, env=environment) as client:
        call(client, "open_nodes", names=["none"])
        start = time.perf_counter() - began
        first = next(messages(1)).timestamp
        write = median(
            lambda n: call(
                client,
                "create_entities",
                entities=[
                    {"name": f"new {n}", "entityType": "message", "observations": ["x" * 300]}
                ],
            )
        )
        read = median(lambda n: call(client, "open_nodes", names=[str(first + n)]))
        return [start, write, read, resident_mb(client)]


def install_peer(folder: Path) -> list[str]:
    """Install the official memory server there. The command that starts it."""
    install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder)]
    subprocess.run([*install, PACKAGE], check=True, timeout=300)
    return ["node", str(folder / "node_modules" / PACKAGE / "dist" / "index.js")]


def call(client: BlockingClient, tool: str, **arguments: object) -> None:
    result = client.call_tool(tool, arguments)
    if result.is_error:
        sys.exit(f"{tool}: {result.text}")


def median(work: Callable[[int], None]) -> float:
    """Seconds that one call takes."""
    took = []
    for number in range(CALLS):
        began = time.perf_counter()
        work(number)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def resident_mb(client: BlockingClient) -> float:
    """Resident memory of the server's process, where the system tells it (Linux)."""
    try:
        status = Path(f"/proc/{client.pid}/status").read_text()
    except OSError:
        return float("nan")
    (kilobytes,) = [row.split()[1] for row in status.splitlines() if row.startswith("VmRSS")]
    return int(kilobytes) / 1024


def show(name: str, figures: list[float]) -> None:
    start, write, read, resident = figures
    print(
        f"{name:<38}{start * 1000:>9.0f}{write * 1000:>11.2f}{read * 1000:>11.2f}{resident:>14.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
