"""The life of a process that speaks over its own stdin and stdout.

Owns the process's standard streams and signals. One path ends it, whatever the reason: the
input ends, the output breaks, SIGINT, SIGTERM or SIGHUP, or the parent is gone.

    serving --reason--> finish what is in flight --> close --> deliver what is written --> end
                 \\____________________ CLOSE_TIMEOUT_S ____________________/

The deadline is armed with the first reason and is never disarmed: at its end the process
exits with status 0, even if a thread is stuck in a write that nobody reads.

While serving, descriptor 0 is the null device and 1 is stderr, the real ones being private:
whatever a library prints cannot corrupt the wire, nor a child process read from it.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable

from .limits import CANCEL_TIMEOUT_S, CLOSE_TIMEOUT_S, FINISH_TIMEOUT_S, PARENT_POLL_S
from .pipes import PipeTransport
from .transport import Transport

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # not every system has all


def run(
    serve: Callable[[Transport], Awaitable[None]], closing: Callable[[], Awaitable[None]]
) -> int:
    """Serve on stdin and stdout, then close. Returns the exit status. Main thread only."""
    read_fd, write_fd = _claim()
    asyncio.run(_live(read_fd, write_fd, serve, closing))
    return 0


async def _live(
    read_fd: int,
    write_fd: int,
    serve: Callable[[Transport], Awaitable[None]],
    closing: Callable[[], Awaitable[None]],
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in _SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: loop.call_soon_threadsafe(stop.set))
    transport = PipeTransport(read_fd, write_fd, on_end=stop.set)
    watching = asyncio.create_task(_watch_parent(stop))
    serving = asyncio.ensure_future(serve(transport))
    serving.add_done_callback(lambda _: stop.set())
    await stop.wait()
    _arm_deadline()
    watching.cancel()
    transport.end_input()
    try:
        await asyncio.wait({serving}, timeout=FINISH_TIMEOUT_S + CANCEL_TIMEOUT_S)
        serving.cancel()
    finally:
        await closing()
        await transport.close()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _claim() -> tuple[int, int]:
    """Private descriptors of stdin and stdout; what they were leads nowhere now."""
    read_fd, write_fd = _private(0), _private(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(null, 1)
    os.close(null)
    return read_fd, write_fd


def _private(fd: int) -> int:
    try:
        return os.dup(fd)
    except OSError:  # a host may start us without it
        return os.open(os.devnull, os.O_RDWR)


def _arm_deadline() -> None:
    deadline = threading.Timer(CLOSE_TIMEOUT_S, os._exit, (0,))
    deadline.daemon = True
    deadline.start()


async def _watch_parent(stop: asyncio.Event) -> None:
    """Where a wrapper keeps the pipe open, only a new parent tells that the host is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_POLL_S)
    stop.set()
