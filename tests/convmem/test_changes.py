"""Updates and deletions through the tools: what they change, cost and refuse."""

from collections.abc import Iterator
from typing import Any

import pytest

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
