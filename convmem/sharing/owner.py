"""The owner's end of a connection: answers what one guest asks, on the owner's own memory.

    guest  --> {"method": "hello", "params": {"version", "token"}}       first, within a moment
    owner  --> {"result": {"version", "pid"}}
    guest  --> {"method": "ask", "params": {"operation": as of ``wire``, "patience_ms"}}
               or {"method": "ping"}
    owner  --> {"result": the answer} | {"error": {"message", "data": {"code", "details"}}},
               and "notifications/progress" while a long command runs
    guest  --> {"method": "watch"}
    owner  --> {"result": {}}, and from then on {"method": "changed", "params": change}

JSON-RPC, a line each, as on every wire of ours. What does not keep to this ends the
connection and nothing else. A guest that does not read its answers is not read from, and so
never has more than a bounded number under way.
"""

import asyncio
import contextlib
import hmac
from typing import TYPE_CHECKING

from convmem.errors import Code, Refusal
from convmem.limits import (
    BUSY_TIMEOUT_MS_MAX,
    GUEST_CHANGES_MAX,
    GUEST_FLUSH_S,
    GUEST_REQUESTS_MAX,
    GUESTS_MAX,
    HELLO_BYTES_MAX,
    HELLO_TIMEOUT_S,
)
from convmem.memory import Change, OnChange, OnProgress
from convmem.operations import Command, JsonObject, Query
from convmem.protocol import (
    Cancelled,
    Connection,
    ErrorCode,
    ErrorResponse,
    Event,
    EventBatch,
    Notification,
    Request,
    Response,
    Transport,
)
from convmem.sharing import wire
from convmem.sharing.endpoint import EXCLUSIVE
from convmem.sharing.surroundings import Listening, Surroundings

if TYPE_CHECKING:
    from convmem.engine import Engine

VERSION = 2
"""Of what is said between owner and guest. Both must be of the same."""


class Owner:
    """A memory that this process owns, and shares with guests."""

    def __init__(self, engine: "Engine", pid: int) -> None:
        self._engine = engine
        self._pid = pid
        self._listening: Listening | None = None
        self._guests: dict[GuestSession, asyncio.Task[None]] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def take_guests(self, surroundings: Surroundings) -> None:
        """Let other processes join. Where that cannot be, health tells why."""
        try:
            self._listening = await surroundings.listen(self._serve)
            self._engine.publish(self._listening.endpoint)
        except (OSError, Refusal) as error:
            self._engine.note_error(f"no other process can join: {error}")

    def take_nobody(self) -> None:
        """Tell who would join that nobody may. They find out without it, after a while."""
        try:
            self._engine.publish(EXCLUSIVE)
        except Refusal as error:
            self._engine.note_error(f"the lock file does not say that nobody may join: {error}")

    @property
    def part(self) -> JsonObject:
        """What this process has to do with the sharing, for health."""
        return {"role": "owner", "pid": self._pid, "guests": len(self._guests)}

    async def execute(self, command: Command, on_progress: OnProgress | None = None) -> JsonObject:
        """As of a memory."""
        return await self._engine.execute(command, on_progress)

    async def query(self, query: Query) -> JsonObject:
        """As of a memory."""
        return await self._engine.query(query)

    async def watch(self, on_change: OnChange) -> None:
        """Tell of every change from now on."""
        self._engine.watch(on_change)

    async def close(self) -> None:
        """Answer what guests have asked, take no more, and let go of the store.

        Guests are let go last: by the time they look for the next owner, the lock is free.
        """
        self._is_closing = True
        if self._listening is not None:
            self._listening.close()
        await asyncio.gather(*(guest.finish() for guest in self._guests))
        await self._engine.close()
        for running in self._guests.values():
            running.cancel()
        await asyncio.gather(*self._serving)

    async def _serve(self, transport: Transport, token: str) -> None:
        if self._is_closing or len(self._guests) >= GUESTS_MAX:
            return
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        guest = GuestSession(self._engine, transport, token, self._pid)
        self._guests[guest] = asyncio.ensure_future(guest.run())
        await asyncio.wait({self._guests[guest]})
        del self._guests[guest]
        await transport.close()
        self._serving.discard(serving)


