"""Rebuilds through the tools: what goes, what stays, and what others notice meanwhile."""

import asyncio
import errno
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from convmem.operations import RebuildIndex
from convmem.storage import MemoryDisk, Operation
from tests.convmem.harness import WAIT_S, Host, Refused


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def update(host: Host, message_id: str, revision: int, **changes: Any) -> dict[str, Any]:
    return host.call("update_message", message_id=message_id, expected_revision=revision, **changes)


def messages(host: Host, session_id: str = "s") -> list[dict[str, Any]]:
    arguments = {"session_id": session_id, "order": "oldest_first"}
    return [item for page in host.pages("history", "messages", **arguments) for item in page]


class TestWhatCounts:
    def test_what_is_dead_leaves_the_disk_and_the_rest_stays(self, host: Host) -> None:
        for text in ("kept", "secret", "old"):
            host.write(text * 100)
        kept, secret, old = messages(host)
        update(host, old["message_id"], 1, content="new")
        host.call("delete_message", message_id=secret["message_id"])
        before = messages(host)
        answer = host.call("rebuild_index")
        assert answer["rebuilt"] is True
        assert answer["live"] == 2
        assert answer["bytes_after"] < answer["bytes_before"]
        for _ in range(2):
            assert messages(host) == before
            files = b"".join(host.disk.files.values())
            assert b"secret" not in files
            assert b"oldold" not in files
            assert b"kept" in files
            host.restart()
        assert kept["message_id"] == before[0]["message_id"]

    def test_links_to_what_is_gone_are_dropped(self, host: Host) -> None:
        gone, there = (host.write()["message_id"] for _ in range(2))
        links = [{"type": "cites", "message_id": id_} for id_ in (gone, there)]
        host.write(metadata={"relations": links, "source_message_ids": [gone]})
        host.call("delete_message", message_id=gone)
        assert host.call("rebuild_index")["dropped_links"] == 1
        assert messages(host)[-1]["metadata"] == {
            "memory_kind": "conversation",
            "relations": links[1:],
        }
        assert host.call("rebuild_index")["rebuilt"] is False

    def test_a_message_that_loses_links_has_a_new_revision(self, host: Host) -> None:
        """Of one revision there is one message: who read the old one must read again to change."""
        gone = host.write()["message_id"]
        source = host.write(metadata={"source_message_ids": [gone]})["message_id"]
        host.write("no links")
        host.call("delete_message", message_id=gone)
        host.clock.now_ms += 1000
        host.call("rebuild_index")
        found = [(m["revision"], m["updated_at"] - m["timestamp"]) for m in messages(host)]
        assert found == [(2, 1000), (1, 0)]
        with pytest.raises(Refused) as refused:
            update(host, source, 1, content="never")
        assert refused.value.told["current_revision"] == 2
        assert update(host, source, 2, content="now")["revision"] == 3
        host.restart()
        assert messages(host)[0]["content"] == "now"

    @pytest.mark.parametrize("field", ["relations", "source_message_ids"])
    def test_a_link_that_was_replaced_is_none(self, host: Host, field: str) -> None:
        one, two = (host.write()["message_id"] for _ in range(2))

        def to(target: str) -> dict[str, Any]:
            link = {"type": "cites", "message_id": target}
            return {field: [link if field == "relations" else target]}

        message_id = host.write(metadata=to(one))["message_id"]
        update(host, message_id, 1, metadata=to(two))
        assert host.read("context", message_id=one)["related"] == []
        host.call("delete_message", message_id=one)
        assert host.call("rebuild_index")["dropped_links"] == 0

    @pytest.mark.parametrize("snapshot", [True, False], ids=["with", "without"])
    @pytest.mark.parametrize("rebuild", [True, False], ids=["rebuilt", "as it is"])
    def test_the_greatest_id_counts_though_its_message_is_gone(
        self, host: Host, rebuild: bool, snapshot: bool
    ) -> None:
        host.write()
        greatest = host.write()["message_id"]
        host.call("delete_message", message_id=greatest)
        if rebuild:
            host.call("rebuild_index")
        host.restart()
        clock, files = host.clock, host.disk.files
        clock.now_ms -= 3_600_000
        kept = {name: data for name, data in files.items() if snapshot or name[-3:] != "cvs"}
        with Host(MemoryDisk(kept), clock) as reopened:
            assert reopened.write()["message_id"] > greatest

    @pytest.mark.parametrize(
        ("view", "items", "arguments"),
        [
            ("history", "messages", {"session_id": "s3", "order": "oldest_first"}),
            ("history", "messages", {"session_id": "s3", "order": "newest_first"}),
            ("sessions", "sessions", {}),
            ("export", "lines", {}),
        ],
    )
    def test_a_cursor_stands_unless_its_message_is_gone(
        self, host: Host, view: str, items: str, arguments: dict[str, Any]
    ) -> None:
        written = [host.write(session_id=f"s{n % 6}")["message_id"] for n in range(24)]
        whole = host.read(view, **arguments)[items]
        page = host.read(view, limit=2, **arguments)
        host.call("delete_message", message_id=host.write(session_id="gone")["message_id"])
        update(host, written[0], 1, metadata={"importance": 1})
        assert host.call("rebuild_index")["rebuilt"] is True
        host.restart()
        rest = host.read(view, cursor=page["next_cursor"], **arguments)[items]
        assert len(page[items]) == 2
        assert page[items] + rest == whole
        for message_id in written:
            host.call("delete_message", message_id=message_id)
        host.write(session_id="s3")
        host.call("rebuild_index")
        with pytest.raises(Refused, match="STALE_CURSOR"):
            host.read(view, cursor=page["next_cursor"], **arguments)


