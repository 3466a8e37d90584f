"""Short histories of processes that share a store and are killed, judged from outside.

Each history is drawn from its number: who asks what when, who is killed at which change of the
disk or which message, when it is started again. The judge knows only what was asked, what was
answered, and what is there in the end.
"""

import asyncio
import os
import random
from collections.abc import Coroutine
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest import mock

import pytest

from convmem import ids
from convmem.engine import Engine
from convmem.errors import Code, Refusal
from convmem.operations import (
    Command,
    DeleteMessage,
    Query,
    ReadHistory,
    RebuildIndex,
    UpdateMessage,
    WriteMessage,
)
from convmem.sharing.shared import SharedMemory
from convmem.state.effects import EffectTable
from tests.convmem.simulation import BUSY_TIMEOUT_S, Process, World, simulated

T = TypeVar("T")

SEED = int(os.environ.get("CONVMEM_TEST_SEED") or 0)
HISTORIES = 10_000
CALLS = 6
HOSTS = 3
# Patience with one owner, with the next, and with joining; then a call must be over.
ANSWER_S_MAX = 4 * BUSY_TIMEOUT_S
READ = ReadHistory(session_id="s", order="oldest_first", limit=1000, max_bytes=1 << 20)


@dataclass
class History:
    """What was asked and answered. Every content is unlike all others."""

    asked: set[str] = field(default_factory=set)
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    revisions: dict[int, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    maybe_deleted: set[str] = field(default_factory=set)
    refused_changes: set[str] = field(default_factory=set)
    unknown_changes: set[str] = field(default_factory=set)
    seen: list[tuple[int, str]] = field(default_factory=list)
    kills: int = 0


async def history(seed: int) -> History:
    """Live one, and judge it."""
    world = World(seed)
    told = History()
    first = world.start()
    shared_id = await write(first, "shared", told)
    assert shared_id is not None
    processes = [first, *(world.start() for _ in range(HOSTS - 1))]
    await asyncio.gather(*(host(world, process, told, shared_id) for process in processes))
    for process in world.processes:
        process.steps_left = None
    last = world.start()
    there: Any = await asyncio.wait_for(last.run(last.memory.query(READ)), ANSWER_S_MAX)
    judge(told, there["messages"], shared_id)
    return told


async def host(world: World, process: Process, told: History, shared_id: bytes) -> None:
    """Ask things of a process; start another when it is killed."""
    choices = world.choices
    for number in range(CALLS):
        await asyncio.sleep(choices.uniform(0, 0.01))
        if choices.random() < 0.3:
            process.steps_left = choices.randint(1, 12)
        name = f"{process.pid}.{number}"
        match choices.choice("wwwccccdrl"):
            case "w":
                await write(process, name, told)
            case "c":
                await change(process, name, told, shared_id)
            case "d":
                await delete(process, told, choices)
            case "r":
                await answered(process, process.memory.execute(RebuildIndex()))
            case _:
                await answered(process, process.memory.close())
                process.kill()  # it has ended: nothing of it may go on
        if process.is_dead:
            told.kills += 1
            process = world.start()


async def write(process: Process, name: str, told: History) -> bytes | None:
    told.asked.add(name)
    command = WriteMessage(session_id="s", role="user", content=name)
    answer = await answered(process, process.memory.execute(command))
    if isinstance(answer, dict):
        assert answer["created"] is True
        assert name not in told.acknowledged
        told.acknowledged[name] = ids.from_text(str(answer["message_id"]))
        return told.acknowledged[name]
    return None


async def delete(process: Process, told: History, choices: random.Random) -> None:
    """Delete one of the messages that are there for certain."""
    known = sorted(told.acknowledged.keys() - told.maybe_deleted - {"shared"})
    if not known:
        return
    name = choices.choice(known)
    told.maybe_deleted.add(name)
    command = DeleteMessage(message_id=told.acknowledged[name], expected_revision=1)
    answer = await answered(process, process.memory.execute(command))
    if isinstance(answer, dict):
        told.deleted.add(name)
    assert not isinstance(answer, Refusal) or answer.code == Code.BUSY, answer


async def change(process: Process, name: str, told: History, shared_id: bytes) -> None:
    """Read the shared message and change it, if it is still as read."""
    page: Any = await answered(process, process.memory.query(READ))
    if not isinstance(page, dict):
        return
    (read,) = (m for m in page["messages"] if m["message_id"] == ids.to_text(shared_id))
    told.seen.append((read["revision"], read["content"]))
    told.unknown_changes.add(name)
    command = UpdateMessage(
        message_id=shared_id, expected_revision=read["revision"], changes={"content": name}
    )
    answer = await answered(process, process.memory.execute(command))
    if isinstance(answer, dict):
        revision = int(str(answer["revision"]))
        assert revision == read["revision"] + 1
        assert revision not in told.revisions, "two changes of the same revision"
        told.revisions[revision] = name
        told.unknown_changes.discard(name)
    elif answer is not None and answer.code != Code.BUSY:
        assert answer.code == Code.CONFLICT, answer
        told.refused_changes.add(name)
        told.unknown_changes.discard(name)


async def answered(process: Process, asking: Coroutine[Any, Any, T]) -> T | Refusal | None:
    """The answer of a process that lives to give it, within bounds."""
    task = process.run(asking)
    waited_s = 0.0
    while not task.done() and not process.is_dead:
        assert waited_s < ANSWER_S_MAX, "a call hangs"
        await asyncio.wait({task}, timeout=0.25)
        waited_s += 0.25
    if process.is_dead:
        task.cancel()
        await asyncio.wait({task})
        return None
    error = task.exception()
    if error is None:
        return task.result()
    assert isinstance(error, Refusal), error
    return error


def judge(told: History, there: list[dict[str, object]], shared_id: bytes) -> None:
    """Hold what is there to what was asked and answered."""
    messages = {ids.from_text(str(each["message_id"])): each for each in there}
    assert len(messages) == len(there)
    shared = messages.pop(shared_id)
    contents = [str(each["content"]) for each in messages.values()]
    assert len(set(contents)) == len(contents), "a message is there twice"
    assert set(contents) <= told.asked
    for name, message_id in told.acknowledged.items():
        if name in told.deleted:
            assert message_id not in messages, "a deleted message is there"
        elif message_id != shared_id and name not in told.maybe_deleted:
            assert messages[message_id]["content"] == name, "an acknowledged message is lost"
    revision = int(str(shared["revision"]))
    done = told.revisions
    assert max(done, default=1) <= revision
    assert revision - 1 - len(done) <= len(told.unknown_changes), "a refused change was made"
    seen = [*told.seen, (revision, str(shared["content"]))]
    for at, content in seen:
        assert content not in told.refused_changes, "a refused change was seen"
        assert done.get(at, content) == content, "a revision has two contents"
    assert len(dict(seen)) == len(set(seen)), "a revision has two contents"


def live(seeds: range) -> tuple[int, int]:
    """Live histories one after the other: how many, and how many kills were in them."""
    kills = 0
    for seed in seeds:
        with simulated() as loop:
            try:
                kills += loop.run_until_complete(history(seed)).kills
            except BaseException as error:
                raise AssertionError(f"history {seed}: {error!r}") from error
    return len(seeds), kills


def test_whatever_is_killed_all_that_was_acknowledged_is_there_once() -> None:
    lived, kills = live(range(SEED, SEED + 150))
    assert kills > lived / 4


@pytest.mark.ci
def test_the_same_in_ten_thousand_histories() -> None:
    workers = os.cpu_count() or 1
    chunks = [range(seed, seed + 100) for seed in range(0, HISTORIES, 100)]
    with ProcessPoolExecutor(workers) as pool:
        lived = list(pool.map(live, chunks))
    assert sum(count for count, _ in lived) == HISTORIES
    assert sum(kills for _, kills in lived) > HISTORIES / 4


commit_batch = Engine._commit_batch


async def answer_early(engine: Engine, batch: list[Any]) -> None:
    for write in batch:
        write.waiting.succeed(write.granted.answer)
    await asyncio.sleep(0.001)
    await commit_batch(engine, batch)


def as_it_is(memory: SharedMemory, operation: Command | Query) -> Command | Query:
    return operation


def unknown(effects: EffectTable, message_id: bytes, event: int) -> None:
    return None


@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [
        (Engine, "_commit_batch", answer_early),
        (SharedMemory, "_repeatable", as_it_is),
        (EffectTable, "find", unknown),
    ],
)
def test_the_judge_finds_a_mistake(owner: type, name: str, mistake: Any) -> None:
    with mock.patch.object(owner, name, mistake), pytest.raises(AssertionError, match="history"):
        live(range(100))
