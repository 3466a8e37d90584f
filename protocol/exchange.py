"""Requests and their answers over one transport, as a client sees it.

Owns the reading of what arrives and all who wait for it. Promises: an answer is matched to its
request by id; every wait is bounded; a request that times out or is given up is cancelled at
the server and its late answer ignored; noise on the server's output is skipped and never
answered; once the server is gone everybody who waits is told, and whoever asks later.

Not here: which requests there are, and the process at the other end.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from .answers import Answers
from .connection import Cancelled, Connection, Event, EventBatch
from .errors import (
    ClientError,
    ErrorCode,
    LineTooLong,
    RequestFailed,
    RequestTimedOut,
    RpcError,
    ServerGone,
)
from .limits import ANSWER_BYTES_MAX, NESTING_MAX, TERMINATE_TIMEOUT_S
from .message import ErrorResponse, Malformed, Notification, Request, Response, nesting
from .transport import Transport

OnProgress = Callable[[float, float | None, str | None], None]
"""Told how much is done, of how much, and what the server says about it."""

OnNotification = Callable[[Notification], None]
"""Told what the server says unasked."""


@dataclass(slots=True)
class _Waiting:
    """A request under way."""

    answer: "asyncio.Future[Response | ErrorResponse]"
    on_progress: OnProgress | None


class Exchange:
    """``gone`` is asked, when the output of the server has ended, what became of it.

    ``on_notification`` is told what the server says unasked, progress apart.
    """

    def __init__(
        self,
        transport: Transport,
        answers: Answers,
        gone: Callable[[], Awaitable[ServerGone]],
        on_notification: OnNotification,
    ) -> None:
        self._transport = transport
        self._answers = answers
        self._ask_gone = gone
        self._on_notification = on_notification
        self._connection = Connection(batches=True, line_bytes_max=ANSWER_BYTES_MAX)
        self._waiting: dict[int, _Waiting] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._gone: ServerGone | None = None
        self._reading = asyncio.create_task(self._read())
        self.envelope: Mapping[str, object] = {}
        """The ``_meta`` of every request: empty unless the era is the modern one."""

    async def request(
        self,
        method: str,
        params: Mapping[str, object],
        timeout_s: float | None,
        on_progress: OnProgress | None = None,
    ) -> Mapping[str, object]:
        """The result. RequestFailed, RequestTimedOut or ServerGone.

        ClientError, with nothing sent, for what the wire would change or the server not take.
        """
        if self._gone:
            raise self._gone
        if self.envelope:
            params = {**params, "_meta": {**self.envelope, **_mapping(params.get("_meta"))}}
        id_, line = self._line(method, params, progress=on_progress is not None)
        answer: asyncio.Future[Response | ErrorResponse] = asyncio.Future()
        self._waiting[id_] = _Waiting(answer, on_progress)
        try:
            async with asyncio.timeout(timeout_s):
                self._transport.write(line)
                await self._transport.drain()
                reply = await answer
        except TimeoutError:
            raise RequestTimedOut(method, timeout_s or 0.0) from None
        finally:
            del self._waiting[id_]
            # The specification forbids to cancel the greeting, whatever became of it.
            if not answer.done() or answer.cancelled():
                cancelled = self._connection.cancel(id_, "no longer wanted")
                if method not in ("initialize", "server/discover"):
                    self._transport.write(cancelled)
        if isinstance(reply, ErrorResponse):
            raise RequestFailed(reply.code, reply.message, reply.data)
        return reply.result

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Tell the server something that has no answer."""
        self._transport.write(self._connection.send(Notification(method, params)))
        await self._transport.drain()

    async def end(self) -> None:
        """Stop reading, once the server's output has ended or patience has."""
        await asyncio.wait({self._reading}, timeout=TERMINATE_TIMEOUT_S)
        for task in (self._reading, *self._answering):
            task.cancel()

    def _line(
        self, method: str, params: Mapping[str, object], *, progress: bool
    ) -> tuple[int, bytes]:
        try:
            id_, line = self._connection.request(method, params, progress=progress)
        except LineTooLong as error:
            raise ClientError(f"the params are too long: {error}") from error
        problem = _not_as_given(params, line)
        if problem is not None:
            self._connection.cancel(id_, "never sent")
            raise ClientError(f"the params {problem}")
        return id_, line

    async def _read(self) -> None:
        while data := await self._transport.receive():
            for event in self._connection.receive_data(data):
                try:
                    self._take(event)
                except Exception as error:  # of a callback: the others wait for their answers
                    told = {"message": "a callback of a client failed", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(told)
        self._gone = await self._ask_gone()
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(self._gone)

    def _take(self, event: Event | EventBatch) -> None:
        match event:
            case Response(id_) | ErrorResponse(id_):
                waiting = self._waiting.get(id_) if isinstance(id_, int) else None
                if waiting and not waiting.answer.done():
                    waiting.answer.set_result(event)
            case Request() if self.envelope:
                pass  # since 2026-07-28 a server has no requests, and a client no responses
            case Request():
                task = asyncio.create_task(self._answer(event))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case Notification("notifications/progress", params):
                self._report(params)
            case EventBatch(events):
                for each in events:
                    self._take(each)
            case Notification():
                self._on_notification(event)
            case Malformed() | Cancelled():
                pass
            case _:
                assert_never(event)

    async def _answer(self, request: Request) -> None:
        reply: Response | ErrorResponse
        try:
            result = await self._answers.answer(request.method, request.params)
            reply = Response(request.id, result)
        except RpcError as error:
            reply = ErrorResponse(request.id, error.code, error.message, error.data)
        except Exception:
            reply = ErrorResponse(request.id, ErrorCode.INTERNAL_ERROR, "Internal error")
        self._transport.write(self._connection.send(reply))

    def _report(self, params: Mapping[str, object]) -> None:
        token, done, total = (params.get(key) for key in ("progressToken", "progress", "total"))
        waiting = self._waiting.get(token) if isinstance(token, int) else None
        if waiting and waiting.on_progress and isinstance(done, int | float):
            message = params.get("message")
            waiting.on_progress(
                done,
                total if isinstance(total, int | float) else None,
                message if isinstance(message, str) else None,
            )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _not_as_given(params: Mapping[str, object], line: bytes) -> str | None:
    """Why a line does not say what was to be said, or a peer would not take it."""
    if rb"\ufffd" in line:  # what stands for text that is not Unicode, or is itself the text
        try:
            json.dumps(params, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            return f"hold text that is not Unicode: {error}"
    if nesting(line) > NESTING_MAX:
        return f"are nested deeper than {NESTING_MAX} levels"
    return None
