"""Pages, windows and sessions: what a reply holds, what it leaves to the next one."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem import limits
from tests.convmem.harness import START_MS, Host, Refused


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def contents(pages: list[list[dict[str, Any]]]) -> list[str]:
    return [message["content"] for page in pages for message in page]


class TestHistory:
    @pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
    @pytest.mark.parametrize("limit", [1, 3, 7, 10, 11, 1000])
    def test_pages_hold_every_message_once(self, host: Host, order: str, limit: int) -> None:
        texts = [str(number) for number in range(10)]
        for text in texts:
            host.write(text)
            host.write("elsewhere", session_id="other")
        pages = host.pages("history", "messages", session_id="s", order=order, limit=limit)
        assert contents(pages) == (texts if order == "oldest_first" else texts[::-1])
        assert all(len(page) <= limit for page in pages)
        assert all(page for page in pages)

    @pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
    def test_writes_between_pages_shift_nothing(self, host: Host, order: str) -> None:
        for number in range(4):
            host.write(str(number))
        first = host.read("history", session_id="s", order=order, limit=2)
        host.write("late")
        host.restart()
        rest = host.read("history", session_id="s", order=order, cursor=first["next_cursor"])
        read = contents([first["messages"], rest["messages"]])
        assert read == (
            ["0", "1", "2", "3", "late"] if order == "oldest_first" else ["3", "2", "1", "0"]
        )

    def test_newest_first_is_what_is_read_unless_asked_otherwise(self, host: Host) -> None:
        host.write("old")
        host.write("new")
        reply = host.read("history", session_id="s")
        assert reply["order"] == "newest_first"
        assert contents([reply["messages"]]) == ["new", "old"]

    @settings(max_examples=40)
    @given(
        sizes=st.lists(st.integers(0, 6000), min_size=1, max_size=12),
        letter=st.sampled_from('aé日🎌\0"'),
        max_bytes=st.integers(limits.REPLY_BYTES_MIN, 16_384),
    )
    def test_no_page_is_over_its_budget(
        self, sizes: list[int], letter: str, max_bytes: int
    ) -> None:
        with Host() as host:
            texts = [letter * (size // len(letter.encode())) for size in sizes]
            for text in texts:
                host.write(text)
            arguments = {"session_id": "s", "order": "oldest_first", "max_bytes": max_bytes}
            pages = host.pages("history", "messages", **arguments)
            for page in pages:
                assert len(json.dumps(page, ensure_ascii=False).encode()) < max_bytes
            for text, message in zip(texts, [m for page in pages for m in page], strict=True):
                if "content_truncated" in message:
                    assert text.startswith(message["content"])
                    assert message["content_bytes"] == len(text.encode())
                    assert len(json.dumps(text, ensure_ascii=False).encode()) > max_bytes - 3000
                else:
                    assert message["content"] == text

    def test_an_unknown_session_is_not_an_empty_one(self, host: Host) -> None:
        with pytest.raises(Refused, match=r"NOT_FOUND.*'nowhere'.*sessions"):
            host.read("history", session_id="nowhere")

    def test_a_cursor_is_refused_elsewhere(self, host: Host) -> None:
        for session in ("s", "t"):
            for _ in range(2):
                host.write(session_id=session)
        cursor = host.read("history", session_id="s", limit=1)["next_cursor"]
        for view, other in (
            ("history", {"session_id": "t"}),
            ("history", {"session_id": "s", "order": "oldest_first"}),
            ("sessions", {}),
        ):
            with pytest.raises(Refused, match="INVALID_ARGUMENT: cursor"):
                host.read(view, cursor=cursor, **other)

    def test_a_cursor_of_a_message_that_is_gone_is_stale(self, host: Host) -> None:
        host.write()
        host.write()
        cursor = host.read("history", session_id="s", limit=1)["next_cursor"]
        with Host() as fresh:
            fresh.clock.now_ms = START_MS + 99
            fresh.write()
            with pytest.raises(Refused) as refused:
                fresh.read("history", session_id="s", cursor=cursor)
        assert refused.value.code == "STALE_CURSOR"


class TestContent:
    @settings(max_examples=100)
    @given(st.text(max_size=60), st.integers(1, 20))
    def test_windows_join_to_the_text(self, text: str, limit: int) -> None:
        text = text.encode(errors="ignore").decode()
        with Host() as host:
            message_id = host.write(text)["message_id"]
            read, offset = "", 0
            for _ in range(len(text) + 1):
                window = host.read("content", message_id=message_id, offset=offset, limit=limit)
                size = window["next_offset"] - offset
                assert window["content"].encode() == text.encode()[offset : offset + size]
                assert size <= max(limit, 4)
                read, offset = read + window["content"], window["next_offset"]
            assert read == text
            assert offset == window["total_bytes"] == len(text.encode())

    def test_a_window_steps_back_to_a_code_point(self, host: Host) -> None:
        message_id = host.write("aé日🎌")["message_id"]
        ends = dict.fromkeys(range(1, 11), 0)
        for limit in ends:
            ends[limit] = host.read("content", message_id=message_id, limit=limit)["next_offset"]
        assert ends == {1: 1, 2: 1, 3: 3, 4: 3, 5: 3, 6: 6, 7: 6, 8: 6, 9: 6, 10: 10}
        # smaller than the one code point that stands there: that one, whole
        window = host.read("content", message_id=message_id, offset=6, limit=1)
        assert (window["content"], window["next_offset"]) == ("🎌", 10)

    @pytest.mark.parametrize("offset", [2, 4, 5, 7, 11, 1_000_000])
    def test_an_offset_inside_a_code_point_or_past_the_end_is_refused(
        self, host: Host, offset: int
    ) -> None:
        message_id = host.write("aé日🎌")["message_id"]
        with pytest.raises(Refused, match="INVALID_ARGUMENT: offset"):
            host.read("content", message_id=message_id, offset=offset)

    def test_a_changed_revision_is_a_conflict(self, host: Host) -> None:
        message_id = host.write()["message_id"]
        assert host.read("content", message_id=message_id, expected_revision=1)["revision"] == 1
        with pytest.raises(Refused, match="CONFLICT"):
            host.read("content", message_id=message_id, expected_revision=2)

    def test_an_unknown_message_is_not_found(self, host: Host) -> None:
        with pytest.raises(Refused, match="NOT_FOUND"):
            host.read("content", message_id="0" * 26)


class TestSessions:
    def test_each_says_what_it_holds(self, host: Host) -> None:
        host.write("  first line \nsecond line", session_id="plain")
        host.clock.now_ms += 10
        host.write("kept", session_id="plain", metadata={"memory_kind": "semantic"})
        host.write("x", session_id="field", metadata={"summary": "an older word"})
        host.write("x", session_id="field", metadata={"summary": "in a word"})
        host.write("all of it", session_id="message", metadata={"memory_kind": "summary"})
        host.write("later", session_id="message")
        host.write("no user", session_id="silent", role="system")
        sessions = {item["session_id"]: item for item in host.read("sessions")["sessions"]}
        assert list(sessions) == ["silent", "message", "field", "plain"]
        assert sessions["plain"] == {
            "session_id": "plain",
            "messages": 2,
            "kinds": {"conversation": 1, "semantic": 1},
            "first_timestamp": START_MS,
            "last_timestamp": START_MS + 10,
            "summary": "first line",
            "summary_from": "first_user_message",
        }
        said = {name: item.get("summary") for name, item in sessions.items()}
        assert said["message"] == "all of it"
        assert said["field"] == "in a word"
        assert said["silent"] is None

    @pytest.mark.parametrize("limit", [1, 2, 5, 6])
    def test_each_is_listed_once_whatever_is_written_between_pages(
        self, host: Host, limit: int
    ) -> None:
        for number in range(5):
            host.write(session_id=f"s{number}")
        pages = []
        cursor: dict[str, str] = {}
        while True:
            page = host.read("sessions", limit=limit, **cursor)
            pages.append([item["session_id"] for item in page["sessions"]])
            host.write(session_id="s0")
            host.write(session_id="new")
            host.restart()
            if "next_cursor" not in page:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert [name for names in pages for name in names] == ["s4", "s3", "s2", "s1", "s0"]

    @pytest.mark.parametrize("limit", [1, 2, 1000])
    def test_their_order_tells_only_of_what_is_there(self, host: Host, limit: int) -> None:
        """A deletion moves its session to where a store without that message has it."""
        for name in ("old", "busy", "new", "gone", "old"):
            last = host.write(session_id=name)["message_id"]
        host.call("delete_message", message_id=last)
        (gone,) = host.read("history", session_id="gone")["messages"]
        host.call("delete_message", message_id=gone["message_id"])
        for again in (lambda: None, host.restart, lambda: host.call("rebuild_index")):
            again()
            pages = host.pages("sessions", "sessions", limit=limit)
            listed = [item["session_id"] for page in pages for item in page]
            assert listed == ["new", "busy", "old"]

    def test_a_deletion_between_pages_leaves_none_out(self, host: Host) -> None:
        """A session that lost its newest message is listed again where it stands now."""
        for name in ("a", "b", "c", "d", "b"):
            last = host.write(session_id=name)["message_id"]
        page = host.read("sessions", limit=1)
        host.call("delete_message", message_id=last)
        rest = host.read("sessions", cursor=page["next_cursor"])
        listed = [item["session_id"] for item in page["sessions"] + rest["sessions"]]
        assert listed == ["b", "d", "c", "b", "a"]

    def test_a_deleted_newest_message_does_not_make_a_cursor_stale(self, host: Host) -> None:
        for name in ("a", "b", "c"):
            last = host.write(session_id=name)["message_id"]
        host.call("delete_message", message_id=last)
        page = host.read("sessions", limit=1)
        host.call("rebuild_index")
        rest = host.read("sessions", cursor=page["next_cursor"])
        listed = [item["session_id"] for item in page["sessions"] + rest["sessions"]]
        assert listed == ["b", "a"]

    def test_a_prefix_is_taken_literally(self, host: Host) -> None:
        for name in ("a%b", "a_b", "A_b", "ab"):
            host.write(session_id=name)
        listed = host.read("sessions", prefix="a_")["sessions"]
        assert [item["session_id"] for item in listed] == ["a_b"]

    def test_an_empty_store_has_none(self, host: Host) -> None:
        assert host.read("sessions") == {"view": "sessions", "sessions": []}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"view": "everything"}, ["view", "history", "content", "sessions"]),
        ({"view": "history"}, ["session_id: required"]),
        ({"view": "content", "session_id": "s"}, ["message_id: required", "session_id: not"]),
        ({"view": "sessions", "order": "newest_first"}, ["order: not"]),
        ({"view": "history", "session_id": "s", "limit": 1001}, ["limit", "1000"]),
        ({"view": "history", "session_id": "s", "limit": 0}, ["limit"]),
        ({"view": "history", "session_id": "s", "max_bytes": 1}, ["max_bytes"]),
    ],
)
def test_a_bad_read_says_what_is_wrong(
    host: Host, arguments: dict[str, Any], told: list[str]
) -> None:
    with pytest.raises(Refused) as refused:
        host.call("read_messages", **arguments)
    assert refused.value.code == "INVALID_ARGUMENT"
    for words in told:
        assert words in str(refused.value)
