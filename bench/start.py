"""How soon a host is greeted: ``initialize`` against the least that any asyncio server costs.

    python -m bench.start [--rounds N]

Each round starts ``convmem serve`` and takes the time to the answer to ``initialize``, then runs
``python -c "import asyncio, json"``, and gives the ratio of the two; medians over all rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.tables import show
from convmem.cli.launch import server_command

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "0"},
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Time the greeting of a host.")
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    if rounds < 1:
        parser.error("--rounds: at least 1 is needed")
    with tempfile.TemporaryDirectory(prefix="convmem-start-") as folder:
        greet_s(Path(folder))  # writes the byte code, makes the store
        pairs = [(greet_s(Path(folder)), floor_s()) for _ in range(rounds)]
    greetings, floors = zip(*pairs, strict=True)
    ratio = statistics.median(greeting / floor for greeting, floor in pairs)
    show(
        "start.greeting",
        [f"median of {rounds} pairs", "figure"],
        [
            ["initialize answered, ms", 1000 * statistics.median(greetings)],
            ["python -c 'import asyncio, json', ms", 1000 * statistics.median(floors)],
            ["ratio of each pair", ratio],
        ],
    )
    return 0


def greet_s(data_dir: Path) -> float:
    """Seconds from the start of a server to its answer to ``initialize``."""
    began = time.perf_counter()
    server = subprocess.Popen(
        server_command(data_dir), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        server.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
        took = time.perf_counter() - began
        server.stdin.close()
    return took


def floor_s() -> float:
    """Seconds that Python takes to import what any such server imports, and to end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import asyncio, json"], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
