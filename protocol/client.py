"""A raw client: every message of the conversation, and nothing a host would add.

Owns the reading of answers, timeouts, and the handshake. Promises: an answer is matched to
its request by id; every wait is bounded; a call that times out is cancelled at the server
and its late answer ignored; noise on the server's output is skipped and never answered;
after ``close`` or ``kill`` no process is left.

``BlockingClient`` is the same without ``await``. The modern era is not spoken yet.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar, assert_never

from .child import Child
from .connection import Cancelled, Connection, Event, EventBatch
from .errors import (
    ClientError,
    ErrorCode,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
)
from .lifecycle import HANDSHAKE_LATEST, HANDSHAKE_VERSIONS
from .limits import PAGES_MAX, REQUEST_TIMEOUT_S, TERMINATE_TIMEOUT_S
from .message import ErrorResponse, Malformed, Notification, Request, Response
from .transport import Transport

T = TypeVar("T")
OnProgress = Callable[[float, float | None, str | None], None]
"""Told how much is done, of how much, and what the server says about it."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a call. ``is_error`` is a failure that the tool itself reports."""

    text: str
    structured: Mapping[str, object] | None
    is_error: bool
    raw: Mapping[str, object]


@dataclass(slots=True)
class _Waiting:
    answer: "asyncio.Future[Response | ErrorResponse]"
    on_progress: OnProgress | None


