"""Messages written and read back through the tools, over the real client, server and engine."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem import ids, limits
from convmem.errors import Code, Refusal
from convmem.operations import WriteMessage
from tests.convmem.harness import START_MS, Clock, Host, Refused
from tests.convmem.strategies import any_text


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def test_a_message_comes_back_with_all_that_was_said_of_it(host: Host) -> None:
    first = host.write("the source")["message_id"]
    metadata = {
        "tool_call_id": "call-1",
        "tags": ["Release", "日本語"],
        "memory_tier": "long",
        "memory_kind": "semantic",
        "importance": 70,
        "summary": "in short",
        "relations": [{"type": "derived_from", "message_id": first}],
        "source_message_ids": [first],
    }
    host.clock.now_ms += 1000
    written = host.write("text", role="assistant", metadata=metadata)
    assert written == {
        "message_id": written["message_id"],
        "timestamp": START_MS + 1000,
        "revision": 1,
        "created": True,
    }
    expected = {
        "message_id": written["message_id"],
        "session_id": "s",
        "timestamp": START_MS + 1000,
        "updated_at": START_MS + 1000,
        "revision": 1,
        "role": "assistant",
        "content": "text",
        "metadata": metadata,
        "written_by": "test host",
    }
    assert host.read("history", session_id="s")["messages"][0] == expected
    host.restart()
    assert host.read("history", session_id="s")["messages"][0] == expected


@settings(max_examples=50)
@given(st.lists(any_text, min_size=1, max_size=8))
def test_any_text_comes_back_identical_after_a_restart(texts: list[str]) -> None:
    with Host() as host:
        for text in texts:
            host.write(text)
        host.restart()
        pages = host.pages("history", "messages", session_id="s", order="oldest_first")
        assert [message["content"] for page in pages for message in page] == texts


def test_calls_under_way_at_once_keep_their_order(host: Host) -> None:
    texts = [f"text {number}" for number in range(200)]
    many = [{"session_id": "s", "role": "user", "content": text} for text in texts]
    answers: list[Any] = host.calls("write_message", many)
    ids_given = [answer["message_id"] for answer in answers]
    assert ids_given == sorted(set(ids_given))
    pages = host.pages("history", "messages", session_id="s", order="oldest_first")
    found = [message for page in pages for message in page]
    assert [message["content"] for message in found] == texts
    assert [message["message_id"] for message in found] == ids_given


def test_ids_increase_when_the_clock_goes_back_and_over_restarts(host: Host) -> None:
    given_out = []
    for step_ms in (0, 0, -5000, 1, 0):
        host.clock.now_ms += step_ms
        given_out.append(host.write()["message_id"])
        host.restart()
    assert given_out == sorted(set(given_out))


class TestRepetition:
    """The same ``message_id`` again is the same message, or a conflict."""

    own_id = ids.to_text(ids.successor(ids.NO_ID, START_MS - 10, bytes(10)))

    def test_the_same_message_again_is_not_written_twice(self, host: Host) -> None:
        first = host.write(message_id=self.own_id, metadata={"tags": ["a"]})
        again = host.write(message_id=self.own_id, metadata={"tags": ["a"]})
        assert (first["created"], again["created"]) == (True, False)
        assert again == first | {"created": False}
        assert host.call("get_system_health")["messages"] == 1

    def test_at_the_same_time_too(self, host: Host) -> None:
        same = {"session_id": "s", "role": "user", "content": "x", "message_id": self.own_id}
        answers: list[Any] = host.calls("write_message", [same] * 7)
        assert sorted(answer["created"] for answer in answers) == [False] * 6 + [True]

    def test_an_id_that_was_just_given_out_is_taken(self, host: Host) -> None:
        """Ids that follow one ahead of the clock can be foreseen, even within one batch."""

        def own(number: int) -> bytes:
            return ids.successor(ids.NO_ID, START_MS + 1000, number.to_bytes(10, "big"))

        commands = [
            WriteMessage(session_id="s", role="user", content=content, message_id=message_id)
            for content, message_id in (("5", own(5)), ("given", None), ("6", own(6)))
        ]

        async def all_at_once() -> list[Any]:
            executed = map(host.engine.execute, commands)
            return await asyncio.gather(*executed, return_exceptions=True)

        first, given, refused = host.run(all_at_once())
        assert [first["message_id"], given["message_id"]] == [ids.to_text(own(n)) for n in (5, 6)]
        assert isinstance(refused, Refusal)
        assert refused.code == Code.CONFLICT
        host.restart()
        pages = host.pages("history", "messages", session_id="s", order="oldest_first")
        assert [message["content"] for page in pages for message in page] == ["5", "given"]

    @pytest.mark.parametrize(
        "other",
        [{"content": "y"}, {"session_id": "t"}, {"role": "system"}, {"metadata": {"tags": ["b"]}}],
        ids=lambda other: next(iter(other)),
    )
    def test_another_message_is_a_conflict(self, host: Host, other: dict[str, Any]) -> None:
        host.write(message_id=self.own_id)
        with pytest.raises(Refused) as refused:
            host.write(**{"message_id": self.own_id} | other)
        assert refused.value.code == "CONFLICT"
        assert refused.value.told["current_revision"] == 1

    @pytest.mark.parametrize(
        "changes",
        [
            {"content": "later"},
            {"metadata": {"tags": ["b"], "importance": 9}},
            {"clear": ["tags", "relations"]},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_the_same_message_again_is_known_though_it_changed_since(
        self, host: Host, changes: dict[str, Any]
    ) -> None:
        link = {"type": "cites", "message_id": host.write()["message_id"]}
        metadata = {"tags": ["a"], "relations": [link]}
        same: dict[str, Any] = {"message_id": self.own_id, "metadata": metadata}
        first = host.write(**same)
        host.call("update_message", message_id=self.own_id, expected_revision=1, **changes)
        (stored, _) = host.read("history", session_id="s")["messages"]
        host.restart()
        assert host.write(**same) == first | {"created": False, "revision": 2}
        assert host.read("history", session_id="s")["messages"][0] == stored
        host.call("rebuild_index")  # which keeps what a message is, not what it was
        with pytest.raises(Refused, match=r"CONFLICT.*rebuild"):
            host.write(**same)
        assert host.read("history", session_id="s")["messages"][0] == stored

    @pytest.mark.parametrize("rebuild", [False, True], ids=["dangling", "dropped"])
    def test_the_same_message_again_is_known_though_its_links_are_gone(
        self, host: Host, rebuild: bool
    ) -> None:
        target = host.write("target")["message_id"]
        relation = {"type": "cites", "message_id": target}
        metadata = {"relations": [relation], "source_message_ids": [target]}
        same: dict[str, Any] = {"message_id": self.own_id, "metadata": metadata}
        host.write(**same)
        host.call("delete_message", message_id=target)
        if rebuild:
            assert host.call("rebuild_index")["dropped_links"] == 1
        again = host.write(**same)
        assert (again["created"], again["revision"]) == (False, 2 if rebuild else 1)
        with pytest.raises(Refused, match="CONFLICT"):
            host.write(**same | {"content": "other"})

    def test_the_id_of_a_deleted_message_is_free_once_nothing_is_left_of_it(
        self, host: Host
    ) -> None:
        host.write("gone", message_id=self.own_id)
        host.write("of a greater id")
        host.call("delete_message", message_id=self.own_id)
        host.restart()
        with pytest.raises(Refused, match=r"CONFLICT: .* was deleted"):
            host.write("gone", message_id=self.own_id)
        host.call("rebuild_index")
        assert ids.from_text(self.own_id) not in b"".join(host.disk.files.values())
        written = host.write("gone", message_id=self.own_id)
        assert (written["created"], written["revision"]) == (True, 1)

    def test_an_id_far_in_the_future_is_refused(self, host: Host) -> None:
        ahead_ms = limits.MESSAGE_ID_AHEAD_MS_MAX
        allowed, refused = (
            ids.to_text(ids.successor(ids.NO_ID, START_MS + ms, bytes(10)))
            for ms in (ahead_ms, ahead_ms + 1)
        )
        host.write(message_id=allowed)
        assert host.write()["message_id"] > allowed
        with pytest.raises(Refused, match="in the future"):
            host.write(message_id=refused)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ({"role": "robot"}, "INVALID_ARGUMENT", "role"),
        ({"session_id": ""}, "INVALID_ARGUMENT", "session_id"),
        ({"session_id": "é" * 128 + "x"}, "INVALID_ARGUMENT", "256"),
        ({"session_id": "a\0b"}, "INVALID_ARGUMENT", "session_id"),
        ({"content": 5}, "INVALID_ARGUMENT", "content"),
        ({"content": "x" * (limits.CONTENT_BYTES_MAX + 1)}, "INVALID_ARGUMENT", "1048576"),
        ({"message_id": "x" * 26}, "INVALID_ARGUMENT", "message_id"),
        ({"message_id": "0" * 26}, "INVALID_ARGUMENT", "zeros"),
        ({"metadata": {"tags": ["a", "b", "a"]}}, "INVALID_ARGUMENT", "tags[2]"),
        ({"metadata": {"tags": ["t" * 129]}}, "INVALID_ARGUMENT", "128"),
        ({"metadata": {"tags": [str(n) for n in range(33)]}}, "INVALID_ARGUMENT", "32"),
        ({"metadata": {"importance": 101}}, "INVALID_ARGUMENT", "importance"),
        ({"metadata": {"summary": "s" * 4097}}, "INVALID_ARGUMENT", "4096"),
        (
            {"metadata": {"relations": [{"type": "Not A Word", "message_id": "0" * 26}]}},
            "INVALID_ARGUMENT",
            "relations[0].type",
        ),
        (
            {"metadata": {"relations": [{"type": "cites", "message_id": "0" * 26}]}},
            "NOT_FOUND",
            "0" * 26,
        ),
        ({"metadata": {"source_message_ids": ["0" * 25 + "u"]}}, "INVALID_ARGUMENT", "sources"),
    ],
)
def test_a_bad_write_says_what_is_wrong_and_leaves_nothing(
    host: Host, arguments: dict[str, Any], code: str, told: str
) -> None:
    with pytest.raises(Refused) as refused:
        host.write(**arguments)
    assert refused.value.code == code
    assert told.replace("sources", "source_message_ids[0]") in str(refused.value)
    assert host.call("get_system_health")["messages"] == 0


def test_the_largest_message_is_accepted_and_read_back_in_windows(host: Host) -> None:
    text = "日" * (limits.CONTENT_BYTES_MAX // 3) + "x"
    message_id = host.write(text)["message_id"]
    read, offset = "", 0
    while offset < limits.CONTENT_BYTES_MAX:
        window = host.read(
            "content", message_id=message_id, offset=offset, limit=limits.WINDOW_BYTES_MAX
        )
        assert window["total_bytes"] == limits.CONTENT_BYTES_MAX
        read, offset = read + window["content"], window["next_offset"]
    assert read == text


def test_the_clients_own_name_is_replaced_by_a_configured_one() -> None:
    from convmem.protocol import Call
    from convmem.tools.replies import client_id

    def told(configured: str | None, host_name: str) -> str | None:
        return client_id(configured, cast(Call, SimpleNamespace(client_name=host_name)))

    assert told("desk", "host") == "desk"
    assert told(None, "é" * 200) == "é" * 64
    assert told(None, "") is None


def test_two_hosts_hold_their_own_clock() -> None:
    clock = Clock(now_ms=START_MS + 5)
    with Host(clock=clock) as host:
        assert host.write()["timestamp"] == START_MS + 5
