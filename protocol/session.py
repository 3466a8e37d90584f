"""One connection being served: a task for each request, over any transport.

Owns the loop from events to answers and the one place where exceptions become messages:

    RpcError                        a JSON-RPC error
    ToolError, InvalidArguments     a result with isError that the model can read
    anything else                   the same, with a text that gives nothing away

Promises: each request gets exactly one answer unless it is cancelled, and then none; at most
``REQUESTS_IN_FLIGHT_MAX`` run at once, and no more is read while more than the transport's
bound of output is unsent. When the input ends, requests in flight get ``FINISH_TIMEOUT_S``.

Not here: which bytes are which message (``connection``), which revision is spoken
(``lifecycle``), what is offered (``offer``), who wants to hear what (``interests``), what a
handler says while it works (``calls``), what a tool does.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeVar, assert_never

from . import interests
from .calls import Calls
from .connection import Cancelled, Connection, Event, EventBatch
from .errors import ErrorCode, InvalidArguments, LineTooLong, RpcError, ToolError
from .interests import Interests
from .lifecycle import Context, Negotiation, complete
from .limits import (
    CANCEL_TIMEOUT_S,
    FINISH_TIMEOUT_S,
    PARSE_ERRORS_ANSWERED_MAX,
    REPLY_BYTES_MAX,
    REQUESTS_IN_FLIGHT_MAX,
)
from .message import (
    ErrorResponse,
    Id,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    encode,
)
from .offer import Offer
from .tools import failure
from .transport import Transport

T = TypeVar("T")

OnCall = Callable[[str, float, BaseException | None], None]
"""Told of every call: the tool's name, seconds taken, and the exception that ended it."""


