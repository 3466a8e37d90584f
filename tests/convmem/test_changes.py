"""Updates, deletions and rebuilds through the tools: what they change, cost and refuse."""

import asyncio
import errno
from collections.abc import Iterator
from typing import Any

import pytest

from convmem.operations import RebuildIndex, WriteMessage
from convmem.storage import MemoryDisk, Operation
from tests.convmem.harness import Host, Refused

NOBODY = "0" * 26
FRAME_BYTES = 32 + 8  # the header, and what fills a payload of a multiple of 8


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def io(host: Host) -> dict[str, int]:
    counted: dict[str, int] = host.call("get_system_health")["log_io"]
    return {name: counted[name] for name in ("writes", "bytes_written", "flushes")}


def spent(host: Host, before: dict[str, int]) -> tuple[int, int, int]:
    """Writes, flushes and bytes since."""
    after = io(host)
    writes, written, flushes = (after[name] - before[name] for name in after)
    return writes, flushes, written


def update(host: Host, message_id: str, revision: int, **changes: Any) -> dict[str, Any]:
    return host.call("update_message", message_id=message_id, expected_revision=revision, **changes)


def messages(host: Host) -> list[dict[str, Any]]:
    reply = host.read("history", session_id="s", order="oldest_first")
    found: list[dict[str, Any]] = reply["messages"]
    return found


class TestUpdate:
    def test_only_what_is_named_changes(self, host: Host) -> None:
        metadata = {"tags": ["a"], "importance": 5, "summary": "short", "memory_kind": "episode"}
        message_id = host.write("old", metadata=metadata)["message_id"]
        (before,) = messages(host)
        host.clock.now_ms += 7
        answer = update(host, message_id, 1, content="new", metadata={"tags": ["b", "c"]})
        assert answer == {
            "message_id": message_id,
            "revision": 2,
            "updated_at": host.clock.now_ms,
            "changed": ["tags", "content"],
        }
        expected = before | {"content": "new", "revision": 2, "updated_at": host.clock.now_ms}
        expected["metadata"] = before["metadata"] | {"tags": ["b", "c"]}
        assert messages(host) == [expected]
        host.restart()
        assert messages(host) == [expected]

    def test_clearing_puts_fields_back(self, host: Host) -> None:
        source = host.write()["message_id"]
        metadata = {
            "tool_call_id": "t",
            "tags": ["a"],
            "memory_tier": "mid",
            "memory_kind": "summary",
            "importance": 9,
            "summary": "",
            "relations": [{"type": "cites", "message_id": source}],
            "source_message_ids": [source],
        }
        message_id = host.write(metadata=metadata)["message_id"]
        assert messages(host)[1]["metadata"] == metadata
        answer = update(host, message_id, 1, clear=list(metadata))
        assert sorted(answer["changed"]) == sorted(metadata)
        assert messages(host)[1]["metadata"] == {"memory_kind": "conversation"}

    def test_what_is_so_already_is_no_write(self, host: Host) -> None:
        message_id = host.write("text", metadata={"tags": ["a"]})["message_id"]
        before = io(host)
        answer = update(host, message_id, 1, content="text", metadata={"tags": ["a"]})
        assert (answer["changed"], answer["revision"]) == ([], 1)
        assert update(host, message_id, 1, clear=["summary"])["changed"] == []
        assert spent(host, before) == (0, 0, 0)

    def test_a_message_changed_often_is_read_as_it_is(self, host: Host) -> None:
        message_id = host.write("0")["message_id"]
        for revision in range(1, 41):
            update(host, message_id, revision, content=str(revision))
            update_of_tags = {"tags": [str(revision)]}
            if revision % 3 == 0:
                host.restart()
            assert messages(host)[0]["content"] == str(revision), update_of_tags
        assert messages(host)[0]["revision"] == 41

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            ({"expected_revision": 2, "content": "x"}, "CONFLICT", '"current_revision":1'),
            ({"message_id": NOBODY, "content": "x"}, "NOT_FOUND", NOBODY),
            ({}, "INVALID_ARGUMENT", "nothing to change"),
            ({"clear": ["content"]}, "INVALID_ARGUMENT", "clear"),
            ({"metadata": {"tags": ["a"]}, "clear": ["tags"]}, "INVALID_ARGUMENT", "tags"),
            ({"metadata": {"source_message_ids": [NOBODY]}}, "NOT_FOUND", NOBODY),
        ],
    )
    def test_what_is_refused_changes_nothing(
        self, host: Host, arguments: dict[str, Any], code: str, told: str
    ) -> None:
        message_id = host.write()["message_id"]
        before = messages(host)
        with pytest.raises(Refused) as refused:
            host.call(
                "update_message", **{"message_id": message_id, "expected_revision": 1} | arguments
            )
        assert refused.value.code == code
        assert told in str(refused.value)
        assert messages(host) == before

    def test_of_many_at_once_one_wins(self, host: Host) -> None:
        message_id = host.write()["message_id"]
        many = [
            {"message_id": message_id, "expected_revision": 1, "content": str(n)} for n in range(9)
        ]
        answers = host.calls("update_message", many)
        won = [answer for answer in answers if isinstance(answer, dict)]
        lost = [answer.code for answer in answers if isinstance(answer, Refused)]
        assert (len(won), lost) == (1, ["CONFLICT"] * 8)


