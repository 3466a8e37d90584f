"""A raw client: every message of the conversation, and nothing a host would add.

Owns the greeting, which finds out the era, and the end of the server:

    server/discover --answered--> modern
          | any error, or no answer in time
          | gone: started again
          v
    initialize      --answered--> handshake

Promises: every wait is bounded; after ``close`` no process is left. Not here: requests and
answers (``exchange``), the process (``child``), what a server may ask (``answers``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from .answers import Answer, Answers
from .child import Child
from .errors import ClientError, RequestFailed, RequestTimedOut, RpcError, ServerGone
from .exchange import Exchange, OnNotification, OnProgress
from .lifecycle import (
    HANDSHAKE_LATEST,
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    Era,
    envelope,
    mutual,
    server_info,
)
from .limits import (
    DISCOVER_TIMEOUT_S,
    INPUTS_MAX,
    PAGES_MAX,
    REQUEST_TIMEOUT_S,
    TERMINATE_TIMEOUT_S,
)
from .message import Notification, well_formed
from .transport import Transport


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a call. ``is_error`` is a failure that the tool itself reports.

    ``text`` is fit to be printed: what is not Unicode is U+FFFD there. ``raw`` is as it came.
    """

    text: str
    structured: Mapping[str, object] | None
    is_error: bool
    raw: Mapping[str, object]


class Client:
    """Made by ``start`` or ``connect``; also an async context manager that closes it."""

    server_name: str
    server_version: str
    protocol_version: str
    instructions: str | None
    capabilities: Mapping[str, object]

    def __init__(
        self,
        peer: Child | Transport,
        info: Mapping[str, object],
        answers: Mapping[str, Answer] | None,
        timeout_s: float,
        on_notification: OnNotification | None,
    ) -> None:
        """``info`` is the client's own name and version. See ``start`` and ``connect``."""
        self._child = peer if isinstance(peer, Child) else None
        self._transport = peer.transport if isinstance(peer, Child) else peer
        self._info = info
        self._answers = Answers(answers or {})
        self._timeout_s = timeout_s
        self._exchange = Exchange(
            self._transport, self._answers, self._what_became, on_notification or _ignore
        )

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
        era: Era | None = None,
        answers: Mapping[str, Answer] | None = None,
        on_notification: OnNotification | None = None,
    ) -> Self:
        """Start a server and greet it. ``timeout_s`` is the patience for every answer.

        ``era`` is the only one to try; None tries both. ``answers``, by method, are for what
        the server asks; what is missing there is refused. ``on_notification`` is told what the
        server says unasked.
        """
        info = {"name": client_name, "version": client_version}
        client = cls(Child(command, env, cwd), info, answers, timeout_s, on_notification)
        try:
            await client._greet(era)
        except ServerGone:
            if era is not None:
                raise
            # Some old servers leave when the first request is not the one they know.
            client = cls(Child(command, env, cwd), info, answers, timeout_s, on_notification)
            await client._greet(Era.HANDSHAKE)
        return client

    @classmethod
    async def connect(
        cls,
        transport: Transport,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        client_name: str = "convmem",
        client_version: str = "0",
        era: Era | None = None,
        answers: Mapping[str, Answer] | None = None,
        on_notification: OnNotification | None = None,
    ) -> Self:
        """Greet a server that is at the other end of ``transport``."""
        info = {"name": client_name, "version": client_version}
        client = cls(transport, info, answers, timeout_s, on_notification)
        await client._greet(era)
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
            well_formed(text),
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

        ClientError for params that the wire would change or the server not take, and for a
        result that requires input which nobody gives. ``timeout_s`` is for each answer.
        """
        patience_s = self._timeout_s if timeout_s is None else timeout_s
        asked = params or {}
        inputs: Mapping[str, object] = {}
        for _ in range(INPUTS_MAX):
            said = {**asked, **inputs}
            result = await self._exchange.request(method, said, patience_s, on_progress)
            if result.get("resultType") != "input_required":
                return result
            try:
                inputs = await self._answers.inputs(result)
            except RpcError as error:
                raise ClientError(f"{method} requires input that is not given: {error}") from error
        raise ClientError(f"{method} requires input more than {INPUTS_MAX} times")

    async def notify(self, method: str, params: Mapping[str, object] | None = None) -> None:
        """Tell the server something that has no answer."""
        await self._exchange.notify(method, params or {})

    async def close(self) -> None:
        """End the server politely, then less so. Takes seconds at most; may be repeated."""
        if self._child:
            await self._child.close()
        else:
            await self._transport.close()
        await self._exchange.end()

    def kill(self) -> None:
        """End the server at once, as a crash would. ``close`` is still due."""
        if self._child:
            self._child.kill()

    async def _what_became(self) -> ServerGone:
        if self._child:
            await self._child.wait(TERMINATE_TIMEOUT_S)
        return ServerGone(self._child.returncode if self._child else None, self.stderr_tail)

    async def _greet(self, era: Era | None) -> None:
        try:
            if era is Era.HANDSHAKE or not await self._discover(must=era is Era.MODERN):
                await self._shake_hands()
        except BaseException:
            await self.close()
            raise

    async def _discover(self, *, must: bool) -> bool:
        """Whether the server speaks the modern era; raises if it ``must`` and does not."""
        failure = ClientError("the server speaks no modern version that we know")
        patience_s = min(DISCOVER_TIMEOUT_S, self._timeout_s)
        version: str | None = MODERN_VERSIONS[-1]
        for _ in range(2):  # the answer to the first may name another version
            if version is None:
                break
            self._exchange.envelope = envelope(version, self._info, self._answers.capabilities)
            try:
                found = await self._exchange.request("server/discover", {}, patience_s)
            except (RequestFailed, RequestTimedOut) as error:
                failure = error
                data = error.data if isinstance(error, RequestFailed) else None
                version = mutual(_mapping(data).get("supported"))
            else:
                asked, version = version, mutual(found.get("supportedVersions"))
                if version == asked:
                    self._met(version, server_info(found), found)
                    return True
        self._exchange.envelope = {}
        if must:
            raise failure
        return False

    async def _shake_hands(self) -> None:
        offer = {
            "protocolVersion": HANDSHAKE_LATEST,
            "capabilities": self._answers.capabilities,
            "clientInfo": self._info,
        }
        result = await self._exchange.request("initialize", offer, self._timeout_s)
        version = result.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            raise ClientError(f"the server speaks the unknown version {version!r}")
        self._met(str(version), _mapping(result.get("serverInfo")), result)
        await self.notify("notifications/initialized")

    def _met(self, version: str, server: Mapping[str, object], said: Mapping[str, object]) -> None:
        instructions = said.get("instructions")
        self.protocol_version = version
        self.server_name = str(server.get("name", ""))
        self.server_version = str(server.get("version", ""))
        self.instructions = instructions if isinstance(instructions, str) else None
        self.capabilities = _mapping(said.get("capabilities"))


def _ignore(notification: Notification) -> None:
    pass


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
