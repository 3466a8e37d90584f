"""What a host waits for: calls over stdio, one at a time and many, and a server's start.

    python -m bench.wire [--full]

A write of 300 bytes is timed in turns with the same bytes appended and flushed raw; then 32
writes under way at a time and a page of 50 messages. Then, at 10,000 and 100,000 messages of the
seeded corpus (with --full also 1,000,000) and a snapshot: from the start of a server to its answer
to ``initialize`` and to the first call; a write, a page, a search for a word and for a question.
The semantic extra is off: ``bench.semantic`` has what it adds.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.corpus import fill, messages, question, save_snapshot, sentence
from bench.lean import LeanClient
from bench.measuring import p50_p95, timed_ms
from bench.tables import Cell, show
from convmem.cli.launch import server_command

TEXT = "x" * 300
ROUNDS = 1000
PAGES = 200
STARTS = 9
SEARCHES = 100
IN_FLIGHT = 32
FRAME = bytes(392)  # as long as what the log writes of the message
MESSAGE = {"session_id": "s", "role": "user", "content": TEXT}
PAGE = {"view": "history", "session_id": "session-7", "limit": 50, "max_bytes": 1 << 16}


def main() -> int:
    parser = argparse.ArgumentParser(description="Time calls over stdio.")
    parser.add_argument("--full", action="store_true", help="1,000,000 messages as well")
    counts = [10_000, 100_000, *([1_000_000] * parser.parse_args().full)]
    show_writes()
    with_stores = [measure_store(count) for count in counts]
    show(
        "wire.starts",
        ["messages", "initialize, ms", "first call, ms"],
        [[count, *starts] for count, (starts, _) in zip(counts, with_stores, strict=True)],
    )
    show(
        "wire.calls",
        [
            "messages; ms p50 / p95",
            "write 300 bytes",
            "page of 50",
            "search, one word",
            "search, eight words",
        ],
        [[count, *calls] for count, (_, calls) in zip(counts, with_stores, strict=True)],
    )
    return 0


def show_writes() -> None:
    """A write beside the same bytes appended raw, then many at a time."""
    with (
        tempfile.TemporaryDirectory(prefix="convmem-wire-") as folder,
        raw_file(Path(folder, "raw")) as raw,
        server(Path(folder, "memory")) as client,
    ):
        client.call("write_message", MESSAGE)
        pairs = [(raw_ms(raw, n), call_ms(client, "write_message", MESSAGE)) for n in range(ROUNDS)]
        rate = client.rate("write_message", MESSAGE, 4 * ROUNDS, IN_FLIGHT)
    raws, writes = ([*each] for each in zip(*pairs, strict=True))
    more_ms = statistics.median(writes) - statistics.median(raws)
    one_at_a_time = 1000 / statistics.median(writes)
    show(
        "wire.writes",
        ["300 bytes, one client", "figure"],
        [
            ["append and fdatasync of the same bytes, ms p50 / p95", p50_p95(raws)],
            ["write_message, ms p50 / p95", p50_p95(writes)],
            ["more than raw, ms of p50", more_ms],
            ["one at a time, a second", one_at_a_time],
            [f"{IN_FLIGHT} under way, a second", rate],
            [f"{IN_FLIGHT} under way, times one at a time", rate / one_at_a_time],
        ],
    )


@contextmanager
def raw_file(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    yield descriptor
    os.close(descriptor)


def raw_ms(descriptor: int, number: int) -> float:
    def append() -> None:
        os.pwrite(descriptor, FRAME, number * len(FRAME))
        os.fdatasync(descriptor)

    return timed_ms(append)[1]


def server(store: Path) -> LeanClient:
    return LeanClient([*server_command(store), "--semantic", "off"])


def call_ms(client: LeanClient, tool: str, arguments: Mapping[str, object]) -> float:
    return 1000 * client.timed_s(tool, arguments)


def measure_store(count: int) -> tuple[list[Cell], list[Cell]]:
    """Medians of starts, and quantiles of calls, in milliseconds, with so many messages there."""
    print(f"{count:,} messages", flush=True)
    with tempfile.TemporaryDirectory(prefix="convmem-wire-") as folder:
        store = Path(folder, "memory")
        fill(store, messages(count))
        with server(store) as client:  # indexes, and saves at its end
            client.call("search_messages", {"query": "anything"})
        save_snapshot(store)
        starts = [start_ms(store) for _ in range(STARTS)]
        words = random.Random(count)
        asked = {
            "word": [{"query": sentence(words, 1)[0]} for _ in range(SEARCHES)],
            "question": [{"query": question(n)} for n in range(SEARCHES)],
        }
        with server(store) as client:
            client.call("search_messages", {"query": "anything"})
            calls = [
                [call_ms(client, "write_message", MESSAGE) for _ in range(PAGES)],
                [call_ms(client, "read_messages", PAGE) for _ in range(PAGES)],
                *(
                    [call_ms(client, "search_messages", each) for each in queries]
                    for queries in asked.values()
                ),
            ]
    return [statistics.median(each) for each in zip(*starts, strict=True)], [*map(p50_p95, calls)]


def start_ms(store: Path) -> tuple[float, float]:
    """From the start of a server to its greeting, and to its first answer to a call."""
    client, greeted_ms = timed_ms(lambda: server(store))
    with client:
        _, first_ms = timed_ms(
            lambda: client.call("read_messages", {"view": "sessions", "limit": 5})
        )
    return greeted_ms, greeted_ms + first_ms


if __name__ == "__main__":
    sys.exit(main())
