"""Requests being answered: whose task is at work on which id, and what it says meanwhile.

    begin --> progress, log, ask ... --> finish     the task may answer
                     |
                   cancel                           its task is stopped and may say nothing more

An id may be used again as soon as its request is answered or cancelled, perhaps while the old
task is still on its way out: a task speaks for an id only while it is the one at work on it.

Not here: what an answer says (``session``), which messages are allowed when (``connection``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

from .connection import Connection
from .errors import ErrorCode, RequestFailed
from .interests import Interests
from .lifecycle import PROGRESS_MESSAGE_SINCE, Context, Era
from .message import ErrorResponse, Id, Notification, Response
from .tools import Call

Write = Callable[[bytes], Awaitable[None]]


class Calls:
    """Of one connection. ``progress_delay_s`` is how long every call keeps its progress back."""

    def __init__(
        self, connection: Connection, interests: Interests, write: Write, progress_delay_s: float
    ) -> None:
        self.connection = connection
        self.interests = interests
        self.write = write
        self.progress_delay_s = progress_delay_s
        self._current: dict[Id, asyncio.Task[Any]] = {}
        self._asked: dict[int, asyncio.Future[Response | ErrorResponse]] = {}

    def begin(self, id_: Id, task: "asyncio.Task[Any]") -> None:
        """``task`` is at work on the request ``id_``."""
        self._current[id_] = task

    def cancel(self, id_: Id) -> None:
        """Stop the work on a request, if there is any."""
        if task := self._current.pop(id_, None):
            task.cancel()

    def finish(self, id_: Id) -> bool:
        """Whether the running task may answer; it is at work no longer then."""
        if not self.is_current(id_, asyncio.current_task()):
            return False
        del self._current[id_]
        return True

    def is_current(self, id_: Id, task: "asyncio.Task[Any] | None") -> bool:
        return self._current.get(id_) is task

    def call(self, id_: Id, context: Context) -> Call:
        """What the handler of the running task gets."""
        return _LiveCall(self, id_, context)

    def hear(self, answer: Response | ErrorResponse) -> None:
        """The client answers a request of ours."""
        future = self._asked.get(answer.id) if isinstance(answer.id, int) else None
        if future is not None and not future.done():
            future.set_result(answer)

    async def ask(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """The client's answer to a request. RequestFailed if it is an error."""
        id_, line = self.connection.request(method, params)
        future: asyncio.Future[Response | ErrorResponse] = asyncio.Future()
        self._asked[id_] = future
        try:
            await self.write(line)
            answer = await future
        finally:
            del self._asked[id_]
            if not future.done() or future.cancelled():
                await self.write(self.connection.cancel(id_, "no longer wanted"))
        if isinstance(answer, ErrorResponse):
            raise RequestFailed(answer.code, answer.message, answer.data)
        return answer.result


class _LiveCall:
    """A ``Call`` over a connection."""

    def __init__(self, calls: Calls, id_: Id, context: Context) -> None:
        self._calls = calls
        self._id = id_
        self._context = context
        self._task = asyncio.current_task()
        self._started_s = perf_counter()

    @property
    def client_name(self) -> str | None:
        return self._context.client_name

    @property
    def client_capabilities(self) -> Mapping[str, object]:
        return self._context.client_capabilities

    @property
    def protocol_version(self) -> str:
        return self._context.version

    async def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        early = perf_counter() - self._started_s < self._calls.progress_delay_s
        if early or not self._is_current():
            return
        said = message if self._context.version >= PROGRESS_MESSAGE_SINCE else None
        if line := self._calls.connection.progress(self._id, done, total, said):
            await self._calls.write(line)

    async def log(self, level: str, data: object, logger: str | None = None) -> None:
        if self._calls.interests.wants_log(self._context, level) and self._is_current():
            named = {} if logger is None else {"logger": logger}
            message = Notification("notifications/message", {"level": level, **named, "data": data})
            await self._calls.write(self._calls.connection.send(message))

    async def ask(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        if self._context.era is Era.MODERN:
            text = f"{self._context.version} has no requests to clients"
            raise RequestFailed(ErrorCode.METHOD_NOT_FOUND, text)
        return await self._calls.ask(method, params)

    def _is_current(self) -> bool:
        return self._calls.is_current(self._id, self._task)
