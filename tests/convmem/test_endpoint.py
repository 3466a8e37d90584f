"""The owner's endpoint, and what comes over it that no guest says."""

import asyncio
import contextlib
import dataclasses
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from convmem.engine import Engine
from convmem.errors import Code, Refusal
from convmem.ledger import Ledger
from convmem.limits import GUEST_REQUESTS_MAX, HELLO_BYTES_MAX
from convmem.operations import JsonObject, Query, ReadHealth, ReadHistory, WriteMessage
from convmem.protocol import BACKLOG_BYTES_MAX, Transport, memory_pair
from convmem.sharing import endpoint
from convmem.sharing import owner as owner_module
from convmem.sharing.guest import Guest, OwnerGone
from convmem.sharing.owner import Owner
from convmem.storage import MemoryDisk, Operation
from tests.convmem.harness import Clock

WAIT_S = 30.0
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"version":%d,"token":""}}\n'
    % owner_module.VERSION
)
PING = b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n'
ASK = (
    b'{"jsonrpc":"2.0","id":%d,"method":"ask","params":{"operation":{"kind":"ReadHistory",'
    b'"session_id":"s","order":"oldest_first","limit":9,"max_bytes":1000000}}}\n'
)
CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}\n'
WRITE = WriteMessage(session_id="s", role="user", content="text")
READ = ReadHistory(session_id="s", order="oldest_first", limit=10, max_bytes=1 << 16)

unix = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
VARIANTS = [pytest.param(True, id="unix", marks=unix), pytest.param(False, id="tcp")]


class Place:
    """Surroundings of an owner alone: a real endpoint."""

    pid = 1

    def __init__(self, directory: Path, is_unix: bool) -> None:
        self.directory = directory
        self.is_unix = is_unix
        self.at = ""
        clock = Clock()
        self.environment = clock.environment()
        self.random_bytes = clock.random_bytes
        self.now_ms = self.environment.now_ms

    async def open(self) -> Engine:
        self.disk = MemoryDisk()
        return Engine(Ledger(self.disk, self.environment))

    async def listen(self, on_guest: endpoint.OnGuest) -> endpoint.Listener:
        self.on_guest = on_guest
        listener = await endpoint.listen(self.directory, on_guest, unix=self.is_unix)
        self.at = listener.endpoint
        return listener

    async def connect(self, place: str) -> tuple[Transport, str]:
        return await endpoint.connect(place)

    async def guest(self, busy_timeout_s: float = WAIT_S) -> Guest:
        transport, token = await self.connect(self.at)
        return await Guest.greet(transport, token, busy_timeout_s, lambda: None)


@contextlib.asynccontextmanager
async def owned(directory: Path, is_unix: bool) -> AsyncIterator[Place]:
    place = Place(directory, is_unix)
    owner = Owner(await place.open(), place.pid)
    await owner.take_guests(place)
    async with asyncio.timeout(WAIT_S):
        yield place
        await owner.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await test()

    asyncio.run(bounded())


async def stranger(place: Place) -> Transport:
    """Somebody who was let in, and may say anything now."""
    transport, _ = await place.connect(place.at)
    transport.write(HELLO)
    assert b'"pid"' in await transport.receive()
    return transport


async def answers_in(transport: Transport) -> int:
    """How many answers end in what comes next."""
    data = await transport.receive()
    assert data, "the owner has hung up"
    return data.count(b"\n")


async def end_of(transport: Transport) -> bytes:
    """All that comes until the owner hangs up."""
    received = b""
    while data := await transport.receive():
        received += data
    return received


@pytest.mark.parametrize("is_unix", VARIANTS)
def test_guests_ask_and_are_answered(tmp_path: Path, is_unix: bool) -> None:
    async def test() -> None:
        async with owned(tmp_path, is_unix) as place:
            one, two = await place.guest(), await place.guest()
            await one.execute(WriteMessage(session_id="s", role="user", content="by one"))
            page: Any = await two.query(READ)
            assert [message["content"] for message in page["messages"]] == ["by one"]
            with pytest.raises(Refusal) as refused:
                await one.query(dataclasses.replace(READ, session_id="none"))
            assert refused.value.code == Code.NOT_FOUND
            await one.close()
            await two.close()

    run(test)


def test_a_guest_waits_for_its_turn_as_long_as_it_said(tmp_path: Path) -> None:
    """The owner would wait longer: 5 s."""

    async def test() -> None:
        async with owned(tmp_path, True) as place:
            hasty, patient = await place.guest(0.01), await place.guest()
            is_at_disk, disk_goes_on = threading.Event(), threading.Event()

            def stand_still(_: Operation) -> None:
                is_at_disk.set()
                disk_goes_on.wait(WAIT_S)

            place.disk.hook = stand_still
            first = asyncio.ensure_future(patient.execute(WRITE))
            assert await asyncio.to_thread(is_at_disk.wait, WAIT_S)
            with pytest.raises(Refusal, match="nothing was written") as refused:
                await hasty.execute(WRITE)
            assert refused.value.code == Code.BUSY
            disk_goes_on.set()
            await first
            page: Any = await hasty.query(READ)
            assert len(page["messages"]) == 1
            await hasty.close()
            await patient.close()

    run(test)


