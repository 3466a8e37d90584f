"""What carries bytes between two connections, and two ways to do it.

``Transport`` is the interface. ``memory_pair`` makes two connected ends in one event loop,
for tests and for parties in one process. ``PipeTransport`` moves the bytes of two file
descriptors, whatever they are (pipe, file, terminal, null device), with a thread for each:
an event loop can wait for pipes only, and only on some systems.

Promises: what is written arrives in order; ``write`` never waits, ``drain`` does while more
than ``BACKLOG_BYTES_MAX`` is unsent. The reading thread is at most one piece ahead of
``receive``, so a party that does not receive makes its peer wait. The threads are daemons:
one that is stuck in a read or write never holds up the end of the process.

Not here: lines, messages, processes.
"""

import asyncio
import contextlib
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from .limits import BACKLOG_BYTES_MAX, READ_BYTES


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


class PipeTransport:
    """Reads one file descriptor and writes another. Owns both.

    ``on_end`` is called once, on the event loop, as soon as the input has ended or the
    output is broken, even while nobody receives.
    """

    def __init__(
        self, read_fd: int, write_fd: int, on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._on_end = on_end
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._received = threading.Semaphore(1)
        self._ended = False  # receive has reported the end
        self._finished = False  # the input has ended or the output is broken
        self._backlog = _Backlog()
        self._at_once_bytes = _at_once_bytes(write_fd)
        self._room = asyncio.Event()
        self._room.set()
        self._written = asyncio.Event()
        for work in (self._read, self._write):
            threading.Thread(target=work, name=f"pipe {work.__name__}", daemon=True).start()

    async def receive(self) -> bytes:
        if self._ended:
            return b""
        data = await self._arrived.get()
        self._ended = not data
        self._received.release()
        return data

    def write(self, data: bytes) -> None:
        if not self._write_at_once(data):
            self._backlog.put(data)
            self._look_for_room()

    async def drain(self) -> None:
        await self._room.wait()

    async def close(self) -> None:
        self._backlog.close()
        await self._written.wait()

    def end_input(self) -> None:
        """Let ``receive`` report the end after what has arrived, as if the peer had ended."""
        self._arrived.put_nowait(b"")
        self._finish()

    def _write_at_once(self, data: bytes) -> bool:
        """Spare a short line the way through the writing thread, where that cannot block.

        A pipe that polls as writable takes ``PIPE_BUF`` bytes, whole: POSIX promises it.
        """
        if len(data) > self._at_once_bytes or not self._backlog.is_idle:
            return False
        try:
            _, writable, _ = select.select((), (self._write_fd,), (), 0)
            if not writable:
                return False
            sent = os.write(self._write_fd, data)
        except (OSError, ValueError):  # broken, or shared with who made it non-blocking
            return False
        self._backlog.put(data[sent:])
        return True

    def _finish(self) -> None:
        if not self._finished:
            self._finished = True
            self._look_for_room()
            self._on_end()

    def _look_for_room(self) -> None:
        if self._finished or self._backlog.bytes_count <= BACKLOG_BYTES_MAX:
            self._room.set()
        else:
            self._room.clear()

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _read(self) -> None:
        data = b"to be read"
        while data:
            self._received.acquire()
            data = _read_some(self._read_fd)
            self._tell(self._arrived.put_nowait, data)
        self._tell(self._finish)
        os.close(self._read_fd)

    def _write(self) -> None:
        try:
            while data := self._backlog.next():
                for start in range(0, len(data), READ_BYTES):
                    _write_all(self._write_fd, memoryview(data)[start : start + READ_BYTES])
                if self._backlog.sent(len(data)):
                    self._tell(self._look_for_room)
        except OSError:  # the reader is gone, as a host that ends is
            self._backlog.discard()
            self._tell(self._finish)
        os.close(self._write_fd)
        self._tell(self._written.set)


def _at_once_bytes(fd: int) -> int:
    """How much a writable descriptor takes without making its writer wait; 0: nobody promises."""
    if sys.platform == "win32" or not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return 0
    return select.PIPE_BUF


class _Backlog:
    """Output that waits for the writing thread: a queue that knows its bytes."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._open = True
        self.bytes_count = 0

    @property
    def is_idle(self) -> bool:
        """Whether everything that was put is sent: the thread writes nothing."""
        return self._open and not self.bytes_count

    def put(self, data: bytes) -> None:
        with self._changed:
            if self._open and data:
                self._pieces.append(data)
                self.bytes_count += len(data)
                self._changed.notify()

    def next(self) -> bytes:
        """The next piece, waiting for it; ``b""`` once closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._pieces or not self._open)
            return self._pieces.popleft() if self._pieces else b""

    def sent(self, bytes_count: int) -> bool:
        """Whether sending so many bytes has brought the backlog under its bound."""
        with self._changed:
            before = self.bytes_count
            self.bytes_count -= bytes_count
            return self.bytes_count <= BACKLOG_BYTES_MAX < before

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify()

    def discard(self) -> None:
        with self._changed:
            self._open = False
            self._pieces.clear()
            self.bytes_count = 0


def _read_some(fd: int) -> bytes:
    """Bytes, or ``b""`` at the end; a descriptor that fails has ended too."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:  # whoever shares the pipe made it non-blocking
        os.set_blocking(fd, True)
        return _read_some(fd)
    except OSError:
        return b""


def _write_all(fd: int, data: memoryview) -> None:
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            os.set_blocking(fd, True)
