"""One end of a stream socket as a transport."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import cast

from convmem.limits import GUEST_FLUSH_S
from convmem.protocol import BACKLOG_BYTES_MAX

_BUFFER_BYTES = 1 << 16


class SocketTransport(asyncio.BufferedProtocol):
    """What asyncio gives the bytes of a socket to, and those who speak over it get them from.

    It has a buffer of its own, used over and over: asyncio's streams allocate 256 KiB for every
    piece, which takes longer than all that is done with a short one. At most two pieces are read
    ahead of ``receive``. ``on_connect`` is told when there is a peer.
    """

    def __init__(self, on_connect: Callable[["SocketTransport"], None] = lambda _: None) -> None:
        self._on_connect = on_connect
        self._buffer = bytearray(_BUFFER_BYTES)
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._has_ended = False  # receive has said so
        self._is_paused = False
        self._lost = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def socket(self) -> socket.socket:
        """The socket, to ask the system about it."""
        return cast(socket.socket, self._transport.get_extra_info("socket"))

    async def receive(self) -> bytes:
        if self._has_ended:
            return b""
        data = await self._arrived.get()
        self._has_ended = not data
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        await self._room.wait()

    async def close(self) -> None:
        self._transport.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._lost.wait(), GUEST_FLUSH_S)
        self._transport.abort()  # a peer that does not read holds up nobody

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=BACKLOG_BYTES_MAX)
        self._on_connect(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._arrived.put_nowait(bytes(memoryview(self._buffer)[:nbytes]))
        if self._arrived.qsize() > 1:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._arrived.put_nowait(b"")
        return True  # it may still be written to

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._arrived.put_nowait(b"")
        self._room.set()
        self._lost.set()
