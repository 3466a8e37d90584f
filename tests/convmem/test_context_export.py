"""The views around a message and of everything."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from convmem import limits
from convmem.pages import json_bytes
from tests.convmem.harness import Host


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def linked(host: Host, content: str, *targets: str, session: str = "s", **metadata: Any) -> str:
    """Write a message that cites others; its id."""
    relations = [{"type": "cites", "message_id": target} for target in targets]
    written = host.write(content, session, metadata={"relations": relations or None} | metadata)
    return str(written["message_id"])


def contents(items: list[dict[str, Any]]) -> list[str]:
    return [item["content"] for item in items]


class TestContext:
    @pytest.mark.parametrize(
        ("place", "before", "after", "expected"),
        [
            (4, 3, 3, (["1", "2", "3"], ["5", "6", "7"])),
            (0, 3, 1, ([], ["1"])),
            (9, 2, 5, (["7", "8"], [])),
            (5, 0, 0, ([], [])),
            (5, 50, 50, (["0", "1", "2", "3", "4"], ["6", "7", "8", "9"])),
        ],
    )
    def test_neighbours_are_of_the_session_and_in_its_order(
        self, host: Host, place: int, before: int, after: int, expected: tuple[list[str], list[str]]
    ) -> None:
        ids = []
        for number in range(10):
            ids.append(host.write(str(number))["message_id"])
            host.write("elsewhere", session_id="other")
        reply = host.read("context", message_id=ids[place], before=before, after=after)
        assert reply["message"]["content"] == str(place)
        assert (contents(reply["before"]), contents(reply["after"])) == expected

    def test_deleted_neighbours_are_passed_over(self, host: Host) -> None:
        ids = [host.write(str(number))["message_id"] for number in range(5)]
        host.call("delete_message", message_id=ids[1])
        reply = host.read("context", message_id=ids[2], before=2, after=1)
        assert (contents(reply["before"]), contents(reply["after"])) == (["0"], ["3"])

    def test_links_are_followed_both_ways_and_each_message_is_met_once(self, host: Host) -> None:
        root = linked(host, "root", session="r")
        middle = linked(host, "middle", root, session="m")
        leaf = linked(host, "leaf", middle, root, session="l")
        summary = host.write(
            "summary", "z", metadata={"memory_kind": "summary", "source_message_ids": [middle]}
        )["message_id"]

        def related(depth: int) -> list[tuple[str, int, str, str]]:
            reply = host.read("context", message_id=middle, relation_depth=depth)
            return [
                (item["message_id"], item["depth"], item["direction"], item["type"])
                for item in reply["related"]
            ]

        nearest = [
            (root, 1, "outgoing", "cites"),
            (leaf, 1, "incoming", "cites"),
            (summary, 1, "incoming", "source"),
        ]
        assert related(0) == []
        assert related(1) == nearest
        assert related(2) == nearest  # leaf cites root too: it was met already
        from_root = host.read("context", message_id=summary, relation_depth=2)["related"]
        assert [(item["message_id"], item["depth"]) for item in from_root] == [
            (middle, 1),
            (root, 2),
            (leaf, 2),
        ]
        assert from_root[1]["from_message_id"] == middle
        assert from_root[1]["message"]["content"] == "root"

    def test_a_cycle_ends(self, host: Host) -> None:
        one = linked(host, "one", session="a")
        two = linked(host, "two", one, session="b")
        host.call(
            "update_message",
            message_id=one,
            expected_revision=1,
            metadata={"relations": [{"type": "cites", "message_id": two}]},
        )
        related = host.read("context", message_id=one, relation_depth=2)["related"]
        assert [(item["message_id"], item["direction"]) for item in related] == [(two, "outgoing")]

    def test_what_is_linked_to_and_gone_is_named(self, host: Host) -> None:
        gone = linked(host, "gone", session="a")
        message = linked(host, "message", gone, session="b")
        host.call("delete_message", message_id=gone)
        reply = host.read("context", message_id=message)
        assert (reply["related"], reply["missing_message_ids"]) == ([], [gone])

    def test_a_neighbour_that_is_linked_is_shown_once(self, host: Host) -> None:
        first = linked(host, "first")
        second = linked(host, "second", first)
        reply = host.read("context", message_id=second)
        assert contents(reply["before"]) == ["first"]
        assert [(item["message_id"], "message" in item) for item in reply["related"]] == [
            (first, False)
        ]

    def test_what_does_not_fit_is_counted(self, host: Host) -> None:
        ids = [linked(host, f"{number} " + "x" * 1500) for number in range(9)]
        reply = host.read("context", message_id=ids[4], before=4, after=4, max_bytes=8192)
        size = len(json.dumps(reply, ensure_ascii=False).encode())
        assert size <= 8192
        for side in ("before", "after"):
            assert len(reply[side]) + reply[f"{side}_left_out"] == 4
        assert reply["before"][-1]["content"].startswith("3 ")
        assert reply["after"][0]["content"].startswith("5 ")

    def test_a_popular_message_is_shown_within_bounds(self, host: Host) -> None:
        popular = linked(host, "popular", session="p")
        for number in range(limits.RELATED_MAX + 5):
            linked(host, f"cites {number}", popular, session=f"c{number}")
        reply = host.read("context", message_id=popular, max_bytes=1_000_000)
        assert len(reply["related"]) == limits.RELATED_MAX
        assert reply["related_limit"] == limits.RELATED_MAX
        reply = host.read("context", message_id=popular)
        assert len(reply["related"]) + reply["related_left_out"] == limits.RELATED_MAX
        assert json_bytes(reply) <= limits.REPLY_BYTES_DEFAULT


class TestExport:
    def lines(self, host: Host, **arguments: Any) -> list[dict[str, Any]]:
        pages = host.pages("export", "lines", **arguments)
        return [json.loads(line) for page in pages for line in page]

    @pytest.mark.parametrize("limit", [1, 2, 5, 100])
    def test_every_message_is_there_once_after_the_manifest(self, host: Host, limit: int) -> None:
        for number in range(4):
            host.write(str(number), session_id=f"s{number % 2}", metadata={"tags": ["t"]})
        manifest, *messages = self.lines(host, limit=limit)
        assert manifest == {"type": "manifest", "format": "convmem", "version": 1, "messages": 4}
        assert contents(messages) == ["0", "1", "2", "3"]
        shown = host.read("history", session_id="s1", order="oldest_first")["messages"]
        assert [m for m in messages if m["session_id"] == "s1"] == [
            {"type": "message"} | message for message in shown
        ]

    def test_a_cursor_stands_through_deletions_and_restarts(self, host: Host) -> None:
        ids = [host.write(str(number))["message_id"] for number in range(5)]
        page = host.read("export", limit=3)
        assert len(page["lines"]) == 3
        for id_ in ids[1:3]:
            host.call("delete_message", message_id=id_)
        host.restart()
        rest = host.read("export", cursor=page["next_cursor"])["lines"]
        assert contents([json.loads(line) for line in rest]) == ["3", "4"]

    def test_a_message_over_the_budget_is_marked(self, host: Host) -> None:
        host.write("x" * 20_000)
        _, message = self.lines(host, max_bytes=8192)
        assert message["content_truncated"] is True
        assert message["content_bytes"] == 20_000
        _, message = self.lines(host, max_bytes=32_768)
        assert message["content"] == "x" * 20_000
