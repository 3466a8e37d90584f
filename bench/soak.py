"""Hours of mixed use in a bounded time: does anything grow, drift or get lost?

    python -m bench.soak [--minutes N]

Four clients, each through a server of its own (one owner, three guests), write, read, search,
change facts and delete, as fast as they are answered. Each minute: resident memory and open
descriptors of the owner and the largest guest, the median and the 99th percentile of a write and
of a search, and calls so far. In the end every acknowledged message that was not deleted must be
there, once. Exit status 1 if not. Linux, for memory and descriptors.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.contention import everything
from bench.wire import resident_mb, sentence
from convmem.cli.launch import server_command
from convmem.protocol import Client

CLIENTS = 4
KEYS = 200
SHARES = {"write": 5, "history": 2, "search": 2, "set": 3, "get": 3, "delete": 1}


class User:
    """A client that does one thing after another."""

    def __init__(self, number: int, client: Client) -> None:
        self.client = client
        self.number = number
        self.choices = random.Random(number)
        self.kept: dict[str, str] = {}  # names of messages by id
        self.took_s: defaultdict[str, list[float]] = defaultdict(list)
        self.calls = 0
        self.errors = 0

    async def go_on(self, ends_s: float) -> None:
        kinds, weights = list(SHARES), list(SHARES.values())
        while time.monotonic() < ends_s:
            kind = self.choices.choices(kinds, weights)[0]
            began_s = time.monotonic()
            await getattr(self, kind)()
            self.took_s[kind].append(time.monotonic() - began_s)
            self.calls += 1

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        if result.is_error:
            self.errors += 1
            return {}
        answer: dict[str, Any] = json.loads(result.text)
        return answer

    async def write(self) -> None:
        name = f"{self.number}.{self.calls} "
        text = name + " ".join(sentence(self.choices, 30))
        told = await self.call("write_message", session_id="s", role="user", content=text)
        if told:
            self.kept[told["message_id"]] = name

    async def history(self) -> None:
        await self.call("read_messages", view="history", session_id="s", limit=20)

    async def search(self) -> None:
        await self.call("search_messages", query=" ".join(sentence(self.choices, 4)))

    async def set(self) -> None:
        key = f"key/{self.choices.randrange(KEYS)}"
        await self.call("memory_set", key=key, value=str(self.calls))

    async def get(self) -> None:
        key = f"key/{self.choices.randrange(KEYS)}"
        await self.client.call_tool("memory_get", {"key": key})

    async def delete(self) -> None:
        if self.kept:
            message_id = self.choices.choice(list(self.kept)[:100])
            if await self.call("delete_message", message_id=message_id):
                del self.kept[message_id]


def main() -> int:
    parser = argparse.ArgumentParser(description="Use a memory for a while.")
    parser.add_argument("--minutes", type=float, default=30)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory(prefix="convmem-soak-") as folder:
        return asyncio.run(soak(Path(folder), minutes))


async def soak(folder: Path, minutes: float) -> int:
    clients = [await Client.start(server_command(folder)) for _ in range(CLIENTS)]
    users = [User(number, client) for number, client in enumerate(clients)]
    for client in clients:
        await client.call_tool("get_system_health", {})
    ends_s = time.monotonic() + 60 * minutes
    print(
        "minute     calls  errors  owner MB  fds  guest MB  fds  write p50/p99 ms  search p50/p99"
    )
    using = [asyncio.create_task(user.go_on(ends_s)) for user in users]
    minute = 0
    while not all(task.done() for task in using):
        await asyncio.wait(using, timeout=60)
        minute += 1
        show(minute, users, [client.pid or 0 for client in clients])
    kept = {name for user in users for name in user.kept.values()}
    found = [content.split(" ")[0] + " " async for content in everything(clients[-1])]
    lost, twice = len(kept - set(found)), len(found) - len(set(found))
    errors = sum(user.errors for user in users)
    print(f"kept {len(kept):,}, lost {lost}, twice {twice}, refused {errors}")
    await asyncio.gather(*(client.close() for client in clients))
    return 1 if lost or twice or errors else 0


def show(minute: int, users: list[User], pids: list[int]) -> None:
    memory = [resident_mb(pid) for pid in pids]
    descriptors = [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
    told = []
    for kind in ("write", "search"):
        took = sorted(each for user in users for each in user.took_s.pop(kind, []))
        p50, p99 = (took[int(len(took) * share)] * 1000 if took else 0 for share in (0.5, 0.99))
        told.append(f"{p50:6.1f} / {p99:6.1f}")
    calls, errors = sum(user.calls for user in users), sum(user.errors for user in users)
    print(
        f"{minute:>6}{calls:>10,}{errors:>8}{memory[0]:>10.0f}{descriptors[0]:>5}"
        f"{max(memory[1:]):>10.0f}{max(descriptors[1:]):>5}   {'   '.join(told)}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
