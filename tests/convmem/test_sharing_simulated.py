"""Short histories of processes that share a store and are killed, judged from outside.

Each history is drawn from its number: who asks what when, who ends in good order, who is killed
at which change of the disk or which message, who stands still, which connection breaks. One
that failed is lived again by its number.
"""

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from unittest import mock

import pytest

from convmem import ids
from convmem.engine import Engine
from convmem.errors import Code, Refusal
from convmem.operations import (
    Command,
    DeleteMessage,
    Query,
    ReadFact,
    ReadHistory,
    RebuildIndex,
    SetFact,
    UpdateMessage,
    WriteMessage,
)
from convmem.sharing.shared import SharedMemory
from convmem.state.effects import EffectTable
from tests.convmem.judge import SHARED, Answer, History
from tests.convmem.simulation import BUSY_TIMEOUT_S, Process, World, simulated

HISTORIES = 10_000
CALLS = 6
HOSTS = 3
# Shorter than anybody's patience: it costs nobody an answer.
STILL_S_MAX = BUSY_TIMEOUT_S / 4
# Patience with one owner, with the next, and with joining; then a call must be over.
ANSWER_S_MAX = 4 * BUSY_TIMEOUT_S
READ_FACT = ReadFact(key=SHARED, include_events=False, max_bytes=1 << 16)
READ = ReadHistory(session_id="s", order="oldest_first", limit=1000, max_bytes=1 << 20)


async def history(number: int) -> int:
    """Live one, and judge it. How many processes ended."""
    world, told = World(number), History()
    first = world.start()
    await write(first, SHARED, told)
    created = await answered(first, first.memory.execute(SetFact(key=SHARED, value=SHARED)))
    assert isinstance(created, dict), created
    processes = [first, *(world.start() for _ in range(HOSTS - 1))]
    await asyncio.gather(*(host(world, process, told) for process in processes))
    for process in world.processes:
        process.steps_left = None
    last = world.start()
    there = await answered(last, last.memory.query(READ))
    assert isinstance(there, dict), there
    told.judge(there["messages"])
    fact = await answered(last, last.memory.query(READ_FACT))
    assert isinstance(fact, dict), fact
    told.fact.judge(told.fact.saw(fact["revision"], fact["value"]))
    return sum(process.is_dead for process in world.processes)


async def host(world: World, process: Process, told: History) -> None:
    """Ask things of a process; start another when it has ended."""
    choices = world.choices
    for number in range(CALLS):
        await asyncio.sleep(choices.uniform(0, 0.01))
        if choices.random() < 0.3:
            process.steps_left = choices.randint(1, 12)
        if choices.random() < 0.1:
            process.stand_still(choices.uniform(0, STILL_S_MAX))
        if choices.random() < 0.1:
            asyncio.get_running_loop().call_later(choices.uniform(0, 0.005), process.cut)
        name = f"{process.pid}.{number}"
        match choices.choice("wwwcccffffdrla"):
            case "w":
                await write(process, name, told)
            case "c":
                await change(process, name, told)
            case "f":
                await set_fact(process, name, told)
            case "d" if known := told.to_delete():
                await delete(process, choices.choice(known), told)
            case "a":  # all at once
                asked = (f(process, f"{name}{f.__name__}", told) for f in (write, change, set_fact))
                await asyncio.gather(*asked)
            case "l":
                await answered(process, process.memory.close())
                process.kill()  # it has ended: nothing of it may go on
            case _:
                await answered(process, process.memory.execute(RebuildIndex()))
        if process.is_dead:
            process = world.start()


async def write(process: Process, name: str, told: History) -> None:
    command = WriteMessage(session_id="s", role="user", content=name)
    told.wrote(str(process.pid), name, await answered(process, process.memory.execute(command)))


async def change(process: Process, name: str, told: History) -> None:
    page = await answered(process, process.memory.query(READ))
    if isinstance(page, dict):
        revision = told.saw(page["messages"])
        command = UpdateMessage(
            message_id=ids.from_text(told.shared_id),
            expected_revision=revision,
            changes={"content": name},
        )
        answer = await answered(process, process.memory.execute(command))
        told.message.changed(name, revision, answer)


async def set_fact(process: Process, name: str, told: History) -> None:
    fact = await answered(process, process.memory.query(READ_FACT))
    if isinstance(fact, dict):
        revision = told.fact.saw(fact["revision"], fact["value"])
        command = SetFact(key=SHARED, value=name, expected_revision=revision)
        answer = await answered(process, process.memory.execute(command))
        told.fact.changed(name, revision, answer)


async def delete(process: Process, name: str, told: History) -> None:
    told.maybe_deleted.add(name)
    message_id = ids.from_text(told.acknowledged[name])
    command = DeleteMessage(message_id=message_id, expected_revision=1)
    told.was_deleted(name, await answered(process, process.memory.execute(command)))


async def answered(process: Process, asking: Coroutine[Any, Any, Any]) -> Answer:
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
    assert error is None or isinstance(error, Refusal), error
    assert error is None or error.code is not Code.BUSY, f"nobody need be refused: {error}"
    result: dict[str, Any] = task.result() if error is None else {}
    return str(error.code) if error else result


def live(numbers: range) -> int:
    """Live histories one after the other: how many processes ended in them."""
    ended = 0
    for number in numbers:
        with simulated() as loop:
            try:
                ended += loop.run_until_complete(history(number))
            except BaseException as error:
                raise AssertionError(f"history {number}: {error!r}") from error
    return ended


def test_whoever_ends_all_that_was_acknowledged_is_there_once() -> None:
    assert live(range(150)) > 300


@pytest.mark.ci
def test_the_same_in_ten_thousand_histories() -> None:
    chunks = [range(number, number + 100) for number in range(0, HISTORIES, 100)]
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        assert sum(pool.map(live, chunks)) > 2 * HISTORIES


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
def test_a_mistake_is_found(owner: type, name: str, mistake: Any) -> None:
    with mock.patch.object(owner, name, mistake), pytest.raises(AssertionError, match="history"):
        live(range(100))
