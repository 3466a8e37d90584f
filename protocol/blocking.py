"""``Client`` for programs without an event loop: its loop runs on a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from .client import Client, ToolResult
from .exchange import OnProgress
from .lifecycle import Era
from .limits import REQUEST_TIMEOUT_S

T = TypeVar("T")


class BlockingClient:
    """Made with a command; also a context manager that closes it. Methods are as ``Client``'s."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        client_name: str = "convmem",
        client_version: str = "0",
        era: Era | None = None,
    ) -> None:
        """Start a server and greet it, as ``Client.start`` does."""
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
                    era=era,
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
