"""Long mixed use by several clients: does anything grow, drift or get lost?

    python -m bench.soak [--minutes N]

Four clients, each through a server of its own (one owner, three guests), write, update, delete,
read, search, set and get facts, and now and then rebuild the store, as fast as they are answered.
Each keeps at most 2,500 messages, so that what lives in the store stays bounded. Samples tell of
memory, descriptors, the size of the store and latencies; in a run of ten minutes or more the last
third of them is held against the third before. In the end every message and fact must be there as
it was acknowledged last, once, and nothing that was deleted. Exit status 1 if anything was lost,
doubled or refused, if a server did not answer, or if something drifts. Linux, for memory and
descriptors.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contention import everything
from bench.corpus import question, sentence
from bench.measuring import MB, percentile, resident_mb
from bench.tables import Cell, show
from convmem.cli.launch import server_command
from convmem.protocol import Client, ClientError, ToolResult

CLIENTS = 4
LIVE = 2500
KEYS = 50
WORDS = 30
JUDGED_MINUTES_MIN = 10
SAMPLES, SAMPLES_UNJUDGED = 30, 5
SHARES = {
    "write": 5,
    "update": 2,
    "delete": 1,
    "history": 2,
    "search": 2,
    "set_fact": 3,
    "get_fact": 3,
    "rebuild": 0.002,
}


class User:
    """A client that does one thing after another, and knows what must be there because of it."""

    def __init__(self, number: int, client: Client) -> None:
        self.client = client
        self.number = number
        self.choices = random.Random(number)
        self.messages: dict[str, tuple[str, int]] = {}  # content and revision by id, oldest first
        self.facts: dict[str, str] = {}
        self.took_s: defaultdict[str, list[float]] = defaultdict(list)
        self.calls = 0
        self.refused: list[str] = []

    async def go_on(self, ends_s: float) -> None:
        kinds, weights = list(SHARES), list(SHARES.values())
        await self.write()
        while time.monotonic() < ends_s:
            kind = self.choices.choices(kinds, weights)[0]
            if kind == "write" and len(self.messages) >= LIVE:
                kind = "delete"
            began_s = time.monotonic()
            await getattr(self, kind)()
            self.took_s[kind].append(time.monotonic() - began_s)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer, empty where the call was refused."""
        self.calls += 1
        result = await self.client.call_tool(tool, arguments)
        if result.is_error:
            self.refused.append(f"{tool}: {result.text}")
            return {}
        answer: dict[str, Any] = json.loads(result.text)
        return answer

    def text(self) -> str:
        return f"{self.number}.{self.calls} " + " ".join(sentence(self.choices, WORDS))

    async def write(self) -> None:
        content = self.text()
        if told := await self.call("write_message", session_id="s", role="user", content=content):
            self.messages[told["message_id"]] = content, told["revision"]

    async def update(self) -> None:
        message_id = self.choices.choice(list(self.messages))
        _, revision = self.messages[message_id]
        content = self.text()
        changed = {"expected_revision": revision, "content": content}
        if told := await self.call("update_message", message_id=message_id, **changed):
            self.messages[message_id] = content, told["revision"]

    async def delete(self) -> None:
        oldest, *others = self.messages
        if others and await self.call("delete_message", message_id=oldest):
            del self.messages[oldest]

    async def history(self) -> None:
        await self.call("read_messages", view="history", session_id="s", limit=20)

    async def search(self) -> None:
        await self.call("search_messages", query=question(self.calls))

    async def set_fact(self) -> None:
        key, value = self.key(), str(self.calls)
        if await self.call("memory_set", key=key, value=value):
            self.facts[key] = value

    async def get_fact(self) -> None:
        if self.facts:
            await self.call("memory_get", key=self.choices.choice(list(self.facts)))

    async def rebuild(self) -> None:
        await self.call("rebuild_index")

    def key(self) -> str:
        return f"client-{self.number}/{self.choices.randrange(KEYS)}"


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one time, and the latencies since the sample before.

    ``owned_mb`` is what the owner says that its state, the index of messages and its vectors
    occupy, None while that index is being made.
    """

    minute: float
    calls: int
    owner_mb: float | None
    owned_mb: float | None
    owner_descriptors: int | None
    guest_mb: float | None
    guest_descriptors: int | None
    store_mb: float
    write_ms: list[float]
    search_ms: list[float]

    def row(self) -> list[Cell]:
        return [getattr(self, name) for name in self.__slots__]


COLUMNS = [
    "minute",
    "calls",
    "owner, MB",
    "of it what it holds",
    "its descriptors",
    "largest guest, MB",
    "its descriptors ",
    "store, MB",
    "write, ms p50 / p99",
    "search, ms p50 / p99",
]

# What is judged: the figure, and how much more of it is no drift, as a share and as such.
JUDGED: dict[str, tuple[Callable[[Sample], float | None], float, float]] = {
    "memory of the owner, MB": (lambda each: each.owner_mb, 0.05, 2),
    "memory of the largest guest, MB": (lambda each: each.guest_mb, 0.05, 2),
    "descriptors of the owner": (lambda each: each.owner_descriptors, 0, 1),
    "descriptors of a guest": (lambda each: each.guest_descriptors, 0, 1),
    "write, ms p50": (lambda each: each.write_ms[0], 0.25, 0.2),
    "search, ms p50": (lambda each: each.search_ms[0], 0.25, 0.2),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Use a memory for a while.")
    parser.add_argument("--minutes", type=float, default=30)
    minutes = parser.parse_args().minutes
    if not minutes > 0:
        parser.error("--minutes: more than 0 is needed")
    with tempfile.TemporaryDirectory(prefix="convmem-soak-") as folder:
        try:
            return asyncio.run(soak(Path(folder), minutes))
        except ClientError as problem:
            print(f"a server did not answer: {problem}", flush=True)
            return 1


async def soak(store: Path, minutes: float) -> int:
    """Use the memory, show what came of it; the exit status."""
    clients: list[Client] = []
    for _ in range(CLIENTS):
        clients.append(await Client.start(server_command(store)))
        await clients[-1].call_tool("get_system_health", {})  # the first is the owner
    users = [User(number, client) for number, client in enumerate(clients)]
    try:
        samples = await used(store, users, minutes)
        wrong = await missing(users)
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    show("soak.minutes", COLUMNS, [sample.row() for sample in samples])
    drifts = judge(samples, minutes)
    kept = sum(len(user.messages) for user in users), sum(len(user.facts) for user in users)
    refused = [each for user in users for each in user.refused]
    show(
        "soak.kept",
        ["in the end", "count"],
        [
            ["calls", sum(user.calls for user in users)],
            ["refused", len(refused)],
            ["messages that must be there", kept[0]],
            ["facts that must be there", kept[1]],
            *wrong,
        ],
    )
    print(*refused[:10], sep="\n", flush=True)
    return 1 if drifts or refused or any(count for _, count in wrong) else 0


async def used(store: Path, users: list[User], minutes: float) -> list[Sample]:
    """Let the users go on for so long; the samples taken meanwhile."""
    began_s = time.monotonic()
    count = SAMPLES if minutes >= JUDGED_MINUTES_MIN else SAMPLES_UNJUDGED
    using = [asyncio.create_task(user.go_on(began_s + 60 * minutes)) for user in users]
    samples: list[Sample] = []
    try:
        while running := [task for task in using if not task.done()]:
            done, _ = await asyncio.wait(
                running, timeout=60 * minutes / count, return_when=asyncio.FIRST_EXCEPTION
            )
            for task in done:
                task.result()
            samples.append(await sample((time.monotonic() - began_s) / 60, store, users))
            print(f"minute {samples[-1].minute:.1f}, {samples[-1].calls:,} calls", flush=True)
    finally:
        for task in using:
            task.cancel()
    return samples[:count]


async def sample(minute: float, store: Path, users: list[User]) -> Sample:
    health = await users[0].call("get_system_health")
    pids = [user.client.pid or 0 for user in users]
    memory = [resident_mb(pid) for pid in pids]
    descriptors = [open_descriptors(pid) for pid in pids]
    return Sample(
        round(minute, 1),
        sum(user.calls for user in users),
        memory[0],
        owned_mb(health),
        descriptors[0],
        max((each for each in memory[1:] if each is not None), default=None),
        max((each for each in descriptors[1:] if each is not None), default=None),
        sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / MB,
        latencies(users, "write"),
        latencies(users, "search"),
    )


def owned_mb(health: dict[str, Any]) -> float | None:
    match health:
        case {"memory_bytes": {"state": int(state), "search": int(index)}, "semantic": semantic}:
            return (state + index + int(semantic.get("memory_bytes", 0))) / MB
        case _:
            return None


def open_descriptors(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def latencies(users: list[User], kind: str) -> list[float]:
    """Milliseconds, median and 99th percentile, since they were asked for last."""
    took_ms = [1000 * each for user in users for each in user.took_s.pop(kind, [])] or [0.0]
    return [percentile(took_ms, 0.5), percentile(took_ms, 0.99)]


def judge(samples: list[Sample], minutes: float) -> list[str]:
    """Show what drifts between the last two thirds of the samples, and name it."""
    third = len(samples) // 3
    rows: list[list[Cell]] = []
    drifts = []
    for name, (figure, share, more) in JUDGED.items():
        taken = [value for each in samples[third:] if (value := figure(each)) is not None]
        if minutes < JUDGED_MINUTES_MIN or not taken:
            rows.append([name, None, None, "not judged"])
            continue
        middle, last = (statistics.median(part) for part in (taken[:third], taken[third:]))
        if last > middle * (1 + share) + more:
            drifts.append(name)
        rows.append([name, middle, last, "drifts" if name in drifts else "flat"])
    show("soak.verdicts", ["median of", "middle third", "last third", "verdict"], rows)
    return drifts


async def missing(users: list[User]) -> list[list[Cell]]:
    """How many messages and facts are not as they must be."""
    client = users[-1].client
    there = [(message["message_id"], message["content"]) async for message in everything(client)]
    found = dict(there)
    must = {key: content for user in users for key, (content, _) in user.messages.items()}
    facts = [
        value_of(await client.call_tool("memory_get", {"key": key})) == value
        for user in users
        for key, value in user.facts.items()
    ]
    return [
        ["lost", len(must.keys() - found)],
        ["with other content", sum(found.get(key, text) != text for key, text in must.items())],
        ["there though deleted", len(found.keys() - must)],
        ["there twice", sum(count - 1 for count in Counter(key for key, _ in there).values())],
        ["facts with another value", facts.count(False)],
    ]


def value_of(result: ToolResult) -> object:
    """The value of a fact; None where there is none."""
    return None if result.is_error else json.loads(result.text)["value"]


if __name__ == "__main__":
    sys.exit(main())