@pytest.mark.parametrize("is_unix", VARIANTS)
@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\0\xff\n",
        b"{}\n",
        PING,
        b"x" * (HELLO_BYTES_MAX + 1),
        b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{}}\n',
        HELLO.replace(b'""', b'"no"'),
        HELLO.replace(b'""', rb'"\u00e9"'),
        HELLO.replace(b'""', b"5"),
    ],
    ids=["http", "noise", "empty", "ping", "long", "nothing", "token", "accent", "number"],
)
def test_who_does_not_greet_is_not_let_in(tmp_path: Path, is_unix: bool, said: bytes) -> None:
    async def test() -> None:
        async with owned(tmp_path, is_unix) as place:
            guest = await place.guest()
            refused, _ = await place.connect(place.at)
            refused.write(said)
            assert await end_of(refused) == b""
            await refused.close()
            await guest.execute(WriteMessage(session_id="s", role="user", content="unharmed"))
            await guest.close()

    run(test)


def test_who_says_nothing_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_module, "HELLO_TIMEOUT_S", 0.05)

    async def test() -> None:
        async with owned(tmp_path, endpoint.HAS_UNIX_SOCKETS) as place:
            silent, _ = await place.connect(place.at)
            assert await end_of(silent) == b""
            await silent.close()

    run(test)


@unix
@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xff\n",
        b'{"jsonrpc":"2.0","id":3,"method":"steal"}\n',
        b"[" * 100_000 + b"\n",
        b"[]\n",
        b'{"jsonrpc":"2.0","method":"ask"}\n',
        b"x" * (17 << 20),
        b"".join(
            b'{"jsonrpc":"2.0","id":%d,"method":"ask","params":{"operation":%s}}\n'
            % (n, b'{"kind":"ReadHistory"}')
            for n in range(10, 11 + GUEST_REQUESTS_MAX)
        ),
    ],
    ids=["noise", "unknown", "deep", "batch", "notification", "long", "too many"],
)
def test_a_guest_that_says_what_is_not_understood_is_let_go(tmp_path: Path, said: bytes) -> None:
    async def test() -> None:
        async with owned(tmp_path, True) as place:
            guest = await place.guest()
            noisy = await stranger(place)
            noisy.write(said)
            await end_of(noisy)
            await noisy.close()
            await guest.execute(WriteMessage(session_id="s", role="user", content="unharmed"))
            await guest.close()

    run(test)


@unix
@pytest.mark.parametrize(
    "operation",
    [
        b"5",
        b"{}",
        b'{"kind":"Ledger"}',
        b'{"kind":"WriteMessage"}',
        b'{"kind":"WriteMessage","session_id":"s","role":"robot","content":"x"}',
        b'{"kind":"WriteMessage","session_id":5,"role":"user","content":"x"}',
        b'{"kind":"WriteMessage","session_id":"s","role":"user","content":"x","message_id":"="}',
        b'{"kind":"WriteMessage","session_id":"s","role":"user","content":"x","message_id":"AA=="}',
        b'{"kind":"WriteMessage","session_id":"s","role":"user","content":"x","sudo":true}',
        b'{"kind":"UpdateMessage","message_id":"","expected_revision":true,"changes":{}}',
        b'{"kind":"UpdateMessage","message_id":"","expected_revision":1,"changes":{"seq":1}}',
    ],
)
def test_an_operation_that_is_none_is_refused(tmp_path: Path, operation: bytes) -> None:
    async def test() -> None:
        async with owned(tmp_path, True) as place:
            mistaken = await stranger(place)
            ask = b'{"jsonrpc":"2.0","id":7,"method":"ask","params":{"operation":%s}}\n'
            mistaken.write(ask % operation + PING)
            received = b""
            while received.count(b"\n") < 2:
                received += await mistaken.receive()
            answers = sorted(json.loads(line)["id"] for line in received.splitlines())
            assert b'"error"' in received, received
            assert answers == [2, 7]
            await mistaken.close()

    run(test)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Query], asyncio.Event]:
    """What queries engines were asked, and what they wait for before they answer."""
    asked: list[Query] = []
    go_on = asyncio.Event()
    go_on.set()
    ask = Engine.query

    async def query(engine: Engine, query: Query) -> JsonObject:
        asked.append(query)
        await go_on.wait()
        return await ask(engine, query)

    monkeypatch.setattr(Engine, "query", query)
    return asked, go_on


