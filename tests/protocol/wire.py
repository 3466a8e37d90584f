"""A peer that speaks to a server byte for byte, and has all that it hears judged."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from convmem.protocol import LineReader, Server, memory_pair

from .judge import judged

PATIENCE_S = 20.0
HANDSHAKE_2025_11 = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "wire", "version": "1"},
    },
}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
}
Json = dict[str, Any]


def request(method: str, params: object = None, id_: object = 1) -> Json:
    message: Json = {"jsonrpc": "2.0", "id": id_, "method": method}
    return message if params is None else message | {"params": params}


def initialize(version: object, **params: object) -> Json:
    return request("initialize", {"protocolVersion": version, "capabilities": {}} | params, 0)


def call(name: str, arguments: object = None, id_: object = 1, **meta: object) -> Json:
    params: Json = {"name": name, "arguments": {} if arguments is None else arguments}
    return request("tools/call", params | ({"_meta": meta} if meta else {}), id_)


def cancel(id_: object) -> Json:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}


def line(message: object) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"


class Peer:
    """The other end of a served transport. Every wait is bounded."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._lines = LineReader()
        self._arrived: list[bytes | None] = []

    def send(self, *messages: object) -> None:
        self._transport.write(b"".join(map(line, messages)))

    async def next(self) -> Any:
        """The next message written, without its ``jsonrpc``; None at the end."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._arrived:
                data = await self._transport.receive()
                if not data:
                    assert self._lines.close() == []
                    return None
                self._arrived += self._lines.feed(data)
        written = self._arrived.pop(0)
        assert written is not None
        return judged(written)

    async def end(self) -> list[Any]:
        """End the input; what is still written until the server has ended too."""
        await self._transport.close()
        rest: list[Any] = []
        while (message := await self.next()) is not None:
            rest.append(message)
        return rest


@asynccontextmanager
async def served(server: Server) -> AsyncIterator[Peer]:
    ours, theirs = memory_pair()

    async def serve() -> None:
        await server.serve(theirs)
        await theirs.close()

    async with asyncio.TaskGroup() as group:
        group.create_task(serve())
        yield Peer(ours)
        await ours.close()


def conversation(server: Server, *messages: object) -> list[Any]:
    """All that a server writes when it is sent these lines and then the end."""

    async def converse() -> list[Any]:
        async with served(server) as peer:
            peer.send(*messages)
            return await peer.end()

    return asyncio.run(converse())
