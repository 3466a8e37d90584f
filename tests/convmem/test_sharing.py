"""Several servers on one data directory: real processes, as several hosts start them."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from convmem.cli.launch import server_command
from convmem.limits import BUSY_TIMEOUT_MS
from convmem.protocol import Client, Era, Notification
from tests.convmem.harness import Refused
from tests.protocol.requirements import proves

WAIT_S = 60.0
SESSION = {"view": "history", "session_id": "s", "order": "oldest_first"}


unix = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


class Host:
    """A server process and its host."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def pid(self) -> int:
        assert self.client.pid is not None
        return self.client.pid

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer. Raises Refused."""
        result = await self.client.call_tool(tool, arguments)
        if result.is_error:
            raise Refused(result.text)
        assert result.structured is not None
        return dict(result.structured)

    async def write(self, content: str, **more: Any) -> dict[str, Any]:
        message = {"session_id": "s", "role": "user", "content": content} | more
        return await self.call("write_message", **message)

    async def contents(self) -> list[str]:
        page = await self.call("read_messages", **SESSION, limit=1000, max_bytes=1 << 20)
        return [message["content"] for message in page["messages"]]

    async def part(self) -> dict[str, Any]:
        sharing: dict[str, Any] = (await self.call("get_system_health"))["sharing"]
        return sharing


@contextlib.asynccontextmanager
async def hosts(data_dir: Path, count: int = 2, *options: str) -> AsyncIterator[list[Host]]:
    """So many hosts, the first of them the owner; bounded in time."""
    async with asyncio.timeout(WAIT_S), contextlib.AsyncExitStack() as stack:
        started = []
        for number in range(count):
            command = [*server_command(data_dir), "--client-id", f"host {number}", *options]
            host = Host(await stack.enter_async_context(await Client.start(command)))
            await host.part()
            started.append(host)
        yield started


def run(test: Any) -> None:
    asyncio.run(test)


@pytest.fixture
def endpoints(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the endpoints of a test's own owners lie: a short path, as a socket needs."""
    with tempfile.TemporaryDirectory(prefix="convmem-", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder, "convmem")


def test_what_one_writes_the_others_see_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosts(tmp_path, 3) as (owner, *guests):
            assert (await owner.part()) == {"role": "owner", "pid": owner.pid, "guests": 2}
            everyone = [owner, *guests]
            for number, host in enumerate(everyone):
                await host.write(f"by {number}")
                for other in everyone:
                    assert (await other.contents())[-1] == f"by {number}"
            for guest in guests:
                part = {"role": "guest", "pid": guest.pid, "owner_pid": owner.pid}
                assert await guest.part() == part
            page = await owner.call("read_messages", **SESSION)
            assert [each["written_by"] for each in page["messages"]] == [
                "host 0",
                "host 1",
                "host 2",
            ]
            found = await guests[0].call("search_messages", query="by 2")
            assert found["results"][0]["excerpt"] == "by 2"

    run(test())


