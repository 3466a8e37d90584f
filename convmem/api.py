"""A memory for Python programs: the same operations as the tools, as plain calls that wait.

    with convmem.open("/home/you/.convmem") as memory:
        memory.memory_set("user/theme", "dark")

Everything runs on an event loop in a thread of its own, over the same tools as a host's calls:
arguments are checked, limits hold, and a store that a server has open is shared with it.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from convmem.errors import Code, Refusal
from convmem.limits import BUSY_TIMEOUT_MS
from convmem.message import Role
from convmem.operations import Order
from convmem.protocol import InvalidArguments, Tool, ToolError
from convmem.sharing.shared import SharedMemory
from convmem.sharing.surroundings import LocalSurroundings
from convmem.tools import all_tools

T = TypeVar("T")
Json = dict[str, Any]
OnProgress = Callable[[float, float | None], None]

_CLIENT = "python"


class Memory:
    """An open memory. Answers are the JSON objects that docs/tools.md describes.

    Every method raises ``Refusal``, with a code, for what is not granted. Of one thread or
    many: calls may come from any.
    """

    def __init__(
        self, data_dir: Path, *, client_id: str, exclusive: bool, busy_timeout_ms: int
    ) -> None:
        busy_timeout_s = busy_timeout_ms / 1000
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="convmem-api", daemon=True
        )
        self._thread.start()
        surroundings = LocalSurroundings(
            data_dir.absolute(), busy_timeout_s=busy_timeout_s, embedder="universal"
        )
        self._memory = SharedMemory(
            surroundings, exclusive=exclusive, busy_timeout_s=busy_timeout_s
        )
        self._tools: dict[str, Tool[Any]] = {
            tool.name: tool for tool in all_tools(self._memory, client_id)
        }
        try:
            self.get_system_health()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is under way and let go of the store. May be called twice."""
        if self._loop.is_closed():
            return
        self._run(self._memory.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def write_message(
        self,
        session_id: str,
        role: Role,
        content: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        message_id: str | None = None,
    ) -> Json:
        """Store a message; on disk when this returns."""
        return self.call(
            "write_message",
            session_id=session_id,
            role=role,
            content=content,
            metadata=metadata,
            message_id=message_id,
        )

    def update_message(
        self,
        message_id: str,
        expected_revision: int,
        *,
        content: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        clear: Sequence[str] | None = None,
    ) -> Json:
        """Change text or metadata of a message that has this revision."""
        return self.call(
            "update_message",
            message_id=message_id,
            expected_revision=expected_revision,
            content=content,
            metadata=metadata,
            clear=None if clear is None else list(clear),
        )

    def delete_message(
        self,
        message_id: str,
        *,
        session_id: str | None = None,
        expected_revision: int | None = None,
    ) -> Json:
        """Remove a message."""
        return self.call(
            "delete_message",
            message_id=message_id,
            session_id=session_id,
            expected_revision=expected_revision,
        )

    def read_messages(self, view: str, **arguments: Any) -> Json:
        """One page of a view: history, content, context, sessions or export."""
        return self.call("read_messages", view=view, **arguments)

    def history(self, session_id: str, *, order: Order = "oldest_first") -> Iterator[Json]:
        """All messages of a session, page after page as they are asked for."""
        return self._pages(
            "read_messages", "messages", view="history", session_id=session_id, order=order
        )

    def sessions(self, *, prefix: str | None = None) -> Iterator[Json]:
        """All sessions, the newest first."""
        return self._pages("read_messages", "sessions", view="sessions", prefix=prefix)

    def search_messages(self, query: str, **filters: Any) -> Json:
        """The messages that answer a query best."""
        return self.call("search_messages", query=query, **filters)

    def memory_set(
        self,
        key: str,
        value: str,
        *,
        expected_value: str | None = None,
        expected_revision: int | None = None,
        require_absent: bool = False,
        client_id: str | None = None,
    ) -> Json:
        """Give a key a value, if what is there is as expected."""
        return self.call(
            "memory_set",
            key=key,
            value=value,
            expected_value=expected_value,
            expected_revision=expected_revision,
            require_absent=require_absent,
            client_id=client_id,
        )

    def memory_get(self, key: str, *, include_events: bool = False) -> Json:
        """The value of a key."""
        return self.call("memory_get", key=key, include_events=include_events)

    def memory_list(self, *, prefix: str | None = None) -> Iterator[Json]:
        """All facts whose key begins so, by key."""
        return self._pages("memory_list", "facts", prefix=prefix)

    def memory_delete(
        self,
        key: str,
        *,
        expected_value: str | None = None,
        expected_revision: int | None = None,
        purge: bool = False,
        client_id: str | None = None,
    ) -> Json:
        """Take a key's value away; with ``purge`` its history as well."""
        return self.call(
            "memory_delete",
            key=key,
            expected_value=expected_value,
            expected_revision=expected_revision,
            purge=purge,
            client_id=client_id,
        )

    def memory_search(
        self, query: str, *, top_k: int | None = None, prefix: str | None = None
    ) -> Json:
        """The facts that answer a query best."""
        return self.call("memory_search", query=query, top_k=top_k, prefix=prefix)

    def memory_history(self, key: str) -> Iterator[Json]:
        """All that happened to a key, the newest first."""
        return self._pages("memory_history", "events", key=key)

    def rebuild_index(self, on_progress: OnProgress | None = None) -> Json:
        """Write the store anew with only what counts.

        ``on_progress`` is told how much is done and of how much, in a thread of the memory's.
        """
        tool = self._tools["rebuild_index"]
        return self._run(lambda: self._called(tool, {}, _Call(on_progress)))

    def get_system_health(self) -> Json:
        """How the memory is. Raises Refusal for one that cannot be opened."""
        report = self.call("get_system_health")
        if report["status"] == "unavailable":
            error = dict(report["error"])
            raise Refusal(Code(error.pop("code")), error.pop("message"), **error)
        return report

    def call(self, tool: str, **arguments: Any) -> Json:
        """Any tool by its name; arguments that are None are left out."""
        given = {name: value for name, value in arguments.items() if value is not None}
        return self._run(lambda: self._called(self._tools[tool], given, _Call()))

    async def _called(self, tool: Tool[Any], arguments: Mapping[str, Any], call: "_Call") -> Json:
        try:
            answer = await tool.answer({"arguments": arguments}, call)
        except InvalidArguments as error:
            raise Refusal(Code.INVALID_ARGUMENT, str(error)) from error
        except ToolError as error:
            raise Refusal(Code(error.code), error.message, **error.details) from error
        return dict(answer["structuredContent"])  # type: ignore[call-overload, no-any-return]

    def _pages(self, tool: str, items: str, **arguments: Any) -> Iterator[Json]:
        page = self.call(tool, **arguments)
        yield from page[items]
        while "next_cursor" in page:
            page = self.call(tool, **arguments, cursor=page["next_cursor"])
            yield from page[items]

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        if self._loop.is_closed():
            raise ValueError("the memory is closed")

        async def awaited() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


class _Call:
    """What a handler may know of a call that no host made."""

    client_name = _CLIENT
    client_capabilities: Mapping[str, object] = {}
    protocol_version = "2025-11-25"

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self._on_progress = on_progress

    async def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Who called is told, if they want to know."""
        if self._on_progress is not None:
            self._on_progress(done, total)

    async def log(self, level: str, data: object, logger: str | None = None) -> None:
        """Nobody is told."""

    async def ask(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """There is nobody to ask."""
        raise NotImplementedError(method)


def open_memory(
    path: str | Path,
    *,
    client_id: str = _CLIENT,
    exclusive: bool = False,
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
) -> Memory:
    """Open the memory in a folder, made if missing; a server may have it open as well.

    ``client_id`` is who writes are attributed to. ``exclusive`` shares it with nobody. Raises
    Refusal.
    """
    return Memory(
        Path(path).expanduser(),
        client_id=client_id,
        exclusive=exclusive,
        busy_timeout_ms=busy_timeout_ms,
    )
