"""Several clients that write to one memory at the same time, each through a server of its own.

    python -m bench.contention [--peers]

For each load: what was acknowledged, what is there in the end, and what is there twice or not
at all; latency of a write and writes a second; and first what a guest adds to a call, in pairs
with the owner's own. Beside it SQLite (WAL, synchronous FULL, 5 s
busy timeout, one process a client), and with --peers @modelcontextprotocol/server-memory,
installed with npm into a temporary folder: it keeps no lock, which is why it is here.
Exit status 1 if convmem lost, doubled or refused anything.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.lean import LeanClient
from bench.peers import PACKAGE, install_peer
from convmem.cli.launch import server_command
from convmem.limits import PAGE_ITEMS_MAX, REPLY_BYTES_MAX
from convmem.protocol import Client, ToolResult

TEXT = "x" * 300
MESSAGE = {"session_id": "s", "role": "user", "content": TEXT}
GUEST_CALLS = 2000
SQLITE_BUSY_S = 5.0


@dataclass(frozen=True, slots=True)
class Load:
    """So many clients, each of which writes so many messages, so many at a time."""

    clients: int
    writes: int
    in_flight: int = 1

    def __str__(self) -> str:
        at_once = f", {self.in_flight} at a time" if self.in_flight > 1 else ""
        return f"{self.clients} x {self.writes}{at_once}"


LOADS = (Load(1, 500), Load(4, 500), Load(8, 200), Load(1, 500, 20), Load(4, 500, 20))


@dataclass(slots=True)
class Outcome:
    """What became of a load: seconds of every acknowledged write, and the names found after."""

    took_s: list[float]
    elapsed_s: float
    acknowledged: list[str]
    present: list[str]
    errors: int

    @property
    def lost(self) -> int:
        return len(set(self.acknowledged) - set(self.present))

    @property
    def doubled(self) -> int:
        return sum(count - 1 for count in Counter(self.present).values())

    def row(self) -> str:
        p50, p99 = (self._quantile(share) * 1000 for share in (0.5, 0.99))
        return (
            f"{len(self.acknowledged):6} {len(self.present):8} {self.lost:5} {self.doubled:7} "
            f"{self.errors:6} {p50:8.2f} {p99:8.2f} {len(self.acknowledged) / self.elapsed_s:9.0f}"
        )

    def _quantile(self, share: float) -> float:
        ordered = sorted(self.took_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Write to one memory from several processes.")
    parser.add_argument("--peers", action="store_true", help="with server-memory, from npm")
    with_peers = parser.parse_args().peers
    show_guest_cost()
    print(f"{'':10} {'load':>22} acked  present  lost doubled errors   p50 ms   p99 ms  writes/s")
    sound = True
    for load in LOADS:
        ours = measure(convmem, load)
        show("convmem", load, ours)
        sound = sound and not (ours.lost or ours.doubled or ours.errors)
        if load.in_flight == 1:
            show("sqlite", load, measure(sqlite, load))
    if with_peers and shutil.which("npm"):
        with tempfile.TemporaryDirectory(prefix="convmem-contention-") as folder:
            program = install_peer(Path(folder))
            for load in LOADS[:3]:
                show("server-mem", load, measure(partial(server_memory, program), load))
    elif with_peers:
        print(f"{PACKAGE}: npm is not here, not measured")
    return 0 if sound else 1


def show_guest_cost() -> None:
    """One call at a time, of the owner and of a guest in turn, by a client that does little."""
    with (
        tempfile.TemporaryDirectory(prefix="convmem-contention-") as folder,
        LeanClient(server_command(Path(folder))) as owner,
    ):
        written = owner.call("write_message", MESSAGE)
        with LeanClient(server_command(Path(folder))) as guest:
            guest.call("get_system_health", {})  # joined
            window = {"view": "content", "message_id": written["message_id"]}
            for tool, arguments in (("read_messages", window), ("write_message", MESSAGE)):
                pairs = [
                    (owner.timed_s(tool, arguments), guest.timed_s(tool, arguments))
                    for _ in range(GUEST_CALLS)
                ]
                own_ms, guests_ms = (
                    1000 * statistics.median(each) for each in zip(*pairs, strict=True)
                )
                print(
                    f"{tool:14} owner {own_ms:.2f} ms, guest {guests_ms:.2f} ms, "
                    f"a guest adds {guests_ms - own_ms:.2f} ms (medians of {GUEST_CALLS})"
                )


def measure(work: Callable[[Path, Load], Coroutine[Any, Any, Outcome]], load: Load) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="convmem-contention-") as folder:
        return asyncio.run(work(Path(folder), load))


def show(what: str, load: Load, outcome: Outcome) -> None:
    print(f"{what:10} {load!s:>22} {outcome.row()}", flush=True)


async def convmem(folder: Path, load: Load) -> Outcome:
    command = server_command(folder)
    clients = await asyncio.gather(*(Client.start(command) for _ in range(load.clients)))

    async def write(client: Client, name: str) -> ToolResult:
        message = {"session_id": "s", "role": "user", "content": name + TEXT}
        return await client.call_tool("write_message", message)

    for client in clients:  # joined, and warm
        await client.call_tool("get_system_health", {})
    outcome = await written(clients, load, write)
    outcome.present = [name async for name in everything(clients[-1])]
    await asyncio.gather(*(client.close() for client in clients))
    return outcome


async def server_memory(program: list[str], folder: Path, load: Load) -> Outcome:
    environment = os.environ | {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    starting = (Client.start(program, env=environment) for _ in range(load.clients))
    clients = await asyncio.gather(*starting)

    async def write(client: Client, name: str) -> ToolResult:
        entity = {"name": name, "entityType": "message", "observations": [TEXT]}
        return await client.call_tool("create_entities", {"entities": [entity]})

    outcome = await written(clients, load, write)
    await asyncio.gather(*(client.close() for client in clients))
    for line in (folder / "memory.jsonl").read_text().splitlines():
        try:
            outcome.present.append(json.loads(line)["name"])
        except ValueError:
            outcome.errors += 1
    return outcome


async def written(
    clients: list[Client], load: Load, write: Callable[[Client, str], Awaitable[ToolResult]]
) -> Outcome:
    """The load, by the clock of whoever waits for each answer."""
    outcome = Outcome([], 0.0, [], [], 0)

    async def write_some(client: Client, names: Iterable[str]) -> None:
        for name in names:
            began_s = time.perf_counter()
            result = await write(client, name)
            if result.is_error:
                outcome.errors += 1
            else:
                outcome.took_s.append(time.perf_counter() - began_s)
                outcome.acknowledged.append(name)

    began_s = time.perf_counter()
    await asyncio.gather(
        *(
            write_some(client, [f"{at}.{n} " for n in range(lane, load.writes, load.in_flight)])
            for at, client in enumerate(clients)
            for lane in range(load.in_flight)
        )
    )
    outcome.elapsed_s = time.perf_counter() - began_s
    return outcome


async def everything(client: Client) -> AsyncIterator[str]:
    """The names of all messages."""
    asked: dict[str, object] = {"view": "history", "session_id": "s", "limit": PAGE_ITEMS_MAX}
    asked["max_bytes"] = REPLY_BYTES_MAX
    while True:
        page = json.loads((await client.call_tool("read_messages", asked)).text)
        for message in page["messages"]:
            yield message["content"].removesuffix(TEXT)
        if "next_cursor" not in page:
            return
        asked["cursor"] = page["next_cursor"]


async def sqlite(folder: Path, load: Load) -> Outcome:
    path = folder / "messages.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, content TEXT)")
    connection.close()
    start = multiprocessing.Barrier(load.clients + 1)
    results: multiprocessing.Queue[list[tuple[str, float | None]]] = multiprocessing.Queue()
    workers = [
        multiprocessing.Process(target=insert, args=(path, at, load.writes, start, results))
        for at in range(load.clients)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    began_s = time.perf_counter()
    told = [each for _ in workers for each in results.get()]
    elapsed_s = time.perf_counter() - began_s
    for worker in workers:
        worker.join()
    with sqlite3.connect(path) as connection:
        present = [content for (content,) in connection.execute("SELECT content FROM messages")]
    connection.close()
    took_s = [took for _, took in told if took is not None]
    acknowledged = [name for name, took in told if took is not None]
    names = [content.removesuffix(TEXT) for content in present]
    return Outcome(took_s, elapsed_s, acknowledged, names, len(told) - len(took_s))


def insert(path: Path, at: int, writes: int, start: Any, results: Any) -> None:
    connection = sqlite3.connect(path, timeout=SQLITE_BUSY_S, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    told: list[tuple[str, float | None]] = []
    start.wait()
    for number in range(writes):
        name = f"{at}.{number} "
        began_s = time.perf_counter()
        try:
            connection.execute("INSERT INTO messages (content) VALUES (?)", (name + TEXT,))
        except sqlite3.OperationalError:
            told.append((name, None))
        else:
            told.append((name, time.perf_counter() - began_s))
    connection.close()
    results.put(told)


if __name__ == "__main__":
    sys.exit(main())
