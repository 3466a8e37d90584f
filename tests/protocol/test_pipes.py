"""A transport over pipes, sockets and files: order, waiting, and where it does not wait."""

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.protocol import AT_ONCE_BYTES_MAX, BACKLOG_BYTES_MAX, READ_BYTES, PipeTransport

from .wire import PATIENCE_S

Ends = Callable[[], tuple[int, int]]
"""Two descriptors: what is written to the second arrives at the first."""


def socket_ends() -> tuple[int, int]:
    """What some hosts start their servers with."""
    here, there = socket.socketpair()
    return here.detach(), there.detach()


ENDS = [pytest.param(os.pipe, id="pipe"), pytest.param(socket_ends, id="socket")]
SIZES = st.one_of(
    st.integers(1, 300),
    st.integers(AT_ONCE_BYTES_MAX - 2, AT_ONCE_BYTES_MAX + 2),
    st.integers(READ_BYTES - 2, READ_BYTES + 2),
    st.just(1_000_000),
)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


def null() -> int:
    return os.open(os.devnull, os.O_RDWR)


@contextmanager
def reading(fd: int) -> Iterator[bytearray]:
    """Everything that arrives at a descriptor until its end, in a thread."""
    arrived = bytearray()

    def read() -> None:
        while data := os.read(fd, READ_BYTES):
            arrived.extend(data)
        os.close(fd)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield arrived
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("ends", ENDS)
@given(sizes=st.lists(st.lists(SIZES, min_size=1, max_size=6), max_size=4))
def test_what_is_written_arrives_whole_and_in_order(ends: Ends, sizes: list[list[int]]) -> None:
    read_fd, write_fd = ends()
    pieces = iter(range(1, 10_000))
    turns = [[bytes([next(pieces) % 256]) * size for size in turn] for turn in sizes]

    async def test() -> None:
        transport = PipeTransport(null(), write_fd)
        for turn in turns:
            for piece in turn:
                transport.write(piece)
            await asyncio.sleep(0)  # a new turn of the loop
        await transport.close()

    with reading(read_fd) as arrived:
        run(test)
    assert bytes(arrived) == b"".join(piece for turn in turns for piece in turn)


@pytest.mark.parametrize("ends", ENDS)
def test_what_arrives_is_received_to_its_end(ends: Ends) -> None:
    read_fd, write_fd = ends()

    async def test() -> None:
        ended = asyncio.Event()
        transport = PipeTransport(read_fd, null(), on_end=ended.set)
        os.write(write_fd, b"one")
        assert await transport.receive() == b"one"
        os.write(write_fd, b"two")
        os.close(write_fd)
        assert await transport.receive() == b"two"
        assert await transport.receive() == b""
        await ended.wait()
        assert await transport.receive() == b""

    run(test)


@pytest.mark.parametrize("ends", ENDS)
def test_who_does_not_receive_makes_the_peer_wait(ends: Ends) -> None:
    read_fd, write_fd = ends()
    os.set_blocking(write_fd, False)
    sent = 0

    async def test() -> None:
        nonlocal sent
        transport = PipeTransport(read_fd, null())
        refused = 0
        while refused < 50:  # no turn of the loop makes room any more
            try:
                sent += os.write(write_fd, b"x" * READ_BYTES)
                refused = 0
            except BlockingIOError:
                refused += 1
            await asyncio.sleep(0)
        unread = sent
        while unread > 0:
            unread -= len(await transport.receive())
        os.write(write_fd, b"more")
        assert await transport.receive() == b"more"
        os.close(write_fd)

    run(test)
    assert sent < 2_000_000


@pytest.mark.parametrize("ends", ENDS)
def test_drain_waits_for_a_peer_that_does_not_read(ends: Ends) -> None:
    read_fd, write_fd = ends()

    async def test() -> None:
        kept, waiting = os.pipe()
        transport = PipeTransport(kept, write_fd)
        transport.write(b"x" * (2 * BACKLOG_BYTES_MAX))
        draining = asyncio.ensure_future(transport.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        with reading(read_fd):
            await draining
            await transport.close()
        os.close(waiting)

    run(test)


@pytest.mark.parametrize("ends", ENDS)
def test_a_reader_that_is_gone_ends_it(ends: Ends) -> None:
    read_fd, write_fd = ends()
    os.close(read_fd)

    async def test() -> None:
        ended = asyncio.Event()
        kept, waiting = os.pipe()
        transport = PipeTransport(kept, write_fd, on_end=ended.set)
        transport.write(b"nobody reads this")
        await ended.wait()
        transport.write(b"nor this")
        await transport.drain()
        await transport.close()
        os.close(waiting)

    run(test)


def test_a_file_is_read_and_written_by_threads(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"asked")

    async def test() -> None:
        read_fd = os.open(tmp_path / "in", os.O_RDONLY)
        write_fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
        transport = PipeTransport(read_fd, write_fd)
        assert await transport.receive() == b"asked"
        assert await transport.receive() == b""
        transport.write(b"answered")
        await transport.close()

    run(test)
    assert (tmp_path / "out").read_bytes() == b"answered"


@pytest.mark.parametrize("ends", ENDS)
def test_a_conversation_takes_no_thread(ends: Ends) -> None:
    """A change of thread each way would take longer than what is done with a short message."""
    here_fd, to_here = ends()
    at_peer, from_here = ends()

    async def test() -> None:
        before = threading.active_count()
        transport = PipeTransport(here_fd, from_here)
        os.write(to_here, b"asked")
        assert await transport.receive() == b"asked"
        transport.write(b"answered")
        assert os.read(at_peer, READ_BYTES) == b"answered"
        assert threading.active_count() == before
        await transport.close()
        os.close(to_here)
        assert await transport.receive() == b""

    run(test)
    os.close(at_peer)
