"""Processes, a network and a disk that are simulated: the real sharing code, on virtual time.

Every process has its own ``SharedMemory``; all of them run on one event loop whose clock jumps
to the next thing to happen. What is sent arrives after a delay that is drawn, in order. A
process is killed at the very moment of a change of the disk or of something being sent:
nothing of it reaches disk or network from then on. One that stands still hears nothing and is
not heard for a while; a connection may break between two that live. The same seed gives the
same history.
"""

import asyncio
import contextvars
import random
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

from convmem.engine import Engine
from convmem.ledger import Ledger
from convmem.protocol import Transport
from convmem.sharing.endpoint import OnGuest
from convmem.sharing.shared import SharedMemory
from convmem.storage import Environment, MemoryDisk
from convmem.writer_thread import WriterThread

BUSY_TIMEOUT_S = 5.0
DELAY_S_MAX = 0.002
START_MS = 1_700_000_000_000

T = TypeVar("T")

_running: contextvars.ContextVar["Process"] = contextvars.ContextVar("_running")


class Killed(OSError):
    """What a process meets that has been killed: nothing it does happens any more."""


class _VirtualTime(selectors.BaseSelector):
    """A selector that never waits: it moves the clock on instead."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits for ever"
        self.now_s += max(timeout, 0.0)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}

    def close(self) -> None:
        pass


class _Inline(ThreadPoolExecutor):
    """Does at once what a thread would do soon."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


class _InlineWriter(WriterThread):
    """The same, for the thread that writes the log."""

    async def run(self, work: Callable[..., T], *given: Any, **named: Any) -> T:
        try:
            return work(*given, **named)
        finally:
            await asyncio.sleep(0)


@contextmanager
def simulated() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop on virtual time, without threads."""
    time = _VirtualTime()
    loop = asyncio.SelectorEventLoop(time)
    with (
        mock.patch.object(loop, "time", time.time),
        mock.patch("convmem.engine.WriterThread", _InlineWriter),
        mock.patch("convmem.index_thread.ThreadPoolExecutor", _Inline),
    ):
        loop.set_default_executor(_Inline(1))
        try:
            yield loop
        finally:
            loop.run_until_complete(_end_all())
            loop.close()


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class World:
    """One disk, and the processes that share it."""

    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)
        self.disk = MemoryDisk()
        self.disk.hook = lambda operation: _running.get().change()
        self.processes: list[Process] = []
        self.endpoints: dict[str, tuple[Process, OnGuest]] = {}
        self.owner: Process | None = None

    def start(self) -> "Process":
        """A new process, not yet joined."""
        process = Process(self, len(self.processes) + 1)
        self.processes.append(process)
        return process

    @property
    def living(self) -> list["Process"]:
        return [process for process in self.processes if not process.is_dead]


class Process:
    """A memory of its own, how it may end, and its surroundings."""

    def __init__(self, world: World, pid: int) -> None:
        self.pid = pid
        self.is_dead = False
        self.steps_left: int | None = None
        self.ends: list[End] = []
        self.still_until_s = 0.0
        self.random_bytes = world.choices.randbytes
        self._world = world
        self._context = contextvars.copy_context()
        self._context.run(_running.set, self)
        self.memory = SharedMemory(self, exclusive=False, busy_timeout_s=BUSY_TIMEOUT_S)

    def run(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin something as a task of this process."""
        return asyncio.get_running_loop().create_task(work, context=self._context)

    def step(self) -> bool:
        """Something of this process is about to reach the world: whether it does."""
        if self.steps_left is not None and not self.is_dead:
            self.steps_left -= 1
            if self.steps_left <= 0:
                self.kill()
        return not self.is_dead

    def change(self) -> None:
        """A change of the disk is about to be made. Raises Killed."""
        if not self.step():
            raise Killed(5, "killed")

    def kill(self) -> None:
        """Nothing of it happens any more; the others see its lock free and its ends closed."""
        self.is_dead = True
        if self._world.owner is self:
            self._world.owner = None
            self._world.disk.kill()
        for end in self.ends:
            end.hang_up()

    def stand_still(self, duration_s: float) -> None:
        """Nothing reaches it or comes from it for a while; then all of it does."""
        self.still_until_s = asyncio.get_running_loop().time() + duration_s

    def cut(self) -> None:
        """Break one of its connections, if it has any: both ends see it closed."""
        if ends := [end for end in self.ends if not end.is_closed]:
            end = self._world.choices.choice(ends)
            end.hang_up()
            end.peer.hang_up()

    def now_ms(self) -> int:
        return START_MS + int(asyncio.get_running_loop().time() * 1000)

    async def open(self) -> Engine:
        self.change()
        environment = Environment(
            now_ms=self.now_ms, random_bytes=self.random_bytes, host_id=bytes(16)
        )
        ledger = Ledger(self._world.disk, environment)
        self._world.owner = self
        if self.is_dead:  # on the way, where that stopped nothing
            self.kill()
        self.change()
        return Engine(ledger, BUSY_TIMEOUT_S)

    async def listen(self, on_guest: OnGuest) -> "_Listening":
        self.change()
        self._world.endpoints[str(self.pid)] = (self, on_guest)
        return _Listening(self._world, str(self.pid))

    async def connect(self, place: str) -> tuple[Transport, str]:
        self.change()
        await asyncio.sleep(self._world.choices.uniform(0, DELAY_S_MAX))
        owner, on_guest = self._world.endpoints.get(place, (None, None))
        if owner is None or on_guest is None or owner.is_dead:
            raise ConnectionRefusedError(place)
        ours, theirs = End(self, self._world), End(owner, self._world)
        ours.peer, theirs.peer = theirs, ours
        owner.run(on_guest(theirs, ""))
        return ours, ""


class _Listening:
    def __init__(self, world: World, endpoint: str) -> None:
        self.endpoint = endpoint
        self._world = world

    def close(self) -> None:
        del self._world.endpoints[self.endpoint]


class End:
    """One end of a connection; what it writes arrives at its peer a little later, in order."""

    peer: "End"

    def __init__(self, process: Process, world: World) -> None:
        self.is_closed = False
        self._process = process
        self._world = world
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._arrival_s = 0.0
        self._has_ended = False
        process.ends.append(self)

    async def receive(self) -> bytes:
        if self._has_ended:
            return b""
        data = await self._arrived.get()
        self._has_ended = not data
        return data

    def write(self, data: bytes) -> None:
        if data and not self.is_closed and self._process.step():
            self._send(data)

    async def drain(self) -> None:
        pass

    async def close(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._send(b"")

    def _send(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        sent_s = max(loop.time(), self._process.still_until_s, self.peer._process.still_until_s)
        delay_s = self._world.choices.uniform(0, DELAY_S_MAX)
        self._arrival_s = max(self._arrival_s + 1e-9, sent_s + delay_s)
        loop.call_at(self._arrival_s, self.peer._arrived.put_nowait, data)