class GuestSession:
    """One guest of an engine, from its greeting to its end. ``pid`` is the owner's process."""

    def __init__(self, engine: "Engine", transport: Transport, token: str, pid: int) -> None:
        self._engine = engine
        self._transport = transport
        self._token = token
        self._pid = pid
        self._connection = Connection(batches=False)
        self._answering: dict[object, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._changes: dict[Change, None] = {}
        self._telling: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_closing = False

    async def run(self) -> None:
        """Serve the guest until it ends or says what is not understood."""
        self._running = asyncio.current_task()
        try:
            welcome = await self._greet()
            while welcome and (data := await self._transport.receive()):
                welcome = all(map(self._take, self._connection.receive_data(data)))
                await self._transport.drain()
        finally:
            self._engine.unwatch(self._note)
            for task in self._answering.values():
                task.cancel()
            if self._telling is not None:
                self._telling.cancel()

    async def finish(self) -> None:
        """Take nothing more; wait a moment for what is under way to be answered and sent.

        The rest is asked again of the next owner.
        """
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GUEST_FLUSH_S):
                if self._answering:
                    await asyncio.wait(self._answering.values())
                await self._transport.drain()

    async def _greet(self) -> bool:
        """Whether the guest may come in."""
        received = b""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                while not received.endswith(b"\n"):
                    data = await self._transport.receive()
                    received += data
                    if not data or len(received) > HELLO_BYTES_MAX:
                        return False
        except TimeoutError:
            return False
        match list(self._connection.receive_data(received)):
            case [Request(id_, "hello", {"version": version, "token": str(token)})]:
                if hmac.compare_digest(token.encode(errors="replace"), self._token.encode()):
                    told = {"version": VERSION, "pid": self._pid}
                    self._transport.write(self._connection.send(Response(id_, told)))
                    return version == VERSION
        return False

    def _take(self, event: Event | EventBatch) -> bool:
        """Begin what is asked. False if it is nothing that a guest says."""
        match event:
            case _ if self._is_closing:
                pass  # the guest will ask the next owner
            case Request(id_, "ping"):
                self._transport.write(self._connection.send(Response(id_, {})))
            case Request(id_, "watch"):
                self._engine.watch(self._note)
                self._transport.write(self._connection.send(Response(id_, {})))
            case Request(id_, "ask") if len(self._answering) < GUEST_REQUESTS_MAX:
                self._answering[id_] = asyncio.create_task(self._answer(event))
            case Cancelled(id_):  # the guest may ask something else in its place at once
                if task := self._answering.pop(id_, None):
                    task.cancel()
            case _:
                return False
        return True

    def _note(self, change: Change) -> None:
        """Tell the guest of a change, as soon as it reads. One that never does is let go."""
        self._changes[change] = None
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())
        elif len(self._changes) > GUEST_CHANGES_MAX and self._running is not None:
            self._running.cancel()

    async def _tell(self) -> None:
        await self._transport.drain()
        changes, self._changes, self._telling = self._changes, {}, None
        for change in changes:
            told = Notification("changed", wire.encode_change(change))
            self._transport.write(self._connection.send(told))

    async def _answer(self, request: Request) -> None:
        async with self._turn:  # all who wait for room would otherwise find the same room
            await self._transport.drain()
        try:
            line = self._connection.send(Response(request.id, await self._result(request)))
        except Refusal as refusal:
            line = self._error(request, refusal.message, refusal.code, refusal.details)
        except Exception as error:  # a mistake of ours: the guest tells its host of its type
            line = self._error(request, type(error).__name__, None, {})
        self._answering.pop(request.id, None)
        self._transport.write(line)

    async def _result(self, request: Request) -> JsonObject:
        async def on_progress(done: int, total: int) -> None:
            self._transport.write(self._connection.progress(request.id, done, total, None))

        try:
            operation = wire.decode(request.params.get("operation"))
        except ValueError as error:
            raise Refusal(Code.INVALID_ARGUMENT, str(error)) from error
        if isinstance(operation, Command):
            patience_s = _patience_s(request.params.get("patience_ms"))
            return await self._engine.execute(operation, on_progress, patience_s)
        return await self._engine.query(operation)

    def _error(
        self, request: Request, message: str, code: Code | None, details: JsonObject
    ) -> bytes:
        data = {"code": code, "details": details}
        return self._connection.send(
            ErrorResponse(request.id, ErrorCode.INTERNAL_ERROR, message, data)
        )


def _patience_s(patience_ms: object) -> float:
    """How long a guest waits for its turn. Raises Refusal."""
    if type(patience_ms) is int and 0 <= patience_ms <= BUSY_TIMEOUT_MS_MAX:
        return patience_ms / 1000
    raise Refusal(Code.INVALID_ARGUMENT, f"patience_ms: not 0 to {BUSY_TIMEOUT_MS_MAX}")
