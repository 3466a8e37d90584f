"""Facts through their tools: values, guards, histories, lists, and what a purge leaves."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convmem import audit, limits
from convmem.storage import OsDisk
from tests.convmem.harness import Host, Refused


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def put(host: Host, key: str, value: str, **more: Any) -> dict[str, Any]:
    return host.call("memory_set", key=key, value=value, **more)


def get(host: Host, key: str, **more: Any) -> dict[str, Any]:
    return host.call("memory_get", key=key, **more)


def history(host: Host, key: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = host.call("memory_history", key=key)["events"]
    return events


def refused(host: Host, tool: str, **arguments: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        host.call(tool, **arguments)
    return caught.value


class TestValues:
    def test_the_last_value_counts_and_each_has_a_revision(self, host: Host) -> None:
        assert put(host, "theme", "light") == {
            "key": "theme",
            "revision": 1,
            "set_at": host.clock.now_ms,
        }
        again = put(host, "theme", "dark", client_id="desk")
        assert again["revision"] == 2
        assert again["previous"] == {"value": "light", "revision": 1}
        for _ in range(2):
            assert get(host, "theme") == {
                "key": "theme",
                "value": "dark",
                "revision": 2,
                "set_at": host.clock.now_ms,
                "client_id": "desk",
            }
            host.restart()

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "a\nb\r\n\0\x1b[31m",
            '"},{"key":"forged"',
            "日本語 😀 e\u0301 \u202e \uffff",
            "x" * 65536,
        ],
    )
    def test_a_value_comes_back_as_it_was(self, host: Host, text: str) -> None:
        key = text[:60].replace("\0", " ") or "empty"
        put(host, key, text)
        put(host, "other", "other")
        for _ in range(2):
            assert get(host, key)["value"] == text
            listed = host.call("memory_list", max_bytes=limits.REPLY_BYTES_MAX)["facts"]
            assert {fact["key"]: fact["value"] for fact in listed} == {key: text, "other": "other"}
            host.restart()

    def test_who_did_it_is_the_client_that_is_named_or_the_host(self, host: Host) -> None:
        put(host, "key", "one")
        put(host, "key", "two", client_id="me")
        host.call("memory_delete", key="key", client_id="you")
        assert [event["client_id"] for event in history(host, "key")] == ["you", "me", "test host"]

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ({"key": "", "value": "x"}, "key"),
            ({"key": "k" * 257, "value": "x"}, "256"),
            ({"key": "k", "value": "x" * 65537}, "65536"),
            ({"key": "k", "value": "x", "client_id": "c" * 129}, "128"),
            ({"key": "k", "value": "x", "expected_revision": 0}, "expected_revision"),
        ],
    )
    def test_what_is_too_long_is_refused_with_the_limit(
        self, host: Host, arguments: dict[str, Any], told: str
    ) -> None:
        error = refused(host, "memory_set", **arguments)
        assert error.code == "INVALID_ARGUMENT"
        assert told in error.told["message"]

    def test_the_longest_key_and_value_are_taken(self, host: Host) -> None:
        put(host, "é" * 128, "é" * 32768)
        host.restart()
        assert get(host, "é" * 128)["value"] == "é" * 32768


class TestGuards:
    def test_a_value_set_and_set_back_is_told_by_its_revision_only(self, host: Host) -> None:
        put(host, "k", "a")
        put(host, "k", "b")
        put(host, "k", "a")
        error = refused(host, "memory_set", key="k", value="c", expected_revision=1)
        assert (error.code, error.told["current_revision"]) == ("CONFLICT", 3)
        assert error.told["current_value"] == "a"
        assert put(host, "k", "c", expected_value="a")["revision"] == 4

    def test_a_revision_is_never_used_again(self, host: Host) -> None:
        put(host, "k", "a")
        host.call("memory_delete", key="k")
        assert put(host, "k", "a")["revision"] == 2
        host.call("memory_delete", key="k", purge=True)
        assert put(host, "k", "a")["revision"] == 3
        host.call("memory_delete", key="k", purge=True)
        host.call("rebuild_index")
        host.restart()
        assert put(host, "k", "a")["revision"] == 4
        assert put(host, "new", "a")["revision"] == 4

    @pytest.mark.parametrize(
        ("guards", "code", "reason"),
        [
            ({"expected_value": "other"}, "CONFLICT", "value_differs"),
            ({"expected_revision": 7}, "CONFLICT", "revision_differs"),
            ({"expected_value": "now", "expected_revision": 2}, "CONFLICT", "revision_differs"),
            ({"require_absent": True}, "ALREADY_EXISTS", "already_exists"),
        ],
    )
    def test_a_refusal_changes_nothing_and_stands_in_the_history(
        self, host: Host, guards: dict[str, Any], code: str, reason: str
    ) -> None:
        put(host, "k", "now")
        error = refused(host, "memory_set", key="k", value="then", client_id="late", **guards)
        assert (error.code, error.told["reason"]) == (code, reason)
        for _ in range(2):
            assert get(host, "k")["value"] == "now"
            newest, oldest = history(host, "k")
            assert newest["action"] == "refused"
            assert (newest["tried"], newest["value"], newest["reason"]) == ("set", "then", reason)
            assert (newest["client_id"], newest["current_revision"]) == ("late", 1)
            assert (oldest["action"], oldest["value"]) == ("set", "now")
            host.restart()

    def test_a_value_expected_where_there_is_none_is_a_conflict(self, host: Host) -> None:
        error = refused(host, "memory_set", key="k", value="x", expected_value="")
        assert (error.code, error.told["reason"]) == ("CONFLICT", "not_there")
        assert [event["action"] for event in history(host, "k")] == ["refused"]
        assert refused(host, "memory_get", key="k").code == "NOT_FOUND"
        assert put(host, "k", "x", require_absent=True)["revision"] == 1

    def test_a_deletion_has_the_same_guards(self, host: Host) -> None:
        put(host, "k", "a")
        for guards in ({"expected_value": "b"}, {"expected_revision": 2}):
            assert refused(host, "memory_delete", key="k", **guards).code == "CONFLICT"
        deleted = host.call("memory_delete", key="k", expected_value="a", expected_revision=1)
        assert deleted == {"key": "k", "revision": 1, "purged": False}
        actions = [(event["action"], event.get("tried")) for event in history(host, "k")]
        assert actions == [("delete", None), *[("refused", "delete")] * 2, ("set", None)]

    def test_what_is_not_there_is_not_found(self, host: Host) -> None:
        for tool in ("memory_get", "memory_delete", "memory_history"):
            error = refused(host, tool, key="nothing")
            assert error.code == "NOT_FOUND"
            assert "memory_list" in error.told["message"]
        put(host, "k", "a")
        host.call("memory_delete", key="k")
        assert "was deleted" in refused(host, "memory_get", key="k").told["message"]
        assert refused(host, "memory_delete", key="k").code == "NOT_FOUND"

    def test_of_many_at_once_that_create_a_key_one_does(self, host: Host) -> None:
        tries = [{"key": "k", "value": str(n), "require_absent": True} for n in range(7)]
        answers = host.calls("memory_set", tries)
        assert sum(isinstance(answer, dict) for answer in answers) == 1
        events = history(host, "k")
        assert [event["action"] for event in events] == ["refused"] * 6 + ["set"]
        assert {event["value"] for event in events} == {str(n) for n in range(7)}

    def test_many_at_once_on_many_keys_all_do(self, host: Host) -> None:
        host.calls("memory_set", [{"key": f"k{n}", "value": str(n)} for n in range(7)])
        listed = host.call("memory_list")
        assert [fact["value"] for fact in listed["facts"]] == [str(n) for n in range(7)]


class TestLists:
    def test_a_prefix_is_literal_and_case_counts(self, host: Host) -> None:
        for key in ("a%b", "a_b", "A", "a", "ab", "a\\b", "b"):
            put(host, key, key)
        for prefix, keys in {
            "a": ["a", "a%b", "a\\b", "a_b", "ab"],
            "a%": ["a%b"],
            "a_": ["a_b"],
            "A": ["A"],
            "": ["A", "a", "a%b", "a\\b", "a_b", "ab", "b"],
            "c": [],
        }.items():
            listed = host.call("memory_list", prefix=prefix)
            assert [fact["key"] for fact in listed["facts"]] == keys
            assert listed["total"] == len(keys)

    def test_pages_hold_through_changes_between_them(self, host: Host) -> None:
        for n in range(30):
            put(host, f"k{n:02}", str(n))
        page = host.call("memory_list", prefix="k", limit=10)
        host.call("memory_delete", key="k09")  # where the cursor stands
        host.call("memory_delete", key="k15")
        put(host, "k10a", "new")
        host.restart()
        seen = [fact["key"] for fact in page["facts"]]
        while "next_cursor" in page:
            page = host.call("memory_list", prefix="k", limit=10, cursor=page["next_cursor"])
            seen += [fact["key"] for fact in page["facts"]]
        expected = sorted({f"k{n:02}" for n in range(30)} - {"k15"} | {"k10a"})
        assert seen == expected
        error = refused(host, "memory_list", prefix="j", cursor=page.get("next_cursor", "x"))
        assert error.code == "INVALID_ARGUMENT"

    def test_replies_keep_their_budget(self, host: Host) -> None:
        for n in range(20):
            put(host, f"k{n}", "\0" * 65536)
        keys = []
        page: dict[str, Any] = {"next_cursor": None}
        while "next_cursor" in page:
            page = host.call("memory_list", max_bytes=8192, cursor=page["next_cursor"])
            assert host.text_bytes <= 8192
            assert page["facts"][0]["value_truncated"] is True
            assert page["facts"][0]["value_bytes"] == 65536
            keys += [fact["key"] for fact in page["facts"]]
        assert sorted(keys) == sorted(f"k{n}" for n in range(20))

    def test_a_history_is_read_in_pages(self, host: Host) -> None:
        for n in range(25):
            put(host, "k", str(n))
        page = host.call("memory_history", key="k", limit=10)
        put(host, "k", "later")
        seen = [event["value"] for event in page["events"]]
        while "next_cursor" in page:
            page = host.call("memory_history", key="k", limit=10, cursor=page["next_cursor"])
            seen += [event["value"] for event in page["events"]]
        assert seen == [str(n) for n in range(24, -1, -1)]
        shown = get(host, "k", include_events=True)
        assert [event["value"] for event in shown["events"]][:2] == ["later", "24"]
        assert len(shown["events"]) + shown["events_left_out"] == 26


class TestPurge:
    def test_a_history_outlives_a_rebuild_and_a_purge_does_not_show(self, host: Host) -> None:
        put(host, "kept", "MARKER-kept-1")
        put(host, "kept", "MARKER-kept-2")
        host.call("memory_delete", key="kept")
        put(host, "gone", "MARKER-gone")
        refused(host, "memory_set", key="gone", value="MARKER-tried", expected_value="x")
        host.call("memory_delete", key="gone", purge=True)
        assert [event["action"] for event in history(host, "gone")] == ["delete"]
        before = history(host, "kept")
        assert host.call("rebuild_index")["rebuilt"] is True
        for _ in range(2):
            assert history(host, "kept") == before
            assert refused(host, "memory_history", key="gone").code == "NOT_FOUND"
            files = b"".join(host.disk.files.values())
            assert b"MARKER-kept-1" in files
            for trace in (b"MARKER-gone", b"MARKER-tried", b"gone"):
                assert trace not in files
            host.restart()
        assert host.call("rebuild_index")["rebuilt"] is False

    def test_what_was_set_after_a_purge_stays(self, host: Host) -> None:
        put(host, "k", "MARKER-old")
        host.call("memory_delete", key="k", purge=True)
        put(host, "k", "new")
        assert host.call("rebuild_index")["rebuilt"] is True
        host.restart()
        assert get(host, "k")["value"] == "new"
        assert [event["action"] for event in history(host, "k")] == ["set"]
        assert b"MARKER-old" not in b"".join(host.disk.files.values())

    def test_the_history_of_a_deleted_key_can_be_purged(self, host: Host) -> None:
        put(host, "k", "MARKER")
        host.call("memory_delete", key="k")
        assert host.call("memory_delete", key="k", purge=True)["purged"] is True
        host.call("rebuild_index")
        assert b"MARKER" not in b"".join(host.disk.files.values())


class TestSearch:
    def test_facts_are_found_by_value_and_key_in_any_language(self, host: Host) -> None:
        put(host, "user/theme", "dark mode")
        put(host, "user/city", "東京に住んでいる")
        put(host, "project/deadline", "end of March")
        for query, key in [
            ("dark", "user/theme"),
            ("THEME", "user/theme"),
            ("東京", "user/city"),
            ("when is the deadline?", "project/deadline"),
        ]:
            found = host.call("memory_search", query=query)
            assert found["mode"] == "lexical"
            assert found["facts"][0]["key"] == key
            assert found["facts"][0]["matched_by"] == "lexical"
        assert host.call("memory_search", query="user", prefix="project/")["facts"] == []

    def test_a_change_counts_at_once_and_after_a_restart(self, host: Host) -> None:
        put(host, "k", "apples")
        assert host.call("memory_search", query="apples")["total"] == 1
        put(host, "k", "pears")
        put(host, "l", "pears")
        host.call("memory_delete", key="l")
        for _ in range(2):
            assert host.call("memory_search", query="apples")["total"] == 0
            (found,) = host.call("memory_search", query="pears")["facts"]
            assert (found["key"], found["value"]) == ("k", "pears")
            host.restart()

    def test_as_many_as_asked_for_and_many_are_indexed_beside(self, host: Host) -> None:
        host.calls("memory_set", [{"key": f"k{n}", "value": f"apple {n}"} for n in range(400)])
        host.restart()
        assert len(host.call("memory_search", query="apple")["facts"]) == 5
        found = host.call("memory_search", query="apple", top_k=100)
        assert (len(found["facts"]), found["total"]) == (100, 400)
        assert refused(host, "memory_search", query="x", top_k=101).code == "INVALID_ARGUMENT"


def test_every_change_is_one_write_and_one_flush_and_every_read_none(host: Host) -> None:
    def io() -> tuple[int, int]:
        log = host.call("get_system_health")["log_io"]
        return log["writes"], log["flushes"]

    def costs(tool: str, **arguments: Any) -> tuple[int, int]:
        before = io()
        with contextlib.suppress(Refused):
            host.call(tool, **arguments)
        after = io()
        return after[0] - before[0], after[1] - before[1]

    assert costs("memory_set", key="k", value="a") == (1, 1)
    assert costs("memory_set", key="k", value="b", require_absent=True) == (1, 1)
    assert costs("memory_get", key="k", include_events=True) == (0, 0)
    assert costs("memory_list") == (0, 0)
    assert costs("memory_history", key="k") == (0, 0)
    assert costs("memory_search", query="a") == (0, 0)
    assert costs("memory_delete", key="nothing") == (0, 0)
    assert costs("memory_delete", key="k") == (1, 1)


class TestAudit:
    @pytest.fixture
    def noting(self, tmp_path: Path) -> Iterator[Host]:
        with Host(OsDisk(tmp_path), audit=True) as connected:
            yield connected

    def reads(self, host: Host, key: str) -> list[dict[str, Any]]:
        told = host.call("memory_history", key=key, include_reads=True)
        return [
            {name: each for name, each in read.items() if name != "at"} for read in told["reads"]
        ]

    def test_who_read_and_who_searched_is_noted_and_outlives_a_restart(self, noting: Host) -> None:
        put(noting, "k", "apples")
        get(noting, "k")
        score = noting.call("memory_search", query="apples")["facts"][0]["score"]
        noting.call("memory_search", query="nothing at all")
        client = {"client_id": "test host"}
        expected = [
            client | {"action": "search", "query": "apples", "winner": "k", "score": score},
            client | {"action": "read", "key": "k"},
        ]
        for _ in range(2):
            assert self.reads(noting, "k") == expected
            noting.restart()
        assert noting.call("get_system_health")["audit"] == {"entries": 0}
        get(noting, "k")
        assert noting.call("get_system_health")["audit"] == {"entries": 1}
        assert len(self.reads(noting, "k")) == 3
        assert noting.call("get_system_health")["store"]["strange_files"] == []

    def test_a_line_that_a_crash_cut_short_is_passed_over(
        self, noting: Host, tmp_path: Path
    ) -> None:
        put(noting, "k", "a")
        get(noting, "k")
        (path,) = (tmp_path / "audit").iterdir()
        path.write_bytes(path.read_bytes() + b'{"at":1,"cl')
        noting.restart()
        get(noting, "k")
        assert len(self.reads(noting, "k")) == 2

    def test_the_files_stay_within_their_bounds(
        self, noting: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(audit, "AUDIT_FILE_BYTES_MAX", 500)
        put(noting, "k", "a")
        for _ in range(50):
            get(noting, "k")
        files = list((tmp_path / "audit").iterdir())
        assert len(files) == limits.AUDIT_FILES_MAX
        assert all(path.stat().st_size <= 500 for path in files)

    def test_a_note_that_fails_fails_no_read_and_is_told(
        self, noting: Host, tmp_path: Path
    ) -> None:
        (tmp_path / "audit").write_text("a file where a folder should be")
        put(noting, "k", "a")
        assert get(noting, "k")["value"] == "a"
        assert "not noted" in noting.call("get_system_health")["audit"]["failure"]
        assert self.reads(noting, "k") == []

    def test_a_purge_takes_the_notes_as_well(self, noting: Host, tmp_path: Path) -> None:
        for key in ("MARKER", "kept", "k"):
            put(noting, key, "a")
            get(noting, key)
        noting.call("memory_search", query="where is MARKER")
        noting.call("memory_delete", key="MARKER", purge=True)
        noting.call("memory_delete", key="k", purge=True)
        noting.call("rebuild_index")
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(b"MARKER" in path.read_bytes() for path in files)
        assert len(self.reads(noting, "kept")) == 1

    def test_notes_that_cannot_be_taken_back_fail_no_rebuild(
        self, noting: Host, tmp_path: Path
    ) -> None:
        for key in ("gone", "kept"):
            put(noting, key, "a")
            get(noting, key)
        noting.call("memory_delete", key="gone", purge=True)
        (tmp_path / "audit" / "folder").mkdir()
        assert noting.call("rebuild_index")["rebuilt"] is True
        assert "may be left" in noting.call("get_system_health")["audit"]["failure"]
        assert get(noting, "kept")["value"] == "a"

    def test_a_purge_takes_the_notes_of_earlier_servers_that_noted(self, tmp_path: Path) -> None:
        with Host(OsDisk(tmp_path), audit=True) as noting:
            put(noting, "MARKER", "a")
            get(noting, "MARKER")
        with Host(OsDisk(tmp_path), noting.clock) as silent:
            silent.call("memory_delete", key="MARKER", purge=True)
            silent.call("rebuild_index")
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(b"MARKER" in path.read_bytes() for path in files)

    def test_it_can_be_off(self, host: Host) -> None:
        put(host, "k", "a")
        get(host, "k")
        assert host.call("memory_history", key="k", include_reads=True)["reads"] is None
        assert host.call("get_system_health")["audit"] == "off"
        assert not any("audit" in name for name in host.disk.files)