class Session:
    """One connection being served."""

    def __init__(
        self,
        offer: Offer,
        transport: Transport,
        *,
        on_call: OnCall | None,
        progress_delay_s: float,
        answered: Callable[[], None],
    ) -> None:
        self._offer = offer
        self._on_call = on_call
        self._transport = transport
        self._answered: Callable[[], None] | None = answered
        self._connection = Connection(batches=False)
        self._negotiation = Negotiation()
        self._interests = Interests(logging=offer.logging, on_subscribe=offer.on_subscribe)
        self._calls = Calls(self._connection, self._interests, self._write, progress_delay_s)
        self._writing = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._updated: set[str] = set()
        self._parse_errors = 0

    async def run(self) -> None:
        try:
            while data := await self._transport.receive():
                await self._take(data)
            await self._take(b"")
            for id_, result in self._interests.end():
                self._start(self._write(self._connection.send(Response(id_, result))))
            await self._settle(FINISH_TIMEOUT_S)
        finally:
            for task in self._running:
                task.cancel()
            await self._settle(CANCEL_TIMEOUT_S)

    def resource_updated(self, uri: str) -> None:
        """Tell the peer, if it wants to know; once, however often, until it reads."""
        if uri not in self._updated and any(self._interests.updated(uri)):
            self._updated.add(uri)
            self._start(self._tell_updated(uri))

    async def _tell_updated(self, uri: str) -> None:
        await self._transport.drain()
        self._updated.discard(uri)
        for notification in list(self._interests.updated(uri)):
            await self._write(self._connection.send(notification))

    async def _take(self, data: bytes) -> None:
        for event in self._connection.receive_data(data):
            await self._transport.drain()
            self._begin(event)
            # What the request changes, and what a quick one answers, comes before the next.
            await asyncio.sleep(0)
            while len(self._running) >= REQUESTS_IN_FLIGHT_MAX:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def _settle(self, timeout_s: float) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=timeout_s)

    def _begin(self, event: Event | EventBatch) -> None:
        match event:
            case Request():
                self._calls.begin(event.id, self._start(self._answer(event)))
            case EventBatch():
                self._start(self._answer_batch(event))
            case Malformed():
                self._start(self._write(self._refusal(event)))
            case Cancelled():
                self._cancel(event)
            case Response() | ErrorResponse():
                self._calls.hear(event)
            case Notification():
                pass
            case _:
                assert_never(event)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _cancel(self, event: Cancelled) -> None:
        self._interests.forget(event.id)
        self._calls.cancel(event.id)

    async def _answer(self, request: Request) -> None:
        await self._write(await self._reply(request))

    async def _answer_batch(self, batch: EventBatch) -> None:
        """One array with the answers to everything in it, or nothing if none is due."""
        refusals: list[bytes] = []
        replies: dict[Id, asyncio.Task[bytes]] = {}
        for event in batch.events:
            match event:
                case Request(id_):
                    replies[id_] = self._start(self._reply(event, alone=False))
                    self._calls.begin(id_, replies[id_])
                case Malformed():
                    refusals.append(self._refusal(event))
                case Cancelled():
                    self._cancel(event)
                case Response() | ErrorResponse():
                    self._calls.hear(event)
                case Notification():
                    pass
                case _:
                    assert_never(event)
        answered = await asyncio.gather(*replies.values(), return_exceptions=True)
        lines: list[tuple[Id | None, bytes]] = [(None, line) for line in refusals]
        for id_, line in zip(replies, answered, strict=True):
            if isinstance(line, bytes):
                lines.append((id_, line))
        await self._write(_array(lines))

    async def _write(self, line: bytes) -> None:
        async with self._writing:
            await self._transport.drain()
            self._transport.write(line)
        if line and self._answered is not None:
            self._answered()
            self._answered = None

    def _refusal(self, malformed: Malformed) -> bytes:
        if malformed.code is ErrorCode.PARSE_ERROR:
            self._parse_errors += 1
            if self._parse_errors > PARSE_ERRORS_ANSWERED_MAX:
                return b""
        return self._connection.refuse(malformed)

    async def _reply(self, request: Request, *, alone: bool = True) -> bytes:
        """The line that answers a request: the boundary where exceptions become messages.

        Empty if the request was cancelled, and perhaps its id used again, by now.
        """
        reply: Response | ErrorResponse | Notification
        try:
            if not alone and request.method in ("initialize", "subscriptions/listen"):
                problem = f"{request.method} must not be in a batch"
                raise RpcError(ErrorCode.INVALID_REQUEST, problem)
            context = self._negotiation.context(request)
            self._connection.batches = self._negotiation.batches
            if request.method == "subscriptions/listen":
                reply = self._interests.listen(request)
            else:
                result = await self._result(request, context)
                identity = self._offer.identity(context.version)
                reply = Response(request.id, complete(context, request.method, result, identity))
        except RpcError as error:
            reply = ErrorResponse(request.id, error.code, error.message, error.data)
        except Exception:
            reply = ErrorResponse(request.id, ErrorCode.INTERNAL_ERROR, "Internal error")
        if not self._calls.finish(request.id):
            return b""
        try:
            return self._connection.send(reply)
        except LineTooLong as error:
            self._interests.forget(request.id)
            return self._connection.send(_shorter(request, reply, error.bytes_count))

    async def _result(self, request: Request, context: Context) -> Mapping[str, object]:
        if request.method == "tools/call":
            return await self._call(request, context)
        if request.method in interests.METHODS:
            return self._interests.change(request)
        return await self._offer.answer(request, self._calls.call(request.id, context))

    async def _call(self, request: Request, context: Context) -> Mapping[str, object]:
        tool = self._offer.tool(request)
        raised: BaseException | None = None
        started_s = perf_counter()
        try:
            return await tool.answer(request.params, self._calls.call(request.id, context))
        except RpcError as error:
            raised = error
            raise
        except InvalidArguments as error:
            raised = error
            return failure(ToolError("INVALID_ARGUMENT", str(error)))
        except ToolError as error:
            raised = error
            return failure(error)
        except (Exception, asyncio.CancelledError) as error:
            raised = error
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise
            # Its text may quote what the user stored; its type does not.
            message = f"{tool.name} failed unexpectedly ({type(error).__name__})"
            return failure(ToolError("INTERNAL", message))
        finally:
            if self._on_call:
                with contextlib.suppress(Exception):  # a log that fails must not cost an answer
                    self._on_call(tool.name, perf_counter() - started_s, raised)


def _shorter(request: Request, reply: Message, bytes_count: int) -> Response | ErrorResponse:
    """What is said instead of a reply that does not fit a line."""
    problem = (
        f"the answer has {bytes_count} bytes and a line must not have more than "
        f"{REPLY_BYTES_MAX}: ask for less"
    )
    if request.method != "tools/call" or not isinstance(reply, Response):
        return ErrorResponse(request.id, ErrorCode.INTERNAL_ERROR, problem)
    kept = {key: reply.result[key] for key in ("resultType", "_meta") if key in reply.result}
    return Response(request.id, kept | failure(ToolError("LIMIT_EXCEEDED", problem)))


def _array(lines: Sequence[tuple[Id | None, bytes]]) -> bytes:
    """Answers as one line, or none. Those that make it too long are replaced by errors."""
    items: list[bytes] = []
    room_bytes = REPLY_BYTES_MAX - len(b"[]\n")
    for id_, line in lines:
        if len(line) > room_bytes:
            text = "the answers of the batch are too long together"
            line = encode(ErrorResponse(id_, ErrorCode.INTERNAL_ERROR, text))
        room_bytes -= len(line)
        if line:
            items.append(line.rstrip(b"\n"))
    return b"[" + b",".join(items) + b"]\n" if items else b""
