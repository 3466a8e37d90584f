"""What a host waits for: calls over stdio, one at a time and many, and a server's start.

    python -m bench.wire [--full]

A write of 300 bytes is timed in turns with the same bytes appended and flushed raw; then 32
writes under way at a time, a page of 50 messages, and at 10,000 and 100,000 messages (with
--full also 1,000,000) of the seeded corpus: spawn to the answer to ``initialize`` and to the
first call, a search for words and for a question, resident memory.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.lean import LeanClient
from bench.messages import fill, messages, save_snapshot
from convmem.cli.launch import server_command
from convmem.message import Message

TEXT = "x" * 300
ROUNDS = 1000
IN_FLIGHT = 32
WORDS = 20_000
SEED = 20
MESSAGE = {"session_id": "s", "role": "user", "content": TEXT}
PAGE = {"view": "history", "session_id": "s", "limit": 50, "max_bytes": 1 << 16}


def main() -> int:
    parser = argparse.ArgumentParser(description="Time calls over stdio.")
    parser.add_argument("--full", action="store_true", help="1,000,000 messages as well")
    full = parser.parse_args().full
    show_writes()
    print("messages   initialize  first call   search words p50/p95   question p50/p95   resident")
    for count in (10_000, 100_000, *([1_000_000] if full else [])):
        show_store(count)
    return 0


def show_writes() -> None:
    """A write beside the same bytes appended raw, then many at a time, then a page."""
    with tempfile.TemporaryDirectory(prefix="convmem-wire-") as folder:
        raw = os.open(Path(folder, "raw"), os.O_RDWR | os.O_CREAT, 0o600)
        with LeanClient(server_command(Path(folder, "memory"))) as client:
            client.call("write_message", MESSAGE)
            pairs = [
                (raw_s(raw, n * 392, bytes(392)), client.timed_s("write_message", MESSAGE))
                for n in range(ROUNDS)
            ]
            raw_ms = 1000 * statistics.median(each for each, _ in pairs)
            write_ms = 1000 * statistics.median(each for _, each in pairs)
            rate = client.rate("write_message", MESSAGE, 4 * ROUNDS, IN_FLIGHT)
            page_ms = 1000 * statistics.median(
                client.timed_s("read_messages", PAGE) for _ in range(200)
            )
        os.close(raw)
    print(f"append and flush 392 bytes raw   {raw_ms:8.3f} ms")
    print(f"write_message of 300 bytes       {write_ms:8.3f} ms, {write_ms - raw_ms:.3f} ms more")
    times = rate * write_ms / 1000
    print(
        f"{IN_FLIGHT} writes under way           {rate:10.0f} a second, {times:.1f} x one at a time"
    )
    print(f"read_messages, 50 messages       {page_ms:8.3f} ms")


def raw_s(fd: int, offset: int, data: bytes) -> float:
    began_s = time.perf_counter()
    os.pwrite(fd, data, offset)
    os.fdatasync(fd)
    return time.perf_counter() - began_s


def show_store(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="convmem-wire-") as folder:
        store = Path(folder, "memory")
        fill(store, corpus(count))
        with LeanClient(server_command(store)) as client:  # indexes, and saves at its end
            client.call("search_messages", {"query": "anything"})
        save_snapshot(store)
        starts = [start_ms(store) for _ in range(5)]
        greeted_ms, called_ms = (statistics.median(each) for each in zip(*starts, strict=True))
        queries = random.Random(SEED + 1)
        with LeanClient(server_command(store)) as client:
            words = [{"query": word(queries)} for _ in range(100)]
            questions = [{"query": " ".join(sentence(queries, 8))} for _ in range(100)]
            told = [
                quantiles([1000 * client.timed_s("search_messages", each) for each in asked])
                for asked in (words, questions)
            ]
            resident = resident_mb(client.pid)
    print(
        f"{count:>9,}  {greeted_ms:7.0f} ms  {called_ms:7.0f} ms   {told[0]:>20}   {told[1]:>16}"
        f"   {resident:6.0f} MB"
    )


def start_ms(store: Path) -> tuple[float, float]:
    """From the start of a server to its greeting, and to its first answer to a call."""
    began_s = time.perf_counter()
    with LeanClient(server_command(store)) as client:
        greeted_s = time.perf_counter()
        client.call("read_messages", {"view": "sessions", "limit": 5})
        called_s = time.perf_counter()
    return 1000 * (greeted_s - began_s), 1000 * (called_s - began_s)


def corpus(count: int) -> Iterator[Message]:
    """Messages of some 30 words each, drawn by Zipf's law: the same for the same seed."""
    choices = random.Random(SEED)
    for message in messages(count):
        yield replace(message, content=" ".join(sentence(choices, 30)))


def sentence(choices: random.Random, length: int) -> list[str]:
    return [word(choices) for _ in range(length)]


def word(choices: random.Random) -> str:
    """One of the words, the n-th of them as often as 1/n, made of syllables."""
    rank = int(WORDS ** choices.random())
    letters = "bdfgklmnprstvz"
    text = ""
    while rank:
        rank, digit = divmod(rank, len(letters) * 5)
        text += letters[digit // 5] + "aeiou"[digit % 5]
    return text or "ba"


def quantiles(took_ms: list[float]) -> str:
    ordered = sorted(took_ms)
    return f"{ordered[len(ordered) // 2]:.1f} / {ordered[int(len(ordered) * 0.95)]:.1f} ms"


def resident_mb(pid: int) -> float:
    """Resident memory of a process, on Linux."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


if __name__ == "__main__":
    sys.exit(main())
