"""A memory whose owners do what a script says: what its callers are told, and what is left.

On virtual time: whoever is silent for seconds takes none.
"""

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from convmem import ids
from convmem.engine import Engine
from convmem.errors import Code, Refusal, StoreInUse
from convmem.operations import ReadHistory, UpdateMessage, WriteMessage
from convmem.protocol import Transport, memory_pair
from convmem.sharing.endpoint import OnGuest
from convmem.sharing.owner import VERSION
from convmem.sharing.shared import SharedMemory
from convmem.sharing.surroundings import Listening
from tests.convmem.simulation import simulated

WAIT_S = 30.0
WRITE = WriteMessage(session_id="s", role="user", content="text")
UPDATE = UpdateMessage(message_id=bytes(16), expected_revision=1, changes={"content": "new"})
READ = ReadHistory(session_id="s", order="oldest_first", limit=10, max_bytes=1 << 16)
WELCOME = {"version": VERSION, "pid": 77}
BUSY = {"code": "BUSY", "details": {}}

Answer = dict[str, Any] | None
"""To a request: what stands beside its id. None: the owner hangs up instead. GOODBYE: as well."""
SILENCE: Answer = {}
GREETED: Answer = {"result": WELCOME}
GOODBYE: Answer = {"result": WELCOME | {"ends": True}}
DONE: Answer = {"result": {"done": True}}
BUSY_NOW: Answer = {"error": {"code": -1, "message": "busy; nothing was written", "data": BUSY}}


class Scripted:
    """Surroundings where somebody else has the store: an owner for each script, in turn.

    An owner gives the answers of its script, whatever it is asked; after its last one it is
    silent. Where no script is left there is no owner to be reached.
    """

    pid = 1

    def __init__(self, *scripts: list[Answer]) -> None:
        self.scripts = list(scripts)
        self.asked: list[str] = []
        self.open_ends = 0

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def random_bytes(self, count: int) -> bytes:
        return bytes(range(count))

    async def open(self) -> Engine:
        raise StoreInUse("the store is in use by process 77", "there", holder={"pid": 77})

    async def listen(self, on_guest: OnGuest) -> Listening:
        raise AssertionError("nobody owns the store here")

    async def connect(self, place: str) -> tuple[Transport, str]:
        if not self.scripts:
            raise ConnectionRefusedError(place)
        guest_end, owner_end = memory_pair()
        self.open_ends += 1
        self._owning = asyncio.create_task(self._own(owner_end, self.scripts.pop(0)))
        return guest_end, ""

    async def _own(self, end: Transport, script: list[Answer]) -> None:
        while data := await end.receive():
            for line in data.splitlines():
                request = json.loads(line)
                self.asked.append(request["method"])
                answer = script.pop(0) if script and "id" in request else SILENCE
                if answer is None:
                    await end.close()
                elif answer:
                    reply = {"jsonrpc": "2.0", "id": request["id"], **answer}
                    end.write(json.dumps(reply).encode() + b"\n")
                if answer == GOODBYE:
                    await end.close()
        await end.close()
        self.open_ends -= 1


def run(
    surroundings: Scripted,
    test: Callable[[SharedMemory], Awaitable[None]],
    busy_timeout_s: float = 0.05,
) -> list[str]:
    """Test a memory; what the event loop had to complain of meanwhile."""
    complaints: list[str] = []

    async def bounded() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
        memory = SharedMemory(surroundings, exclusive=False, busy_timeout_s=busy_timeout_s)
        async with asyncio.timeout(WAIT_S):
            await test(memory)
            await memory.close()
            while surroundings.open_ends:
                await asyncio.sleep(0)
        gc.collect()

    with simulated() as loop:
        loop.run_until_complete(bounded())
    return complaints


async def refusal_of(
    memory: SharedMemory, operation: WriteMessage | UpdateMessage | ReadHistory
) -> Refusal:
    match operation:
        case WriteMessage() | UpdateMessage():
            asking = memory.execute(operation)
        case _:
            asking = memory.query(operation)
    with pytest.raises(Refusal) as refused:
        await asking
    assert refused.value.code is Code.BUSY
    return refused.value


@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param([[GREETED, None]], id="ends, and nobody follows"),
        pytest.param([[GREETED, None], [GREETED, BUSY_NOW]], id="ends, and the next is busy"),
        pytest.param([[GREETED, SILENCE]], id="stands still"),
        pytest.param([[GREETED, None], [SILENCE]], id="ends, and the next stands still"),
    ],
)
def test_what_was_sent_and_given_up_may_have_come_to_be(scripts: list[list[Answer]]) -> None:
    async def write(memory: SharedMemory) -> None:
        refusal = await refusal_of(memory, WRITE)
        assert "may have come to be" in refusal.message
        assert "nothing was written" not in refusal.message
        ids.from_text(str(refusal.details["message_id"]))

    async def update(memory: SharedMemory) -> None:
        assert "may have come to be" in (await refusal_of(memory, UPDATE)).message

    async def read(memory: SharedMemory) -> None:
        assert "come to be" not in (await refusal_of(memory, READ)).message

    for test in (write, update, read):
        assert run(Scripted(*map(list, scripts)), test, 1.0) == []


@pytest.mark.parametrize(
    ("scripts", "told"),
    [
        ([], "in use by process 77"),
        ([[SILENCE]], "in use by process 77. It does not answer"),
        ([[{"result": {"version": VERSION + 1, "pid": 78}}]], "process 78, of another version"),
        ([[GREETED, BUSY_NOW]], "nothing was written"),
    ],
    ids=["nobody is reached", "stands still", "another version", "busy"],
)
def test_what_was_not_sent_has_not_come_to_be(scripts: list[list[Answer]], told: str) -> None:
    async def test(memory: SharedMemory) -> None:
        message = (await refusal_of(memory, WRITE)).message
        assert told in message
        assert "come to be" not in message

    assert run(Scripted(*scripts), test) == []


def test_an_owner_that_ends_right_after_its_welcome_is_left() -> None:
    async def test(memory: SharedMemory) -> None:
        assert await memory.execute(WRITE) == {"done": True}

    world = Scripted([GOODBYE], [GREETED, DONE])
    assert run(world, test) == []


def test_connections_that_came_to_nothing_are_closed() -> None:
    """Else whoever calls on while an owner stands still leaves it one more to serve each time."""

    async def test(memory: SharedMemory) -> None:
        await refusal_of(memory, READ)
        await refusal_of(memory, READ)

    world = Scripted([SILENCE], [SILENCE])
    assert run(world, test) == []
    assert world.asked.count("hello") == 2


def test_an_owner_that_ends_while_it_is_asked_for_a_sign_of_life() -> None:
    async def test(memory: SharedMemory) -> None:
        assert await memory.execute(WRITE) == {"done": True}

    world = Scripted([GREETED, SILENCE, None], [GREETED, DONE])
    assert run(world, test) == []
    assert world.asked.count("ping") == 1


def test_a_memory_that_is_closed_joins_nobody() -> None:
    async def test(memory: SharedMemory) -> None:
        asking = asyncio.create_task(memory.execute(WRITE))
        while "ask" not in world.asked:
            await asyncio.sleep(0)
        await memory.close()
        with pytest.raises(Refusal, match=r"shutting down.*may have come to be"):
            await asking
        assert len(world.scripts) == 1
        with pytest.raises(Refusal, match="shutting down"):
            await memory.query(READ)

    world = Scripted([GREETED, SILENCE], [GREETED, DONE])
    assert run(world, test) == []