class TestMeanwhile:
    def test_reads_are_answered_and_writes_wait(self, host: Host) -> None:
        """The rebuild stands still at its first change of the disk until all has been asked."""
        first, *_, last = (host.write(f"before {n}")["message_id"] for n in range(300))
        host.call("delete_message", message_id=last)
        begun, go_on = threading.Event(), threading.Event()

        def stand_still(operation: Operation) -> None:
            begun.set()
            assert go_on.wait(WAIT_S)

        def write(number: int) -> "asyncio.Task[dict[str, Any]]":
            arguments = {"session_id": "t", "role": "user", "content": str(number)}
            return asyncio.create_task(host.ask("write_message", **arguments))

        async def both() -> tuple[dict[str, Any], list[dict[str, Any]]]:
            host.disk.hook = stand_still
            rebuilding = asyncio.create_task(host.ask("rebuild_index"))
            assert await asyncio.to_thread(begun.wait, WAIT_S)
            writing = [write(n) for n in range(20)]
            for view in ("history", "content", "context"):
                asked = {"session_id": "s"} if view == "history" else {"message_id": first}
                assert await host.ask("read_messages", view=view, **asked)
            writing += [write(n) for n in range(20, 200)]
            assert not rebuilding.done()
            assert not any(task.done() for task in writing)
            go_on.set()
            return await rebuilding, await asyncio.gather(*writing)

        rebuilt, written = host.run(both())
        assert rebuilt["live"] == 299
        for _ in range(2):
            found = messages(host, "t")
            assert [message["content"] for message in found] == [str(n) for n in range(200)]
            assert [m["message_id"] for m in found] == [m["message_id"] for m in written]
            host.restart()

    def test_its_progress_is_told(self, host: Host) -> None:
        for _ in range(20):
            message_id = host.write()["message_id"]
        host.call("delete_message", message_id=message_id)
        told: list[tuple[int, int]] = []

        async def on_progress(done: int, total: int) -> None:
            told.append((done, total))

        host.run(host.engine.execute(RebuildIndex(), on_progress))
        host.call("get_system_health")  # what was told from the writer's thread has arrived
        assert told[-1] == (19, 19)
        assert [done for done, _ in told] == sorted(done for done, _ in told)


class RefusedChange:
    """Refuses one change of a disk, the ``place``-th from now; knows whether it came to that."""

    def __init__(self, place: int, number: int) -> None:
        self._left = place
        self._number = number

    def __call__(self, operation: Operation) -> None:
        self._left -= 1
        if not self._left:
            raise OSError(self._number, "injected")

    @property
    def came(self) -> bool:
        return self._left <= 0


def rebuild_refused(place: int, number: int) -> str | None:
    """What a rebuild ends with when that change of the disk is refused; None if there is none."""
    with Host() as host:
        for text in ("one", "two", "three"):
            message_id = host.write(text)["message_id"]
        host.call("delete_message", message_id=message_id)
        host.disk.hook = change = RefusedChange(place, number)
        outcome = "REBUILT"
        try:
            host.call("rebuild_index")
        except Refused as refused:
            outcome = refused.code
        host.disk.hook = lambda operation: None
        assert [message["content"] for message in messages(host)] == ["one", "two"]
        host.write("after")
        for _ in range(2):
            assert [message["content"] for message in messages(host)] == ["one", "two", "after"]
            host.restart()
        return outcome if change.came else None


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "DISK_FULL"), (errno.EIO, "STORE_FAILED")]
)
def test_a_disk_that_refuses_any_one_change_costs_no_message(number: int, code: str) -> None:
    outcomes = []
    for place in itertools.count(1):
        outcome = rebuild_refused(place, number)
        if outcome is None:
            break
        outcomes.append(outcome)
    assert set(outcomes) == {code, "REBUILT"}
    refused = outcomes.count(code)
    assert outcomes[:refused] == [code] * refused, "refused after the new log was in use"