class TestDelete:
    def test_a_deleted_message_is_gone_at_once_and_after_a_restart(self, host: Host) -> None:
        kept, gone = (host.write(text)["message_id"] for text in ("kept", "gone"))
        before = io(host)
        answer = host.call("delete_message", message_id=gone)
        assert answer == {"message_id": gone, "revision": 1}
        assert spent(host, before) == (1, 1, FRAME_BYTES + 32)
        for _ in range(2):
            assert [message["message_id"] for message in messages(host)] == [kept]
            for tool, arguments in (
                ("read_messages", {"view": "content", "message_id": gone}),
                ("read_messages", {"view": "context", "message_id": gone}),
                ("delete_message", {"message_id": gone}),
                ("update_message", {"message_id": gone, "expected_revision": 1, "content": "x"}),
            ):
                with pytest.raises(Refused, match="NOT_FOUND"):
                    host.call(tool, **arguments)
            host.restart()

    @pytest.mark.parametrize(
        "guard", [{"session_id": "t"}, {"expected_revision": 2}], ids=["session", "revision"]
    )
    def test_a_guard_that_does_not_hold_keeps_the_message(
        self, host: Host, guard: dict[str, Any]
    ) -> None:
        message_id = host.write()["message_id"]
        with pytest.raises(Refused, match="CONFLICT"):
            host.call("delete_message", message_id=message_id, **guard)
        assert len(messages(host)) == 1
        host.call("delete_message", message_id=message_id, session_id="s", expected_revision=1)

    def test_a_session_without_messages_is_listed_no_more(self, host: Host) -> None:
        message_id = host.write()["message_id"]
        host.call("delete_message", message_id=message_id)
        assert host.read("sessions")["sessions"] == []
        assert host.call("get_system_health")["sessions"] == 0
        with pytest.raises(Refused, match="NOT_FOUND"):
            host.read("history", session_id="s")

    @pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
    def test_a_cursor_stands_on_a_deleted_message_until_a_rebuild(
        self, host: Host, order: str
    ) -> None:
        ids = [host.write(str(number))["message_id"] for number in range(4)]
        arguments = {"session_id": "s", "order": order}
        page = host.read("history", limit=2, **arguments)
        host.call("delete_message", message_id=page["messages"][1]["message_id"])
        expected = ids[2:] if order == "oldest_first" else ids[1::-1]
        rest = host.read("history", cursor=page["next_cursor"], **arguments)["messages"]
        assert [message["message_id"] for message in rest] == expected
        host.call("rebuild_index")
        with pytest.raises(Refused, match="STALE_CURSOR"):
            host.read("history", cursor=page["next_cursor"], **arguments)


class TestRebuild:
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

    def test_it_writes_what_is_live_once_and_flushes_log_and_snapshot(self, host: Host) -> None:
        for number in range(50):
            message_id = host.write(f"{number} " + "x" * 300)["message_id"]
        host.call("delete_message", message_id=message_id)
        before = io(host)
        snapshots = host.call("get_system_health")["snapshot_io"]["flushes"]
        answer = host.call("rebuild_index")
        _, flushes, written = spent(host, before)
        assert flushes == 1
        assert written == answer["bytes_after"] < answer["bytes_before"]
        health = host.call("get_system_health")
        assert health["snapshot_io"]["flushes"] == snapshots + 1
        assert written + health["store"]["snapshot"]["bytes"] < 2 * answer["bytes_after"]

    def test_nothing_dead_is_no_write(self, host: Host) -> None:
        host.write()
        files = host.disk.files
        before = io(host)
        answer = host.call("rebuild_index")
        assert (answer["rebuilt"], answer["bytes_after"]) == (False, answer["bytes_before"])
        assert spent(host, before) == (0, 0, 0)
        assert host.disk.files == files

    def test_links_to_what_is_gone_are_dropped_first(self, host: Host) -> None:
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

    def test_writes_during_a_rebuild_wait_and_are_all_there(self, host: Host) -> None:
        for number in range(300):
            message_id = host.write(f"before {number}")["message_id"]
        host.call("delete_message", message_id=message_id)
        commands = [WriteMessage(session_id="t", role="user", content=str(n)) for n in range(200)]

        async def both() -> list[Any]:
            rebuilding = asyncio.create_task(host.engine.execute(RebuildIndex()))
            writing = [asyncio.create_task(host.engine.execute(command)) for command in commands]
            return await asyncio.gather(rebuilding, *writing)

        rebuilt, *written = host.run(both())
        assert rebuilt["live"] == 299
        pages = host.pages("history", "messages", session_id="t", order="oldest_first")
        found = [message for page in pages for message in page]
        assert [message["content"] for message in found] == [str(n) for n in range(200)]
        assert [m["message_id"] for m in found] == [answer["message_id"] for answer in written]

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

    @pytest.mark.parametrize("kind", ["create", "pwrite", "sync", "sync_directory"])
    def test_a_disk_that_refuses_leaves_the_old_log_in_use(self, host: Host, kind: str) -> None:
        for _ in range(3):
            message_id = host.write()["message_id"]
        host.call("delete_message", message_id=message_id)
        before = messages(host)

        def refuse(operation: Operation) -> None:
            if operation.kind == kind:
                raise OSError(errno.ENOSPC, "no space left")

        host.disk.hook = refuse
        with pytest.raises(Refused, match="DISK_FULL"):
            host.call("rebuild_index")
        host.disk.hook = lambda operation: None
        assert messages(host) == before
        host.write("after")
        host.restart()
        assert [m["content"] for m in messages(host)] == [m["content"] for m in before] + ["after"]
