"""A transport over two file descriptors, whatever they are: pipe, socket, file, terminal.

What an event loop can wait for, it reads itself, and writes itself as much as is taken without
waiting: a thread costs each message two changes of thread, which take longer than most of
what is done with it. The rest has a thread for each direction, that starts when it is needed.

Promises, beside those of every transport: at most one piece is read ahead of ``receive``, so a
party that does not receive makes its peer wait. The mode of a descriptor is left as it is, since
others may share it. The threads are daemons: one that is stuck in a read or write never holds
up the end of the process.
"""

import asyncio
import contextlib
import os
import select
import socket
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable

from .limits import AT_ONCE_BYTES_MAX, BACKLOG_BYTES_MAX, READ_BYTES


class PipeTransport:
    """Reads one file descriptor and writes another. Owns both.

    ``on_end`` is called once, on the event loop, as soon as the input has ended or the
    output is broken, even while nobody receives.
    """

    def __init__(
        self, read_fd: int, write_fd: int, on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._on_end = on_end
        self._finished = False
        self._input = _Input(read_fd, self._finish)
        self._output = _Output(write_fd, self._finish)

    async def receive(self) -> bytes:
        return await self._input.receive()

    def write(self, data: bytes) -> None:
        self._output.write(data)

    async def drain(self) -> None:
        await self._output.room.wait()

    async def close(self) -> None:
        await self._output.close()

    def end_input(self) -> None:
        """Let ``receive`` report the end after what has arrived, as if the peer had ended."""
        self._input.end()
        self._finish()

    def _finish(self) -> None:
        if not self._finished:
            self._finished = True
            self._output.peer_has_ended()
            self._on_end()


class _Input:
    """What arrives at a descriptor. ``on_end`` is told on the loop when nothing more does."""

    def __init__(self, fd: int, on_end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._on_end = on_end
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._ended = False  # receive has reported the end
        self._paused = False
        self._received = threading.Semaphore(1)
        self._by_loop = _can_be_waited_for(fd)
        if self._by_loop:
            self._loop.add_reader(fd, self._read_ready)
        else:
            threading.Thread(target=self._read_on, name="pipe reader", daemon=True).start()

    async def receive(self) -> bytes:
        if self._ended:
            return b""
        data = await self._arrived.get()
        self._ended = not data
        if not self._by_loop:
            self._received.release()
        elif self._paused:
            self._paused = False
            self._loop.add_reader(self._fd, self._read_ready)
        return data

    def end(self) -> None:
        self._arrived.put_nowait(b"")

    def _read_ready(self) -> None:
        """Take a piece in; if one waits to be received already, look no more until it is."""
        if not self._arrived.empty():
            self._paused = True
            self._loop.remove_reader(self._fd)
        elif (data := _read_some(self._fd)) is not None:
            self._take(data)

    def _read_on(self) -> None:
        data: bytes | None = b"to be read"
        while data or data is None:
            self._received.acquire()
            while (data := _read_some(self._fd)) is None:
                os.set_blocking(self._fd, True)  # who shares it made it non-blocking
            _tell(self._loop, self._take, data)

    def _take(self, data: bytes) -> None:
        self._arrived.put_nowait(data)
        if not data:
            if self._by_loop:
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._on_end()


class _Output:
    """What is sent to a descriptor. ``on_break`` is told on the loop when nobody reads it.

    The first line of a turn of the loop goes at once, the others of the same turn in one piece:
    the answers to what was made durable together, mostly. ``room`` is set unless too much is
    unsent.
    """

    def __init__(self, fd: int, on_break: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._on_break = on_break
        self._gathered = bytearray()
        self._is_gathering = False
        self._socket = socket.socket(fileno=fd) if _is_socket(fd) else None
        self._is_pipe = sys.platform != "win32" and stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._backlog = _Backlog()
        self._peer_ended = False
        self._writing: threading.Thread | None = None
        self._written = asyncio.Event()
        self.room = asyncio.Event()
        self.room.set()

    def write(self, data: bytes) -> None:
        self._gathered += data
        if not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self._end_turn)
            self._send()
        elif len(self._gathered) > READ_BYTES:
            self._send()

    def _end_turn(self) -> None:
        self._is_gathering = False
        self._send()

    async def close(self) -> None:
        self._send()
        self._backlog.close()
        self._start_writing()  # it closes the descriptor
        await self._written.wait()

    def peer_has_ended(self) -> None:
        """Nobody need wait for room any more."""
        self._peer_ended = True
        self.room.set()

    def _send(self) -> None:
        """Send what was gathered, or have the thread send what is not taken at once."""
        if not self._gathered:
            return
        data = bytes(self._gathered)
        self._gathered.clear()
        if self._backlog.is_idle:
            with contextlib.suppress(OSError, ValueError):  # broken: the thread finds out
                while 0 < len(data) <= AT_ONCE_BYTES_MAX and (sent := self._send_at_once(data)):
                    data = data[sent:]
        if data:
            self._backlog.put(data)
            self._start_writing()
            self._look_for_room()

    def _start_writing(self) -> None:
        if self._writing is None:
            self._writing = threading.Thread(target=self._write_on, name="pipe writer", daemon=True)
            self._writing.start()

    def _look_for_room(self) -> None:
        if self._peer_ended or self._backlog.bytes_count <= BACKLOG_BYTES_MAX:
            self.room.set()
        else:
            self.room.clear()

    def _write_on(self) -> None:
        try:
            while data := self._backlog.next():
                for start in range(0, len(data), READ_BYTES):
                    _write_all(self._fd, memoryview(data)[start : start + READ_BYTES])
                if self._backlog.sent(len(data)):
                    _tell(self._loop, self._look_for_room)
        except OSError:  # the reader is gone, as a host that ends is
            self._backlog.discard()
            _tell(self._loop, self._on_break)
        if self._socket is None:
            os.close(self._fd)
        else:
            self._socket.close()
        _tell(self._loop, self._written.set)

    def _send_at_once(self, data: bytes) -> int:
        """Send as much as is taken without waiting: so many bytes. Raises OSError, ValueError."""
        if self._socket is not None:
            return _send_to_socket(self._socket, data)
        return _send_to_pipe(self._fd, data) if self._is_pipe else 0


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


def _can_be_waited_for(fd: int) -> bool:
    """Whether an event loop can tell when there is something to read, on this system."""
    return sys.platform != "win32" and (_is_socket(fd) or stat.S_ISFIFO(os.fstat(fd).st_mode))


def _is_socket(fd: int) -> bool:
    """Whether it is one, on a system where a socket is a descriptor."""
    return hasattr(socket, "MSG_DONTWAIT") and stat.S_ISSOCK(os.fstat(fd).st_mode)


if sys.platform == "linux":
    import fcntl
    import struct
    import termios

    def _room_bytes(fd: int) -> int:
        """What a pipe takes without making its writer wait: all it can hold while it is empty."""
        unread = bytearray(struct.calcsize("i"))
        fcntl.ioctl(fd, termios.FIONREAD, unread)
        return _polled_room_bytes(fd) if any(unread) else fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)

else:

    def _room_bytes(fd: int) -> int:
        """What a pipe takes without making its writer wait."""
        return _polled_room_bytes(fd)


def _polled_room_bytes(fd: int) -> int:
    """A pipe that polls as writable takes ``PIPE_BUF`` bytes, whole: POSIX promises it."""
    return select.PIPE_BUF if select.select((), (fd,), (), 0)[1] else 0


def _send_to_pipe(fd: int, data: bytes) -> int:
    room_bytes = _room_bytes(fd)
    return os.write(fd, data[:room_bytes]) if room_bytes else 0


def _send_to_socket(peer: socket.socket, data: bytes) -> int:
    try:
        return peer.send(data, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return 0


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *given: object) -> None:
    """Call on the loop, from a thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
        loop.call_soon_threadsafe(callback, *given)


def _read_some(fd: int) -> bytes | None:
    """Bytes; ``b""`` at the end, where a failing descriptor is as well; None for nothing yet."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _write_all(fd: int, data: memoryview) -> None:
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            os.set_blocking(fd, True)
