"""What the engine promises when something beneath it goes wrong: nobody waits for ever."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from convmem import codec
from convmem.engine import Engine
from convmem.errors import Code, Refusal
from convmem.ledger import Ledger
from convmem.operations import ReadHealth, RebuildIndex, WriteMessage
from convmem.replica import Replica
from convmem.storage import MemoryDisk, Operation
from tests.convmem.harness import WAIT_S, Clock, Host, Refused

BIG = "x" * 500_000


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def contents(host: Host) -> list[str]:
    page = host.read("history", session_id="s", order="oldest_first")
    return [message["content"] for message in page["messages"]]


def a_mistake(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("a mistake")


def refuse_snapshots(operation: Operation) -> None:
    if operation.name.startswith("snap-"):
        raise OSError(5, "injected")


class Gate:
    """A change of the disk that stands still until it is let go on."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, operation: Operation) -> None:
        if operation.name.startswith(self._prefix):
            self.reached.set()
            assert self.opened.wait(WAIT_S)

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, WAIT_S)


class TestMistakes:
    def test_one_of_who_hears_of_changes_costs_no_write_its_answer(self, host: Host) -> None:
        host.engine.watch(a_mistake)
        many = [{"session_id": "s", "role": "user", "content": f"{n}"} for n in range(3)]
        answers: Any = host.calls("write_message", many)
        assert [answer["created"] for answer in answers] == [True] * 3
        assert contents(host) == ["0", "1", "2"]
        assert "a mistake" in host.call("get_system_health")["last_error"]

    def test_one_in_deciding_fails_that_call_alone(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(codec, "encode", a_mistake)
            with pytest.raises(Exception, match="ZeroDivisionError"):
                host.write("lost")
        host.write("kept")
        assert contents(host) == ["kept"]

    def test_one_in_applying_stops_all_that_would_trust_the_state(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host.write("before")
        with monkeypatch.context() as broken:
            broken.setattr(Replica, "apply", a_mistake)
            with pytest.raises(Refused, match="safe in the log"):
                host.write("in the log")
        for tool, arguments in [
            ("write_message", {"session_id": "s", "role": "user", "content": "after"}),
            ("rebuild_index", {}),
        ]:
            with pytest.raises(Refused, match="restart") as refused:
                host.call(tool, **arguments)
            assert refused.value.code == Code.STORE_FAILED
        assert contents(host) == ["before"]
        report = host.call("get_system_health")
        assert report["status"] == "failed"
        assert "restart" in report["failed"]
        host.restart()
        assert contents(host) == ["before", "in the log"]
        assert host.call("get_system_health")["status"] == "ok"

    def test_one_in_the_commit_loop_fails_all_who_wait(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        message = {"session_id": "s", "role": "user", "content": "text"}
        with monkeypatch.context() as broken:
            broken.setattr(Engine, "_next_batch", a_mistake)
            answers = host.calls("write_message", [message] * 3)
        assert all(isinstance(answer, Exception) for answer in answers)
        assert "a mistake" in host.call("get_system_health")["last_error"]
        host.write("after")
        assert contents(host) == ["after"]


class TestSnapshots:
    @pytest.mark.parametrize("broken", ["taking", "writing"])
    def test_one_that_fails_costs_no_write_and_is_told(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, broken: str
    ) -> None:
        with monkeypatch.context() as patched:
            if broken == "taking":
                patched.setattr(Replica, "sections", a_mistake)
            host.disk.hook = refuse_snapshots
            for number in range(12):
                host.write(BIG, message_id=f"01HF7YAT0000000000000000{number:02}")
            host.write("after")
            assert "snapshot" in host.call("get_system_health")["last_error"]
            host.restart()
        assert not any(name.startswith("snap-") for name in host.disk.files)
        assert host.call("get_system_health")["messages"] == 13


class TestClosing:
    @pytest.mark.parametrize("at", ["log-00000001", "snap-"])
    def test_during_work_on_the_disk_waits_for_it(self, at: str) -> None:
        host = Host()
        host.write("before")
        host.disk.hook = gate = Gate(at)

        async def close_meanwhile() -> None:
            message = WriteMessage(session_id="s", role="user", content=BIG)
            writes = [asyncio.create_task(host.engine.execute(message)) for _ in range(12)]
            await gate.until_reached()
            closing = asyncio.create_task(host.engine.close())
            await asyncio.sleep(0)
            with pytest.raises(Refused, match="shutting down"):
                await host.ask("read_messages", view="sessions")
            assert not closing.done()
            gate.opened.set()
            await asyncio.gather(*writes)
            await closing

        host.run(close_meanwhile())
        host.abandon()
        with Host(host.disk, host.clock) as reopened:
            assert reopened.call("get_system_health")["messages"] == 13

    def test_during_a_rebuild_waits_for_it(self) -> None:
        host = Host()
        host.call("delete_message", message_id=host.write("gone")["message_id"])
        host.write("kept")
        host.disk.hook = gate = Gate("log-00000002")

        async def close_meanwhile() -> dict[str, Any]:
            rebuilding = asyncio.create_task(host.ask("rebuild_index"))
            await gate.until_reached()
            closing = asyncio.create_task(host.engine.close())
            await asyncio.sleep(0)
            assert not closing.done()
            gate.opened.set()
            await closing
            return await rebuilding

        assert host.run(close_meanwhile())["rebuilt"] is True
        host.abandon()
        with Host(host.disk, host.clock) as reopened:
            assert contents(reopened) == ["kept"]

    def test_lets_go_of_the_store_even_when_its_last_snapshot_fails(self) -> None:
        disk = MemoryDisk()
        with Host(disk) as host:
            host.write("kept")
            disk.hook = refuse_snapshots
        disk.hook = lambda operation: None
        with Host(disk) as reopened:
            assert contents(reopened) == ["kept"]


def test_a_rebuild_cancelled_before_it_began_is_not_done(host: Host) -> None:
    host.call("delete_message", message_id=host.write("gone")["message_id"])
    host.disk.hook = gate = Gate("log-00000001")
    before = host.call("get_system_health")["store"]["generation"]

    async def cancel_a_rebuild() -> None:
        writing = asyncio.create_task(
            host.ask("write_message", session_id="s", role="user", content="first")
        )
        await gate.until_reached()
        rebuilding = asyncio.create_task(host.engine.execute(RebuildIndex()))
        await asyncio.sleep(0)
        rebuilding.cancel()
        gate.opened.set()
        await writing
        with pytest.raises(asyncio.CancelledError):
            await rebuilding
        await host.ask("write_message", session_id="s", role="user", content="second")

    host.run(cancel_a_rebuild())
    assert host.call("get_system_health")["store"]["generation"] == before


def test_a_rebuild_needs_room_for_what_is_alive_only(host: Host) -> None:
    for _ in range(8):
        host.call("delete_message", message_id=host.write(BIG)["message_id"])
    host.write("kept")
    host.disk.room_bytes = 2_000_000
    assert host.call("rebuild_index")["rebuilt"] is True
    host.call("delete_message", message_id=host.write("again")["message_id"])
    host.disk.room_bytes = 10
    with pytest.raises(Refused) as refused:
        host.call("rebuild_index")
    assert refused.value.code == Code.DISK_FULL


def test_what_is_asked_after_the_end_is_refused() -> None:
    engine = Engine(Ledger(MemoryDisk(), Clock().environment()))

    async def ask_after_the_end() -> None:
        await engine.close()
        for asking in (engine.execute(RebuildIndex()), engine.query(ReadHealth())):
            with pytest.raises(Refusal) as refused:
                await asking
            assert refused.value.code == Code.BUSY

    asyncio.run(ask_after_the_end())
