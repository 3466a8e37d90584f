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
from bench.measuring import percentile
from bench.peers import PACKAGE, PeerMissing, install_peer
from bench.tables import Cell, show
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

    def row(self, what: str, load: Load) -> list[Cell]:
        took_ms = [1000 * each for each in self.took_s] or [0.0]
        return [
            f"{what}, {load}",
            len(self.acknowledged),
            len(self.present),
            self.lost,
            self.doubled,
            self.errors,
            [percentile(took_ms, 0.5), percentile(took_ms, 0.99)],
            len(self.acknowledged) / self.elapsed_s,
        ]


COLUMNS = [
    "clients x writes",
    "acknowledged",
    "there",
    "lost",
    "twice",
    "errors",
    "ms p50 / p99",
    "writes a second",
]


def main() -> int:
    parser = argparse.ArgumentParser(description="Write to one memory from several processes.")
    parser.add_argument("--peers", action="store_true", help="with server-memory, from npm")
    with_peers = parser.parse_args().peers
    show("contention.guest", ["ms p50", "owner", "guest", "a guest adds"], guest_costs())
    ours = {load: measure("convmem", convmem, load) for load in LOADS}
    one_at_a_time = [load for load in LOADS if load.in_flight == 1]
    rows = [outcome.row("convmem", load) for load, outcome in ours.items()]
    rows += [measure("SQLite", sqlite, load).row("SQLite", load) for load in one_at_a_time]
    if with_peers:
        rows += peer_rows(one_at_a_time)
    show("contention.writes", COLUMNS, rows)
    wrong = any(each.lost or each.doubled or each.errors for each in ours.values())
    return 1 if wrong else 0


def peer_rows(loads: list[Load]) -> list[list[Cell]]:
    """Those of server-memory, none where it cannot be installed."""
    with tempfile.TemporaryDirectory(prefix="convmem-contention-") as folder:
        try:
            program = install_peer(Path(folder))
        except PeerMissing as problem:
            print(f"{PACKAGE}: {problem}, not measured", flush=True)
            return []
        work = partial(server_memory, program)
        return [measure("server-memory", work, load).row("server-memory", load) for load in loads]


def guest_costs() -> list[list[Cell]]:
    """One call at a time, of the owner and of a guest in turn, by a client that does little."""
    rows: list[list[Cell]] = []
    with (
        tempfile.TemporaryDirectory(prefix="convmem-contention-") as folder,
        LeanClient(server_command(Path(folder))) as owner,
    ):
        written = owner.call("write_message", MESSAGE)
        with LeanClient(server_command(Path(folder))) as guest:
            guest.call("get_system_health", {})  # joined
            window = {"view": "content", "message_id": written["message_id"]}
            calls: list[tuple[str, dict[str, str]]] = [
                ("read_messages", window),
                ("write_message", MESSAGE),
            ]
            for tool, arguments in calls:
                pairs = [
                    (owner.timed_s(tool, arguments), guest.timed_s(tool, arguments))
                    for _ in range(GUEST_CALLS)
                ]
                own_ms, guests_ms = (
                    1000 * statistics.median(each) for each in zip(*pairs, strict=True)
                )
                rows.append([tool, own_ms, guests_ms, guests_ms - own_ms])
    return rows


def measure(
    what: str, work: Callable[[Path, Load], Coroutine[Any, Any, Outcome]], load: Load
) -> Outcome:
    """What became of a load."""
    print(f"{what}, {load}", flush=True)
    with tempfile.TemporaryDirectory(prefix="convmem-contention-") as folder:
        return asyncio.run(work(Path(folder), load))


async def convmem(folder: Path, load: Load) -> Outcome:
    command = server_command(folder)
    clients = await asyncio.gather(*(Client.start(command) for _ in range(load.clients)))

    async def write(client: Client, name: str) -> ToolResult:
        message = {"session_id": "s", "role": "user", "content": name + TEXT}
        return await client.call_tool("write_message", message)

    for client in clients:  # joined, and warm
        await client.call_tool("get_system_health", {})
    outcome = await written(clients, load, write)
    outcome.present = [
        message["content"].removesuffix(TEXT) async for message in everything(clients[-1])
    ]
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


async def everything(client: Client) -> AsyncIterator[dict[str, Any]]:
    """All messages of the session."""
    asked: dict[str, object] = {"view": "history", "session_id": "s", "limit": PAGE_ITEMS_MAX}
    asked["max_bytes"] = REPLY_BYTES_MAX
    while True:
        result = await client.call_tool("read_messages", asked)
        if result.is_error:
            sys.exit(f"read_messages: {result.text}")
        page = json.loads(result.text)
        for message in page["messages"]:
            yield message
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
