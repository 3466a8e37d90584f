"""What a server holds in memory: started, having searched, and with a model loaded.

    python -m bench.memory [--full]

A server process over 10,000 and 100,000 messages of the seeded corpus (and 1,000,000 with
--full), restored from a snapshot with the index in it. Resident memory once it has answered a
read, then after 100 searches; "mapped" is the part of it that is in files
too, which the system takes back when others need it. Where convmem[semantic] is installed, the
same without and with its model, at 1,000 messages: to embed many takes minutes. Linux only.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.corpus import fill, messages, question
from bench.lean import LeanClient
from bench.measuring import mapped_mb, resident_mb
from bench.tables import Cell, show
from convmem.cli.launch import server_command
from convmem.semantic import UNIVERSAL, is_installed

SEARCHES = 100
EMBEDDED_MESSAGES = 1000
POLL_S = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the memory of a server.")
    parser.add_argument("--full", action="store_true", help="1,000,000 messages as well")
    counts = [10_000, 100_000, *([1_000_000] * parser.parse_args().full)]
    columns = ["messages; MB", "started", "of it mapped", "searched", "of it mapped"]
    show("memory.words", columns, [[count, *measure(count, "off")] for count in counts])
    if is_installed(UNIVERSAL):
        rows = [[name, *measure(EMBEDDED_MESSAGES, name)] for name in ("off", "auto")]
        show(
            "memory.model", [f"--semantic, {EMBEDDED_MESSAGES:,} messages; MB", *columns[1:]], rows
        )
    return 0


def measure(count: int, semantic: str) -> list[Cell]:
    """Resident memory and the mapped part of it, at the start and after searches."""
    print(f"{count:,} messages, --semantic {semantic}", flush=True)
    with tempfile.TemporaryDirectory(prefix="convmem-memory-") as folder:
        store = Path(folder)
        fill(store, messages(count))
        command = [*server_command(store), "--semantic", semantic]
        with LeanClient(command) as client:  # indexes, embeds, and saves at its end
            while "embedded" in client.call("search_messages", {"query": "anything"}):
                time.sleep(POLL_S)
        with LeanClient(command) as client:
            client.call("read_messages", {"view": "sessions", "limit": 5})
            started = [resident_mb(client.pid), mapped_mb(client.pid)]
            for number in range(SEARCHES):
                client.call("search_messages", {"query": question(number)})
            return [*started, resident_mb(client.pid), mapped_mb(client.pid)]


if __name__ == "__main__":
    sys.exit(main())
