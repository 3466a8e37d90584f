"""What carries bytes between two connections, and the simplest way to do it.

``Transport`` is the interface. ``memory_pair`` makes two connected ends in one event loop,
for tests and for parties in one process; ``pipes`` has the ends of real ones.

Promises: what is written arrives in order; ``write`` never waits, ``drain`` does while more
than ``BACKLOG_BYTES_MAX`` is unsent.

Not here: lines, messages, processes.
"""

import asyncio
from typing import Protocol


class Transport(Protocol):
    """One end. All methods are called on the event loop."""

    async def receive(self) -> bytes:
        """The next piece of input; ``b""`` at its end and ever after."""

    def write(self, data: bytes) -> None:
        """Hand ``data`` to the peer. Silently dropped if the peer is gone."""

    async def drain(self) -> None:
        """Wait until there is room to write, or no reason to wait: the peer has ended."""

    async def close(self) -> None:
        """Send what is written, then end the output. Waits as long as the peer makes it."""


class MemoryTransport:
    """One end of ``memory_pair``."""

    def __init__(self, inbox: "asyncio.Queue[bytes]", outbox: "asyncio.Queue[bytes]") -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._ended = False
        self._closed = False

    async def receive(self) -> bytes:
        if self._ended:
            return b""
        data = await self._inbox.get()
        self._ended = not data
        return data

    def write(self, data: bytes) -> None:
        if data and not self._closed:
            self._outbox.put_nowait(data)

    async def drain(self) -> None:
        pass

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._outbox.put_nowait(b"")


def memory_pair() -> tuple[Transport, Transport]:
    """Two ends: what one writes the other receives."""
    there: asyncio.Queue[bytes] = asyncio.Queue()
    back: asyncio.Queue[bytes] = asyncio.Queue()
    return MemoryTransport(there, back), MemoryTransport(back, there)
