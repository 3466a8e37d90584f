"""The index beside the state: what goes on while it is made, and what becomes of it."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from convmem import index_thread, indexer
from convmem.indexer import Indexer
from convmem.search import SearchIndex
from convmem.storage import MemoryDisk
from tests.convmem.harness import WAIT_S, Host, Refused

Columns = Mapping[str, memoryview]


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def found(host: Host, query: str) -> list[str]:
    reply = host.call("search_messages", query=query, limit=1000)
    return sorted(result["content"] for result in reply["results"])


def told(host: Host) -> dict[str, Any]:
    """What the health says of the search."""
    report: dict[str, Any] = host.call("get_system_health")["search"]
    return report


def a_mistake(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("a mistake")


class Gate:
    """Stands where texts are indexed, and lets the thread that does so on when it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        add = SearchIndex.add

        def wait(index: SearchIndex, documents: Any) -> None:
            self.reached.set()
            assert self.opened.wait(WAIT_S)
            add(index, documents)

        monkeypatch.setattr(SearchIndex, "add", wait)
        monkeypatch.setattr(indexer, "AT_ONCE_TEXTS", 0)  # everything is much

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, WAIT_S)


def searching(host: Host, query: str = "text") -> "asyncio.Task[dict[str, Any]]":
    return asyncio.create_task(host.ask("search_messages", query=query))


def contents(reply: dict[str, Any]) -> list[str]:
    return sorted(result["content"] for result in reply["results"])


