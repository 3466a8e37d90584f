"""A host in this process: the real client, server and tools, over an engine on a chosen disk.

Everything between the client's bytes and the disk's calls is the product's own; only the
pipe, the clock and the disk are ours. Every wait is bounded.
"""

import asyncio
import itertools
import json
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from convmem.engine import Engine
from convmem.ledger import Ledger
from convmem.protocol import Client, Server, Transport, memory_pair
from convmem.storage import Disk, Environment, MemoryDisk
from convmem.tools import all_tools

T = TypeVar("T")

WAIT_S = 30.0
START_MS = 1_700_000_000_000


@dataclass
class Clock:
    """A clock that moves when told to, and random bytes that a run repeats."""

    now_ms: int = START_MS
    counter: "itertools.count[int]" = field(default_factory=itertools.count)

    def random_bytes(self, count: int) -> bytes:
        return next(self.counter).to_bytes(count, "big")

    def environment(self) -> Environment:
        return Environment(
            now_ms=lambda: self.now_ms, random_bytes=self.random_bytes, host_id=bytes(16)
        )


class Refused(Exception):
    """A tool answered with an error: ``code``, ``message`` and what else it told."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        first, _, rest = text.partition("\n")
        self.told: dict[str, Any] = json.loads(rest)["error"]
        self.code = self.told["code"]
        assert first == f"{self.code}: {self.told['message']}"


@dataclass
class Measured:
    """An end of the wire that notes the longest line that came; lines come whole."""

    end: Transport
    line_bytes_max: int = 0

    async def receive(self) -> bytes:
        data = await self.end.receive()
        self.line_bytes_max = max(self.line_bytes_max, *map(len, data.splitlines()), 0)
        return data

    def write(self, data: bytes) -> None:
        self.end.write(data)

    async def drain(self) -> None:
        await self.end.drain()

    async def close(self) -> None:
        await self.end.close()


class Host:
    """Calls tools and gives back their JSON. A context manager: closes the store at the end.

    ``wire`` tells the longest line it received, ``text_bytes`` the size of the last answer's text.
    """

    def __init__(
        self, disk: Disk | None = None, clock: Clock | None = None, *, audit: bool = False
    ) -> None:
        self.text_bytes = 0
        self.disk: Any = MemoryDisk() if disk is None else disk
        self.clock = clock or Clock()
        self._audit = audit
        self._runner = asyncio.Runner()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._runner.close()

    def restart(self) -> None:
        """End the server in good order and start one on the same disk."""
        self._stop()
        self._start()

    def abandon(self) -> None:
        """Forget the server as a crash does: nothing is closed in good order on its disk."""
        self.run(self._abandon())
        self._runner.close()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """One call. Raises Refused for a tool error."""
        return self.run(self.ask(tool, **arguments))

    def calls(self, tool: str, many: list[dict[str, Any]]) -> list[dict[str, Any] | BaseException]:
        """Calls that are all under way at once; their answers in the order given."""

        async def all_at_once() -> list[dict[str, Any] | BaseException]:
            calls = [self.ask(tool, **arguments) for arguments in many]
            return await asyncio.gather(*calls, return_exceptions=True)

        return self.run(all_at_once())

    def write(self, content: str = "text", session_id: str = "s", **more: Any) -> dict[str, Any]:
        """Write a message of a user."""
        arguments = {"session_id": session_id, "role": "user", "content": content} | more
        return self.call("write_message", **arguments)

    def read(self, view: str, **arguments: Any) -> dict[str, Any]:
        return self.call("read_messages", view=view, **arguments)

    def pages(self, view: str, items: str, **arguments: Any) -> list[list[Any]]:
        """All pages of a view, cursor after cursor."""
        pages = []
        cursor: dict[str, str] = {}
        for _ in range(10_000):
            page = self.read(view, **arguments, **cursor)
            pages.append(page[items])
            if "next_cursor" not in page:
                return pages
            cursor = {"cursor": page["next_cursor"]}
        raise AssertionError("the pages do not end")

    def run(self, work: Awaitable[T]) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, WAIT_S)

        return self._runner.run(bounded())

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """``call``, for a test that has more under way at once."""
        result = await self._client.call_tool(tool, arguments)
        self.text_bytes = len(result.text.encode())
        if result.is_error:
            raise Refused(result.text)
        assert result.structured is not None
        return dict(result.structured)

    def _start(self) -> None:
        self.run(self._connect())

    async def _connect(self) -> None:
        ledger = Ledger(self.disk, self.clock.environment(), audit=self._audit)
        self.engine = Engine(ledger)
        server = Server("convmem", "convmem", "0", all_tools(self.engine))
        host_end, server_end = memory_pair()

        async def serve() -> None:
            await server.serve(server_end)
            await server_end.close()

        self._serving = asyncio.create_task(serve())
        self.wire = Measured(host_end)
        self._client = await Client.connect(self.wire, client_name="test host")

    def _stop(self) -> None:
        self.run(self._disconnect())

    async def _disconnect(self) -> None:
        await self._client.close()
        await self._serving
        await self.engine.close()

    async def _abandon(self) -> None:
        await self._client.close()
        await self._serving