def test_all_that_an_owner_offers_a_guest_offers(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosts(tmp_path) as (owner, guest):
            first = await guest.write("one", metadata={"tags": ["a"]})
            await guest.write("two")
            page = await guest.call("read_messages", **SESSION, limit=1)
            rest = {**SESSION, "limit": 1, "cursor": page["next_cursor"]}
            for host in (owner, guest):
                assert (await host.call("read_messages", **rest))["messages"][0]["content"] == "two"
            named = {"message_id": first["message_id"]}
            changed = await guest.call(
                "update_message", **named, expected_revision=1, content="uno", clear=["tags"]
            )
            assert (changed["revision"], set(changed["changed"])) == (2, {"content", "tags"})
            with pytest.raises(Refused) as refused:
                await guest.call("update_message", **named, expected_revision=1, content="eins")
            assert (refused.value.code, refused.value.told["current_revision"]) == ("CONFLICT", 2)
            with pytest.raises(Refused, match="INVALID_ARGUMENT"):
                await guest.write("x", role="robot")
            read = await guest.client.request("resources/read", {"uri": "convmem://session/s"})
            assert "uno" in str(read)
            completed = await guest.client.request(
                "completion/complete",
                {
                    "ref": {"type": "ref/resource", "uri": "convmem://session/{session_id}"},
                    "argument": {"name": "session_id", "value": "s"},
                },
            )
            assert "'s'" in str(completed)
            await guest.call("delete_message", **named)
            assert (await guest.call("rebuild_index"))["rebuilt"] is True
            assert await owner.contents() == ["two"]

    run(test())


@proves("RES-06")
@pytest.mark.parametrize("era", [Era.HANDSHAKE, Era.MODERN])
@pytest.mark.parametrize("listener", ["owner", "guest", "a guest whose owner ended"])
def test_a_host_hears_of_changes_that_others_make(tmp_path: Path, era: Era, listener: str) -> None:
    async def test() -> None:
        heard: asyncio.Queue[str] = asyncio.Queue()

        def hear(notification: Notification) -> None:
            if notification.method == "notifications/resources/updated":
                heard.put_nowait(str(notification.params["uri"]))

        command = server_command(tmp_path)
        async with asyncio.timeout(WAIT_S), contextlib.AsyncExitStack() as stack:
            clients = []
            for at in range(3):
                client = await Client.start(command, era=era, on_notification=hear)
                clients.append(Host(await stack.enter_async_context(client)))
                await clients[at].part()
            hearing = clients[0 if listener == "owner" else 1]
            about_messages = ["convmem://session/a%2Fb", "convmem://sessions"]
            about_facts = ["convmem://fact/a%2Fb", "convmem://facts"]
            uris = about_messages + about_facts
            if era is Era.MODERN:
                params = {"notifications": {"resourceSubscriptions": uris}}
                listening = hearing.client.request("subscriptions/listen", params)
                stack.push_async_callback(cancelled, asyncio.ensure_future(listening))
            else:
                for uri in uris:
                    await hearing.client.request("resources/subscribe", {"uri": uri})
            await hearing.part()
            if listener == "a guest whose owner ended":
                await clients[0].client.close()
                await hearing.part()
            written = await clients[2].write("new", session_id="a/b")
            assert {await heard.get(), await heard.get()} == set(about_messages)
            await clients[2].call("delete_message", message_id=written["message_id"])
            assert {await heard.get(), await heard.get()} == set(about_messages)
            for tool, arguments in (("memory_set", {"value": "new"}), ("memory_delete", {})):
                await clients[2].call(tool, key="a/b", **arguments)
                assert {await heard.get(), await heard.get()} == set(about_facts)
            await clients[2].write("elsewhere", session_id="c")
            assert await heard.get() == "convmem://sessions"

    run(test())


async def cancelled(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_of_many_that_start_at_once_one_alone_loads_what_an_owner_takes(tmp_path: Path) -> None:
    """Nor does one of them see another in the way that only looks."""

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            command = [*server_command(tmp_path), "--busy-timeout", "30000"]
            starting = (Client.start(command) for _ in range(6))
            clients = [
                await stack.enter_async_context(client)
                for client in await asyncio.gather(*starting)
            ]
            await asyncio.gather(*(Host(client).write("text") for client in clients))
            loaded = ["numpy" in Path(f"/proc/{each.pid}/maps").read_text() for each in clients]
            assert loaded.count(True) == 1

    run(test())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_guest_stays_light(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosts(tmp_path) as (owner, guest):
            await guest.write("one")
            await guest.contents()
            mapped = {host: Path(f"/proc/{host.pid}/maps").read_text() for host in (owner, guest)}
            assert "numpy" in mapped[owner]
            assert "numpy" not in mapped[guest]
            status = Path(f"/proc/{guest.pid}/status").read_text().split()
            assert int(status[status.index("VmRSS:") + 1]) < 40 * 1024

    run(test())


@pytest.mark.parametrize("each", [25, pytest.param(250, marks=pytest.mark.ci)])
def test_a_counter_that_four_clients_raise_counts_every_raise(tmp_path: Path, each: int) -> None:
    async def raise_some(host: Host) -> list[str]:
        """Raise the counter so many times; the refusals, where another was faster."""
        refusals = []
        raised = 0
        while raised < each:
            read = await host.call("memory_get", key="counter")
            more = {"value": str(int(read["value"]) + 1), "expected_revision": read["revision"]}
            try:
                await host.call("memory_set", key="counter", **more)
                raised += 1
            except Refused as refused:
                refusals.append(refused.code)
        return refusals

    async def test() -> None:
        async with hosts(tmp_path, 4) as everyone:
            await everyone[0].call("memory_set", key="counter", value="0")
            refused = await asyncio.gather(*map(raise_some, everyone))
            refusals = [code for codes in refused for code in codes]
            assert set(refusals) <= {"CONFLICT"}
            read = await everyone[1].call("memory_get", key="counter")
            assert (read["value"], read["revision"]) == (str(4 * each), 4 * each + 1)
            events = 0
            page: dict[str, Any] = {"next_cursor": None}
            while "next_cursor" in page:
                cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else {}
                page = await everyone[2].call("memory_history", key="counter", **cursor)
                events += len(page["events"])
            assert events == 1 + 4 * each + len(refusals)

    run(test())


@pytest.mark.parametrize("end", ["EOF", "SIGTERM", "SIGKILL"])
def test_when_the_owner_ends_a_guest_takes_over(tmp_path: Path, end: str) -> None:
    """Writes that were under way are asked again: each is there once, none is refused."""

    async def write_many(host: Host, name: str) -> list[str]:
        names = [f"{name} {number}" for number in range(40)]
        written = await asyncio.gather(*map(host.write, names))
        assert len({each["message_id"] for each in written}) == len(names)
        return names

    async def end_of(owner: Host) -> None:
        await owner.write("the last")
        if end == "EOF":
            await owner.client.close()
        else:
            os.kill(owner.pid, getattr(signal, end))

    async def test() -> None:
        async with hosts(tmp_path, 4) as (owner, *guests):
            written = await asyncio.gather(
                *(write_many(guest, f"guest {n}") for n, guest in enumerate(guests)),
                end_of(owner),
            )
            expected = sorted([name for names in written if names for name in names])
            for guest in guests:
                there = await guest.contents()
                assert there.count("the last") == 1
                assert sorted(set(there) - {"the last"}) == expected
                assert len(there) == len(expected) + 1
            parts = [await guest.part() for guest in guests]
            assert sorted(part["role"] for part in parts) == ["guest", "guest", "owner"]

    run(test())


@pytest.mark.skipif(os.name != "posix", reason="stops a process")
def test_an_owner_that_stands_still_is_waited_for_and_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosts(tmp_path, 2, "--busy-timeout", "1000") as (owner, guest):
            os.kill(owner.pid, signal.SIGSTOP)
            try:
                for ask in (guest.contents(), guest.write("later")):
                    with pytest.raises(Refused, match=f"process {owner.pid}") as refused:
                        await ask
                    assert refused.value.code == "BUSY"
            finally:
                os.kill(owner.pid, signal.SIGCONT)
            await guest.write("after")
            assert (await owner.contents())[-1] == "after"
            os.kill(owner.pid, signal.SIGSTOP)
            os.kill(owner.pid, signal.SIGKILL)
            assert (await guest.contents())[-1] == "after"

    run(test())


def test_an_exclusive_server_lets_nobody_join(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosts(tmp_path, 1, "--exclusive") as (owner,):  # noqa: SIM117  # one, then two
            async with await Client.start(server_command(tmp_path)) as client:
                asked_s = time.monotonic()
                with pytest.raises(Refused, match=r"in use.*with nobody") as refused:
                    await Host(client).write("refused")
                assert time.monotonic() - asked_s < BUSY_TIMEOUT_MS / 1000  # it was not waited for
                assert refused.value.code == "BUSY"
                assert refused.value.told["holder"]["pid"] == owner.pid
                assert "endpoint" not in refused.value.told["holder"]
                await owner.client.close()
                await Host(client).write("granted")
                assert await Host(client).contents() == ["granted"]

    run(test())


def test_an_exclusive_server_joins_nobody(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosts(tmp_path, 1) as (owner,):
            command = [*server_command(tmp_path), "--exclusive"]
            async with await Client.start(command) as client:
                with pytest.raises(Refused, match="in use"):
                    await Host(client).contents()
            await owner.write("undisturbed")

    run(test())


@proves("PROC-12")
@unix
def test_many_that_start_at_once_on_a_fresh_folder_all_join(
    tmp_path: Path, endpoints: Path
) -> None:
    async def test() -> None:
        async with asyncio.timeout(WAIT_S):
            commands = [server_command(tmp_path / "fresh")] * 20
            clients = await asyncio.gather(*map(Client.start, commands))
            everyone = [Host(client) for client in clients]
            await asyncio.gather(*(host.write(str(n)) for n, host in enumerate(everyone)))
            for host in (everyone[0], everyone[-1]):
                assert sorted(await host.contents(), key=int) == [str(n) for n in range(20)]
            parts = [await host.part() for host in everyone]
            assert [part["role"] for part in parts].count("owner") == 1
            await asyncio.gather(*(client.close() for client in clients))
        for host in everyone:
            with pytest.raises(ProcessLookupError):
                os.kill(host.pid, 0)
        assert list(endpoints.iterdir()) == []
        async with hosts(tmp_path / "fresh", 1, "--exclusive") as (host,):
            assert len(await host.contents()) == 20

    run(test())


def test_a_data_folder_with_a_long_path_is_shared(tmp_path: Path) -> None:
    long = tmp_path / ("a" * 120) / ("語" * 40)

    async def test() -> None:
        async with hosts(long) as (owner, guest):
            await guest.write("joined")
            assert await owner.contents() == ["joined"]

    run(test())


@unix
def test_the_endpoint_is_the_users_own(tmp_path: Path, endpoints: Path) -> None:
    async def test() -> None:
        async with hosts(tmp_path, 1):
            (endpoint,) = endpoints.iterdir()
            assert endpoint.is_socket()
            assert endpoint.parent.stat().st_mode & 0o077 == 0

    run(test())
