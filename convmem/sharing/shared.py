"""A memory that several processes share: this one owns the store, or is a guest of its owner.

               lock is free                     lock is held, its holder is reached
    joining --------------------> owner         joining -------------------------> guest
       ^                                                                            |
       |_______________________ the connection has ended ___________________________|

Whoever gets the lock is the owner; nobody is elected. A call that was under way at an owner
that ended is asked again of the next. Commands are made repeatable before they are sent: a new
message has its id, a change its number, so that none takes effect twice.

Promises: a call is answered once; it waits for an owner no longer than the busy timeout; what
was acknowledged by one owner is there with the next, because it is in the log.
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from convmem import __version__, ids
from convmem.errors import Code, Refusal, StoreInUse
from convmem.sharing.endpoint import EXCLUSIVE
from convmem.sharing.surroundings import Surroundings

if TYPE_CHECKING:
    from convmem.memory import OnChange, OnProgress
    from convmem.operations import Command, JsonObject, Query
    from convmem.sharing.guest import Guest
    from convmem.sharing.owner import Owner

    Member: TypeAlias = Owner | Guest

# What an operation is made of is not imported before the host is greeted.
Operation = TypeVar("Operation", bound="Command | Query")

# Between two attempts to join: a new owner is there within a moment, or takes its time.
_PAUSE_S = 0.005
_PAUSE_S_MAX = 0.1


class SharedMemory:
    """The memory of a data directory, whoever owns it. Joined once, by whoever comes first."""

    def __init__(
        self, surroundings: Surroundings, *, exclusive: bool, busy_timeout_s: float
    ) -> None:
        self._surroundings = surroundings
        self._exclusive = exclusive
        self._busy_timeout_s = busy_timeout_s
        self._joining: asyncio.Task[Member] | None = None
        self._on_change: OnChange | None = None
        self._watching: asyncio.Task[None] | None = None
        self._last_id = ids.NO_ID
        self._closed = False

    async def open(self) -> None:
        """Join ahead of the first call. What goes wrong is told to that call."""
        with contextlib.suppress(Refusal):
            await self._joined()

    async def execute(
        self, command: "Command", on_progress: "OnProgress | None" = None
    ) -> "JsonObject":
        """As of a memory."""
        return await self._ask(command, lambda member, this: member.execute(this, on_progress))

    async def query(self, query: "Query") -> "JsonObject":
        """As of a memory. The health says what part this process has in it."""
        from convmem.operations import ReadHealth

        if not isinstance(query, ReadHealth):
            return await self._ask(query, lambda member, this: member.query(this))
        try:
            answer = await self._ask(query, lambda member, this: member.query(this))
            return answer | {"sharing": (await self._joined()).part}
        except Refusal as refusal:
            return _unavailable(refusal)

    def watch(self, on_change: "OnChange") -> None:
        """Tell of every change from now on, whoever makes it.

        What happens while there is no owner to tell of it goes untold.
        """
        if self._on_change is None:
            self._on_change = on_change
            self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Leave: give the store to whoever comes next."""
        self._closed = True
        if self._joining is not None:
            with contextlib.suppress(Exception):  # what went wrong was told to every call
                await (await self._joining).close()

    async def _ask(
        self, operation: Operation, ask: "Callable[[Member, Operation], Awaitable[JsonObject]]"
    ) -> "JsonObject":
        """Ask the owner, and the next one if it ends meanwhile."""
        from convmem.sharing.guest import Guest, OwnerGone, OwnerSilent
        from convmem.sharing.repeats import unknown

        loop = asyncio.get_running_loop()
        patience_ends_s: float | None = None  # none yet: it was asked of no owner that has ended
        while True:
            try:
                member = await self._joined()
            except Refusal as refusal:
                if patience_ends_s is None or refusal.code is not Code.BUSY:
                    raise
                raise unknown(refusal.message, operation) from refusal
            if isinstance(member, Guest):
                operation = self._repeatable(operation)
            try:
                return await ask(member, operation)
            except OwnerGone as gone:
                if patience_ends_s is None:
                    patience_ends_s = loop.time() + self._busy_timeout_s
                elif loop.time() > patience_ends_s:
                    raise unknown("owner after owner of the store has ended", operation) from gone
            except OwnerSilent as silent:
                raise unknown(str(silent), operation) from silent
            except Refusal as refusal:
                if patience_ends_s is None or refusal.code is not Code.BUSY:
                    raise
                # It knows that it wrote nothing, but not what the one before it did.
                text = "the owner of the store has ended, and the next is busy"
                raise unknown(text, operation) from refusal

    async def _joined(self) -> "Member":
        """The owner or guest that this process is; all who ask meanwhile wait for one attempt.

        Raises Refusal.
        """
        if self._closed:
            raise Refusal(Code.BUSY, "the server is shutting down")
        return await asyncio.shield(self._join_again() if self._joining is None else self._joining)

    def _join_again(self) -> "asyncio.Task[Member]":
        self._joining = asyncio.create_task(self._join())
        self._joining.add_done_callback(self._forget_if_failed)
        return self._joining

    def _forget_if_failed(self, attempt: "asyncio.Task[Member]") -> None:
        """The next call tries again, also where nobody waited for this attempt any more."""
        if attempt is self._joining and (attempt.cancelled() or attempt.exception()):
            self._joining = None

    def _left(self) -> None:
        """The owner is gone: find the next at once, so that the next call need not wait."""
        self._joining = None
        if not self._closed:
            self._join_again()

    async def _join(self) -> "Member":
        """Own the store, or be a guest of its owner. Raises Refusal when patience ends."""
        loop = asyncio.get_running_loop()
        patience_ends_s = loop.time() + self._busy_timeout_s
        pause_s = _PAUSE_S
        while True:
            member: Member | None
            try:
                member = await self._own()
            except StoreInUse as in_use:
                refusal = in_use
                if self._exclusive or self._closed:
                    raise
                member = await self._visit(in_use)
            if member is not None:
                await self._watch_at(member)
                return member
            if loop.time() + pause_s > patience_ends_s:
                raise refusal
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    async def _watch(self) -> None:
        with contextlib.suppress(Refusal):
            await self._watch_at(await self._joined())

    async def _watch_at(self, member: "Member") -> None:
        from convmem.sharing.guest import OwnerGone, OwnerSilent

        if self._on_change is not None:
            with contextlib.suppress(OwnerGone, OwnerSilent):  # the next call finds out
                await member.watch(self._on_change)

    async def _own(self) -> "Owner":
        engine = await self._surroundings.open()
        from convmem.sharing.owner import Owner

        owner = Owner(engine, self._surroundings.pid)
        if self._exclusive:
            owner.take_nobody()
        else:
            await owner.take_guests(self._surroundings)
        return owner

    async def _visit(self, in_use: StoreInUse) -> "Guest | None":
        """Be a guest of the holder; None where none is reached. Raises StoreInUse for good."""
        from convmem.sharing.guest import Guest, OwnerGone, OwnerSilent

        if in_use.endpoint is None:
            return None
        if in_use.endpoint == EXCLUSIVE:
            text = f"{in_use.message}. It shares the store with nobody (--exclusive)"
            raise StoreInUse(text, None, **in_use.details)
        try:
            transport, token = await self._surroundings.connect(in_use.endpoint)
            return await Guest.greet(transport, token, self._busy_timeout_s, self._left)
        except (OSError, OwnerGone):
            return None
        except OwnerSilent as silent:
            text = f"{in_use.message}. It does not answer at the moment"
            raise StoreInUse(text, None, **in_use.details) from silent

    def _repeatable(self, operation: Operation) -> Operation:
        """The operation with what tells it from any other, so that it may be asked twice."""
        from convmem.sharing.repeats import repeatable

        return repeatable(operation, self._new_id, self._surroundings.random_bytes)

    def _new_id(self) -> bytes:
        random = self._surroundings.random_bytes(ids.RANDOM_BYTES)
        self._last_id = ids.apart(self._last_id, self._surroundings.now_ms(), random)
        return self._last_id


def _unavailable(refusal: Refusal) -> "JsonObject":
    """The health of a store that cannot be asked."""
    error = {"code": refusal.code, "message": refusal.message, **refusal.details}
    versions = {"convmem": __version__, "python": sys.version.partition(" ")[0]}
    return {"status": "unavailable", "error": error, "versions": versions}
