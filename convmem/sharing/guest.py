"""The guest's end of a connection: a memory whose owner is another process.

Every wait ends: with the answer, when the owner is gone, or when it has given no sign of life
for as long as a call may wait. A slow answer of an owner that lives is waited for.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable

from convmem.errors import Code, Refusal, StoreInUse
from convmem.limits import GUEST_REQUESTS_MAX, SILENCE_MS_MIN
from convmem.memory import OnChange, OnProgress
from convmem.operations import Command, JsonObject, Query
from convmem.protocol import (
    Answers,
    Exchange,
    Notification,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
    Transport,
)
from convmem.sharing import wire
from convmem.sharing.owner import VERSION


class OwnerGone(Exception):
    """The connection has ended. What was asked may have come to be, or not."""


class OwnerSilent(Exception):
    """The owner gives no sign of life. What was asked may yet come to be."""


class Guest:
    """A memory over a connection.

    ``busy_timeout_s`` is how long a call may wait for its turn. An owner that gives no sign of
    life for that long, or for a second where that is longer, is silent.
    """

    @classmethod
    async def greet(
        cls, transport: Transport, token: str, busy_timeout_s: float, on_end: Callable[[], None]
    ) -> "Guest":
        """Begin a connection; ``on_end`` is told once its end is seen.

        Raises OwnerGone, OwnerSilent; StoreInUse for an owner of another version.
        """
        guest = cls(transport, busy_timeout_s)
        try:
            await guest._greet(token)
        except BaseException:
            await guest.close()
            raise
        guest._on_end = on_end
        return guest

    def __init__(self, transport: Transport, busy_timeout_s: float) -> None:
        self._transport = transport
        self._patience_ms = round(busy_timeout_s * 1000)
        self._silence_s = max(busy_timeout_s, SILENCE_MS_MIN / 1000)
        self._exchange = Exchange(transport, Answers({}), self._what_became, self._hear)
        self._slots = asyncio.Semaphore(GUEST_REQUESTS_MAX)
        self._telling: set[asyncio.Task[None]] = set()
        self._has_ended = False
        self._on_end: Callable[[], None] = lambda: None
        self._on_change: OnChange = lambda change: None
        self.owner_pid = 0

    @property
    def part(self) -> JsonObject:
        """What this process has to do with the sharing, for health."""
        return {"role": "guest", "pid": os.getpid(), "owner_pid": self.owner_pid}

    async def execute(self, command: Command, on_progress: OnProgress | None = None) -> JsonObject:
        """As of a memory. Raises OwnerGone and OwnerSilent as well."""
        return await self._ask(command, on_progress)

    async def query(self, query: Query) -> JsonObject:
        """As of a memory. Raises OwnerGone and OwnerSilent as well."""
        return await self._ask(query, None)

    async def watch(self, on_change: OnChange) -> None:
        """Tell of every change from now on. Raises OwnerGone, OwnerSilent."""
        self._on_change = on_change
        await self._exchanged("watch", {}, self._silence_s)

    async def close(self) -> None:
        """End the connection."""
        self._on_end = lambda: None
        await self._transport.close()
        await self._exchange.end()

    async def _greet(self, token: str) -> None:
        told = await self._exchanged("hello", {"version": VERSION, "token": token}, self._silence_s)
        match told:
            case {"version": version, "pid": int(pid)}:
                self.owner_pid = pid
            case _:
                version = None
        if version != VERSION:
            raise StoreInUse(
                f"the store is in use by process {self.owner_pid}, of another version of convmem "
                "that shares it in another way; update both, and restart their hosts",
                None,
            )
        if self._has_ended:  # right after its welcome
            raise OwnerGone

    async def _ask(self, operation: Command | Query, on_progress: OnProgress | None) -> JsonObject:
        def report(done: float, total: float | None, _: str | None) -> None:
            if on_progress is not None:
                task = asyncio.ensure_future(on_progress(int(done), int(total or 0)))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

        asked = {"operation": wire.encode(operation), "patience_ms": self._patience_ms}
        async with self._slots:
            doubt = _Doubt(self._lives, self._silence_s / 2)
            try:
                async with asyncio.timeout(None) as doubt.patience:
                    return await self._exchanged("ask", asked, None, report)
            except TimeoutError as error:
                raise self._silent() from error
            finally:
                doubt.end()

    async def _lives(self) -> bool:
        """Whether the owner gives a sign of life."""
        try:
            await self._exchanged("ping", {}, self._silence_s / 2)
        except OwnerSilent:
            return False
        except OwnerGone:  # whoever waits is told so
            pass
        return True

    def _silent(self) -> OwnerSilent:
        return OwnerSilent(
            f"process {self.owner_pid} has the store in use and does not answer; end it, or wait"
        )

    async def _exchanged(
        self,
        method: str,
        params: JsonObject,
        timeout_s: float | None,
        on_progress: Callable[[float, float | None, str | None], None] | None = None,
    ) -> JsonObject:
        try:
            return dict(await self._exchange.request(method, params, timeout_s, on_progress))
        except RequestTimedOut as error:
            raise self._silent() from error
        except ServerGone as error:
            raise OwnerGone from error
        except RequestFailed as error:
            raise _refusal(error) from error

    def _hear(self, notification: Notification) -> None:
        if notification.method == "changed":
            self._on_change(wire.decode_change(notification.params))

    async def _what_became(self) -> ServerGone:
        self._has_ended = True
        self._on_end()
        await self._transport.close()
        return ServerGone(None, "")


class _Doubt:
    """Of whether the owner lives, while it has not answered for so long. ``end`` ends it.

    ``patience`` runs out when it does not.
    """

    patience: asyncio.Timeout

    def __init__(self, lives: Callable[[], Awaitable[bool]], after_s: float) -> None:
        self._lives = lives
        self._after_s = after_s
        self._asking: asyncio.Task[None] | None = None
        self._wait()

    def end(self) -> None:
        self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._ask)

    def _ask(self) -> None:
        self._asking = asyncio.create_task(self._find_out())

    async def _find_out(self) -> None:
        if await self._lives():
            self._wait()
        else:
            self.patience.reschedule(asyncio.get_running_loop().time())


def _refusal(failed: RequestFailed) -> Exception:
    """What the owner raised."""
    match failed.data:
        case {"code": str(code), "details": dict(details)}:
            return Refusal(Code(code), failed.message, **details)
    return RuntimeError(f"the owner of the store failed: {failed.message}")