@unix
def test_a_guest_that_does_not_read_holds_up_nobody(
    tmp_path: Path, answering: tuple[list[Query], asyncio.Event]
) -> None:
    """What it asks for is not even made before it reads: it would lie in the owner's memory."""
    asked, _ = answering

    async def test() -> None:
        async with owned(tmp_path, True) as place:
            guest = await place.guest()
            await guest.execute(WriteMessage(session_id="s", role="user", content="x" * 900_000))
            deaf = await stranger(place)
            deaf.write(b"".join(ASK % n for n in range(GUEST_REQUESTS_MAX)))
            for _ in range(20):
                await guest.execute(WriteMessage(session_id="t", role="user", content="quick"))
            assert 0 < len(asked) < BACKLOG_BYTES_MAX // 900_000 + 3
            answers = 0
            while answers < GUEST_REQUESTS_MAX:
                answers += await answers_in(deaf)
                assert len(asked) < answers + BACKLOG_BYTES_MAX // 900_000 + 3
            await deaf.close()
            still_deaf = await stranger(place)
            still_deaf.write(b"".join(ASK % n for n in range(GUEST_REQUESTS_MAX)))
            await guest.query(READ)
            await guest.close()
        await still_deaf.close()  # long after the owner has ended

    run(test)


@unix
def test_a_guest_may_ask_anew_for_what_it_has_cancelled(
    tmp_path: Path, answering: tuple[list[Query], asyncio.Event]
) -> None:
    _, go_on = answering

    async def test() -> None:
        async with owned(tmp_path, True) as place:
            go_on.clear()
            busy = await stranger(place)
            busy.write(b"".join(ASK % n for n in range(10, 10 + GUEST_REQUESTS_MAX)))
            busy.write((CANCEL + ASK) % (10, 10) + (CANCEL + ASK) % (11, 9) + PING)
            await busy.receive()
            go_on.set()
            answers = 0
            while answers < GUEST_REQUESTS_MAX:
                answers += await answers_in(busy)
            await busy.close()

    run(test)


@unix
def test_an_owner_that_ends_does_not_wait_for_slow_answers(
    tmp_path: Path, answering: tuple[list[Query], asyncio.Event]
) -> None:
    asked, go_on = answering
    go_on.clear()

    async def test() -> None:
        async with owned(tmp_path, True) as place:
            guest = await place.guest()
            asking = asyncio.create_task(guest.query(READ))
            while not asked:
                await guest.watch(lambda change: None)
        with pytest.raises(OwnerGone):
            await asking
        await guest.close()

    run(test)


@unix
def test_an_owner_that_ends_takes_nobody_in(tmp_path: Path) -> None:
    """Who has come as the door closes must look for the next owner, not be told of the end."""

    async def test() -> None:
        place = Place(tmp_path, True)
        owner = Owner(await place.open(), place.pid)
        await owner.take_guests(place)
        guest_end, owner_end = memory_pair()
        closing = asyncio.create_task(owner.close())
        await asyncio.sleep(0)
        greeting = asyncio.create_task(Guest.greet(guest_end, "", WAIT_S, lambda: None))
        await place.on_guest(owner_end, "")
        await owner_end.close()
        with pytest.raises(OwnerGone):
            await greeting
        await closing

    run(test)


@unix
def test_a_folder_that_others_may_enter_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_all = tmp_path / "runtime" / "convmem"
    open_to_all.mkdir(parents=True, mode=0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(open_to_all.parent))

    async def test() -> None:
        async with owned(tmp_path, True) as place:
            assert str(open_to_all) not in place.at
            folder = Path(place.at.removeprefix("unix:")).parent
            assert folder.stat().st_mode & 0o077 == 0

    run(test)


@unix
def test_where_there_is_no_place_nobody_joins_and_health_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(f"{folder}: not yours")

    monkeypatch.setattr(endpoint, "_make_private", refuse)

    async def test() -> None:
        place = Place(tmp_path, True)
        engine = await place.open()
        owner = Owner(engine, place.pid)
        await owner.take_guests(place)
        report = await owner.query(ReadHealth())
        assert "not yours" in str(report["last_error"])
        await owner.close()

    run(test)


@unix
def test_what_a_killed_owner_left_is_replaced(tmp_path: Path) -> None:
    async def test() -> None:
        async with owned(tmp_path, True) as place:
            path = Path(place.at.removeprefix("unix:"))
        assert not path.exists()
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(path))
        left.close()
        async with owned(tmp_path, True) as place:
            assert Path(place.at.removeprefix("unix:")) == path
            await (await place.guest()).close()

    run(test)


@unix
def test_an_owner_that_ends_leaves_the_endpoint_of_another(tmp_path: Path) -> None:
    """As when the data directory was removed and made anew, and got the same inode again."""

    async def test() -> None:
        async with owned(tmp_path, True):
            later = await endpoint.listen(tmp_path, endpoint_of_nobody)
        transport, _ = await endpoint.connect(later.endpoint)
        await transport.close()
        later.close()
        assert not Path(later.endpoint.removeprefix("unix:")).exists()

    async def endpoint_of_nobody(transport: Transport, token: str) -> None:
        await transport.close()

    run(test)


@unix
def test_the_user_at_the_other_end_is_known() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    assert endpoint.peer_user(ours) == os.getuid()
    ours.close()
    theirs.close()


def test_an_owner_of_another_version_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with owned(tmp_path, endpoint.HAS_UNIX_SOCKETS) as place:
            monkeypatch.setattr(owner_module, "VERSION", owner_module.VERSION + 1)
            with pytest.raises((Refusal, OwnerGone)) as refused:
                await place.guest()
            assert "another version" in str(refused.value)

    run(test)