class TestMistakes:
    """Of ours, in indexing: writes go on, searches are refused, and it is told."""

    @pytest.mark.parametrize("at_once", [0, 100], ids=["in the thread", "on the way"])
    @pytest.mark.parametrize("mended_by", ["rebuild", "rebuild without need", "restart"])
    def test_they_are_told_and_mended(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, mended_by: str, at_once: int
    ) -> None:
        monkeypatch.setattr(indexer, "AT_ONCE_TEXTS", at_once)
        with monkeypatch.context() as broken:
            broken.setattr(SearchIndex, "add", a_mistake)
            message_id = host.write("text one")["message_id"]
            for _ in range(2):
                with pytest.raises(Refused, match=r"a mistake.*rebuild_index") as refused:
                    found(host, "text")
                assert refused.value.code == "STORE_FAILED"
        host.write("text two")
        with pytest.raises(Refused, match="a mistake"):  # it is not tried again and again
            found(host, "text")
        assert "a mistake" in told(host)["failed"]
        if mended_by == "restart":
            host.restart()
        else:
            needed = mended_by == "rebuild"
            if needed:
                host.call("delete_message", message_id=message_id)
                host.write("text one")
            assert host.call("rebuild_index")["rebuilt"] is needed
        assert found(host, "text") == ["text one", "text two"]
        assert "failed" not in told(host)

    @pytest.mark.parametrize("place", ["_note", "_link", "_take_in"])
    def test_no_write_fails_for_them(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        monkeypatch.setattr(indexer, "AT_ONCE_TEXTS", 0)
        with monkeypatch.context() as broken:
            broken.setattr(Indexer, place, a_mistake)
            message_id = host.write("text")["message_id"]
            host.call("update_message", message_id=message_id, expected_revision=1, content="new")
            with pytest.raises(Refused, match="a mistake"):
                found(host, "new")
        host.write("new again")
        host.restart()
        assert found(host, "new") == ["new", "new again"]


def in_log(files: dict[str, bytes], old: bytes, new: bytes) -> dict[str, bytes]:
    """The files of a disk with something else in the bodies of messages."""
    return {
        name: data.replace(old, new) if name.endswith(".cvl") else data
        for name, data in files.items()
    }


class TestDamage:
    def test_what_cannot_be_read_is_left_out_and_counted(self) -> None:
        with Host() as host:
            for text in ("a readable text", "a damaged text", "another text"):
                message_id = host.write(text)["message_id"]
        with Host(MemoryDisk(in_log(host.disk.files, b"damaged", b"damagex"))) as host:
            for _ in range(2):
                reply = host.call("search_messages", query="text")
                assert contents(reply) == ["a readable text", "another text"]
                assert reply["unreadable"] == told(host)["unreadable"] == 1
                report = host.call("get_system_health")
                assert report["status"] == "damaged"
                assert "1 message cannot be read" in report["warnings"][-1]
                host.restart()  # it is tried again
            host.call("delete_message", message_id=message_id)
            assert found(host, "text") == ["a readable text"]
        with Host(MemoryDisk(in_log(host.disk.files, b"damagex", b"damaged"))) as host:
            assert found(host, "text") == ["a damaged text", "a readable text"]
            assert told(host)["unreadable"] == 0
            assert host.call("get_system_health")["status"] == "ok"

    def test_a_result_that_cannot_be_read_any_more_is_refused_with_its_place(self) -> None:
        with Host() as host:
            for text in ("a damaged text", "a sound one"):
                host.write(text)
            found(host, "text")
        with Host(MemoryDisk(in_log(host.disk.files, b"damaged", b"damagex"))) as host:
            with pytest.raises(Refused, match="convmem check") as refused:
                found(host, "text")
            assert refused.value.code == "STORE_FAILED"
            assert refused.value.told["offset"] > 0
            assert found(host, "sound") == ["a sound one"]


class TestMeanwhile:
    """While a thread indexes."""

    def test_all_but_searches_go_on_and_searches_see_what_came(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = Gate(monkeypatch)
        changed = host.write("text old")["message_id"]
        deleted = host.write("text gone")["message_id"]

        async def meanwhile() -> dict[str, Any]:
            search = searching(host)
            await gate.until_reached()
            update = {"message_id": changed, "expected_revision": 1, "content": "text new"}
            await host.ask("update_message", **update)
            await host.ask("delete_message", message_id=deleted)
            await host.ask("write_message", session_id="s", role="user", content="text more")
            await host.ask("read_messages", view="history", session_id="s")
            report = await host.ask("get_system_health")
            assert report["memory_bytes"]["search"] is None
            assert not search.done()
            gate.opened.set()
            return await search

        assert contents(host.run(meanwhile())) == ["text more", "text new"]
        assert found(host, "text") == ["text more", "text new"]

    def test_a_search_may_be_given_up(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        gate = Gate(monkeypatch)
        host.write("text")

        async def give_up() -> None:
            search = searching(host)
            await gate.until_reached()
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search
            gate.opened.set()

        host.run(give_up())
        assert found(host, "text") == ["text"]

    def test_a_search_waits_no_longer_than_hosts_do(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = Gate(monkeypatch)
        host.write("text")
        with monkeypatch.context() as hasty:
            hasty.setattr(index_thread, "INDEX_WAIT_S", 0.01)
            with pytest.raises(Refused, match="still being made") as refused:
                found(host, "text")
        assert refused.value.code == "BUSY"
        gate.opened.set()
        assert found(host, "text") == ["text"]

    def test_the_end_waits_for_a_part_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        host = Host()
        monkeypatch.setattr(indexer, "_CHUNK_TEXTS", 1)
        gate = Gate(monkeypatch)
        for number in range(5):
            host.write(f"text {number}")

        async def close_meanwhile() -> None:
            search = searching(host)
            await gate.until_reached()
            closing = asyncio.create_task(host.engine.close())
            await asyncio.sleep(0)
            assert not closing.done()
            gate.opened.set()
            await closing
            with pytest.raises(Refused, match="shutting down"):
                await search

        host.run(close_meanwhile())
        host.abandon()
        monkeypatch.setattr(indexer, "AT_ONCE_TEXTS", 100)
        with Host(host.disk, host.clock) as reopened:
            assert 0 < told(reopened)["not_indexed"] < 5
            assert len(found(reopened, "text")) == 5

    def test_a_snapshot_does_without_the_index(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = Gate(monkeypatch)

        async def snapshot_meanwhile() -> None:
            for number in range(12):
                content = f"text {number} " + "x" * 500_000
                await host.ask("write_message", session_id="s", role="user", content=content)
            await gate.until_reached()

        host.run(snapshot_meanwhile())
        files = host.disk.files
        assert any(name.endswith(".cvs") for name in files)
        gate.opened.set()
        with Host(MemoryDisk(files)) as reopened:
            assert reopened.call("search_messages", query="text")["total"] == 12

    def test_a_rebuild_ends_it_and_begins_it_anew(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = Gate(monkeypatch)
        host.write("text kept")
        gone = host.write("text gone")["message_id"]

        async def rebuild_meanwhile() -> dict[str, Any]:
            search = searching(host)
            await gate.until_reached()
            await host.ask("delete_message", message_id=gone)
            rebuilding = asyncio.create_task(host.ask("rebuild_index"))
            await asyncio.sleep(0)
            gate.opened.set()
            assert (await rebuilding)["rebuilt"] is True
            return await search

        assert contents(host.run(rebuild_meanwhile())) == ["text kept"]
        assert found(host, "text") == ["text kept"]


def without(name: str) -> Callable[[Columns], Columns]:
    return lambda saved: {other: column for other, column in saved.items() if other[8:] != name}


def cut(name: str, size: int) -> Callable[[Columns], Columns]:
    return lambda saved: {
        other: column.cast("B")[:size] if other[8:] == name else column
        for other, column in saved.items()
    }


class TestColumns:
    """Of a snapshot, as the index was saved."""

    def test_they_spare_the_indexing(self, host: Host) -> None:
        host.write("text one")
        host.call("search_messages", query="text")
        host.write("text two")
        host.restart()
        assert told(host)["not_indexed"] == 1
        assert found(host, "text") == ["text one", "text two"]

    @pytest.mark.parametrize("rebuilt", [False, True])
    def test_they_are_saved_though_nothing_was_written_since(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, rebuilt: bool
    ) -> None:
        monkeypatch.setattr(indexer, "AT_ONCE_TEXTS", 3)
        for number in range(5):
            message_id = host.write(f"text {number}")["message_id"]
        if rebuilt:
            host.call("delete_message", message_id=message_id)
            host.call("rebuild_index")
        with monkeypatch.context() as broken:
            broken.setattr(Indexer, "save", lambda self: dict)
            host.restart()
        found(host, "text")
        host.restart()
        assert told(host)["not_indexed"] == 0

    @pytest.mark.parametrize(
        "mangled",
        [
            lambda saved: {},
            without("end"),
            without("stale"),
            without("values"),
            cut("end", 0),
            cut("stale", 3),
            cut("rows", 3),
            cut("rows", 4),
            cut("lengths", 2),
            cut("uses", 4),
            cut("words", 8),
            cut("keys", 16),
            lambda saved: {name.replace("search1", "search2"): saved[name] for name in saved},
            lambda saved: saved | {"search1.end": memoryview(bytes([9] * 8))},
            lambda saved: saved | {"search1.words": memoryview(b"\xc3\xff" * 3)},
        ],
    )
    def test_columns_that_are_none_are_passed_over(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, mangled: Callable[[Columns], Columns]
    ) -> None:
        for text in ("text one", "text two", "another"):
            message_id = host.write(text, metadata={"tags": ["a"]})["message_id"]
        host.call("search_messages", query="text")
        host.call("update_message", message_id=message_id, expected_revision=1, content="text")
        restore = Indexer.restore
        with monkeypatch.context() as patched:
            patched.setattr(Indexer, "restore", lambda self, saved: restore(self, mangled(saved)))
            host.restart()
        assert told(host)["not_indexed"] == 3
        assert found(host, "text") == ["text", "text one", "text two"]