class Client:
    """Made by ``start`` or ``connect``; also an async context manager that closes it."""

    server_name: str
    server_version: str
    protocol_version: str
    instructions: str | None
    capabilities: Mapping[str, object]

    def __init__(self, transport: Transport, child: Child | None, timeout_s: float) -> None:
        self._transport = transport
        self._child = child
        self._timeout_s = timeout_s
        self._connection = Connection(batches=True)
        self._waiting: dict[int, _Waiting] = {}
        self._gone: ServerGone | None = None
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        client_name: str = "convmem",
        client_version: str = "0",
    ) -> Self:
        """Start a server and shake hands. ``timeout_s`` is the patience for every answer."""
        child = Child(command, env, cwd)
        client = cls(child.transport, child, timeout_s)
        await client._greet(client_name, client_version)
        return client

    @classmethod
    async def connect(
        cls,
        transport: Transport,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        client_name: str = "convmem",
        client_version: str = "0",
    ) -> Self:
        """Shake hands with a server that is at the other end of ``transport``."""
        client = cls(transport, None, timeout_s)
        await client._greet(client_name, client_version)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def stderr_tail(self) -> str:
        return self._child.stderr_tail if self._child else ""

    async def list_tools(self) -> list[Mapping[str, object]]:
        """Every tool's entry, of all pages up to ``PAGES_MAX``."""
        tools: list[Mapping[str, object]] = []
        seen: set[str] = set()
        params: Mapping[str, object] = {}
        for _ in range(PAGES_MAX):
            page = await self.request("tools/list", params)
            entries = page.get("tools")
            tools += [each for each in _list(entries) if isinstance(each, Mapping)]
            cursor = page.get("nextCursor")
            # An empty cursor is one; a repeated one would go round for ever.
            if not isinstance(cursor, str) or cursor in seen:
                break
            seen.add(cursor)
            params = {"cursor": cursor}
        return tools

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object],
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Call a tool. A failure that it reports is a result, not an exception."""
        raw = await self.request(
            "tools/call",
            {"name": name, "arguments": arguments},
            timeout_s=timeout_s,
            on_progress=on_progress,
        )
        blocks = [each for each in _list(raw.get("content")) if isinstance(each, Mapping)]
        text = "\n".join(str(each.get("text", "")) for each in blocks if each.get("type") == "text")
        structured = raw.get("structuredContent")
        return ToolResult(
            text,
            structured if isinstance(structured, Mapping) else None,
            raw.get("isError") is True,
            raw,
        )

    async def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Mapping[str, object]:
        """The result of any request. RequestFailed, RequestTimedOut or ServerGone.

        ClientError, with nothing sent, for text that is not Unicode: the wire would change it.
        """
        if self._gone:
            raise self._gone
        _refuse_lone_surrogates(params)
        id_, line = self._connection.request(method, params or {}, progress=on_progress is not None)
        answer: asyncio.Future[Response | ErrorResponse] = asyncio.Future()
        self._waiting[id_] = _Waiting(answer, on_progress)
        patience_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(patience_s):
                self._transport.write(line)
                await self._transport.drain()
                reply = await answer
        except TimeoutError:
            raise RequestTimedOut(method, patience_s) from None
        finally:
            del self._waiting[id_]
            # The specification forbids to cancel the handshake, whatever became of it.
            if not answer.done() or answer.cancelled():
                cancelled = self._connection.cancel(id_, "no longer wanted")
                if method != "initialize":
                    self._transport.write(cancelled)
        if isinstance(reply, ErrorResponse):
            raise RequestFailed(reply.code, reply.message, reply.data)
        return reply.result

    async def notify(self, method: str, params: Mapping[str, object] | None = None) -> None:
        """Tell the server something that has no answer."""
        self._transport.write(self._connection.send(Notification(method, params or {})))
        await self._transport.drain()

    async def close(self) -> None:
        """End the server politely, then less so. Takes seconds at most; may be repeated."""
        if self._child:
            await self._child.close()
        else:
            await self._transport.close()
        await asyncio.wait({self._reading}, timeout=TERMINATE_TIMEOUT_S)
        self._reading.cancel()

    def kill(self) -> None:
        """End the server at once, as a crash would. ``close`` is still due."""
        if self._child:
            self._child.kill()

    async def _greet(self, client_name: str, client_version: str) -> None:
        try:
            await self._shake_hands(client_name, client_version)
        except BaseException:
            await self.close()
            raise

    async def _shake_hands(self, client_name: str, client_version: str) -> None:
        offer = {
            "protocolVersion": HANDSHAKE_LATEST,
            "capabilities": {},
            "clientInfo": {"name": client_name, "version": client_version},
        }
        result = await self.request("initialize", offer)
        version = result.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            raise ClientError(f"the server speaks the unknown version {version!r}")
        server, capabilities = result.get("serverInfo"), result.get("capabilities")
        server = server if isinstance(server, Mapping) else {}
        instructions = result.get("instructions")
        self.protocol_version = str(version)
        self.server_name = str(server.get("name", ""))
        self.server_version = str(server.get("version", ""))
        self.instructions = instructions if isinstance(instructions, str) else None
        self.capabilities = capabilities if isinstance(capabilities, Mapping) else {}
        await self.notify("notifications/initialized")

    async def _read(self) -> None:
        while data := await self._transport.receive():
            for event in self._connection.receive_data(data):
                self._take(event)
        if self._child:
            await self._child.wait(TERMINATE_TIMEOUT_S)
        self._gone = ServerGone(self._child.returncode if self._child else None, self.stderr_tail)
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(self._gone)

    def _take(self, event: Event | EventBatch) -> None:
        match event:
            case Response(id_) | ErrorResponse(id_):
                waiting = self._waiting.get(id_) if isinstance(id_, int) else None
                if waiting and not waiting.answer.done():
                    waiting.answer.set_result(event)
            case Request(id_, "ping"):
                self._transport.write(self._connection.send(Response(id_, {})))
            case Request(id_):
                refusal = ErrorResponse(id_, ErrorCode.METHOD_NOT_FOUND, "Method not found")
                self._transport.write(self._connection.send(refusal))
            case Notification("notifications/progress", params):
                self._report(params)
            case EventBatch(events):
                for each in events:
                    self._take(each)
            case Notification() | Malformed() | Cancelled():
                pass
            case _:
                assert_never(event)

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


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _refuse_lone_surrogates(params: Mapping[str, object] | None) -> None:
    try:
        json.dumps(params, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ClientError(f"params hold text that is not Unicode: {error}") from error


class BlockingClient:
    """``Client`` for programs without an event loop: its loop runs on a thread of its own."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        client_name: str = "convmem",
        client_version: str = "0",
    ) -> None:
        """Start a server and shake hands, as ``Client.start`` does."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="client", daemon=True)
        self._thread.start()
        try:
            self._core = self._wait(
                Client.start(
                    command,
                    env=env,
                    cwd=cwd,
                    timeout_s=timeout_s,
                    client_name=client_name,
                    client_version=client_version,
                )
            )
        except BaseException:
            self._stop()
            raise
        self.server_name = self._core.server_name
        self.server_version = self._core.server_version
        self.protocol_version = self._core.protocol_version
        self.instructions = self._core.instructions
        self.capabilities = self._core.capabilities
        self.pid = self._core.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stderr_tail(self) -> str:
        return self._core.stderr_tail

    def list_tools(self) -> list[Mapping[str, object]]:
        return self._wait(self._core.list_tools())

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object],
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        return self._wait(
            self._core.call_tool(name, arguments, timeout_s=timeout_s, on_progress=on_progress)
        )

    def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Mapping[str, object]:
        return self._wait(self._core.request(method, params, timeout_s=timeout_s))

    def notify(self, method: str, params: Mapping[str, object] | None = None) -> None:
        self._wait(self._core.notify(method, params))

    def kill(self) -> None:
        self._core.kill()

    def close(self) -> None:
        if not self._loop.is_closed():
            self._wait(self._core.close())
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
