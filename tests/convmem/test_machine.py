"""The tools against a plain dictionary, over a disk that may lose power at any of its changes.

Every step asks the real client, server, engine and store. What was answered must be there ever
after; what was under way when the power went may be there or not, whole. A rebuild, a restart,
a lost snapshot and a clock that jumps change nothing that can be seen.
"""

import itertools
import json
from copy import deepcopy
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from convmem import ids
from convmem.storage import MemoryDisk, Operation
from tests.convmem.harness import Host, Refused
from tests.convmem.model import (
    Message,
    Model,
    changed,
    drop_dangling_links,
    history,
    links_of,
    reached,
)
from tests.convmem.strategies import any_text

CRASH_STATES_TRIED_MAX = 200
WHOLE = {"limit": 1000, "max_bytes": 1_000_000}

sessions = st.sampled_from(["a", "b", "日本 語"])
contents = st.one_of(any_text, st.sampled_from(["", "x" * 5000, "\0" * 700]))
labels = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.lists(st.sampled_from(["one", "Two", "三"]), min_size=1, unique=True),
        "memory_tier": st.sampled_from(["short", "long"]),
        "memory_kind": st.sampled_from(["semantic", "summary"]),
        "importance": st.integers(1, 100),
        "summary": any_text,
        "tool_call_id": st.just("call"),
    },
)
clearable = st.sampled_from(
    ["tags", "memory_tier", "memory_kind", "importance", "summary", "relations"]
)
picks = st.integers(0, 10**6)


class Bookmark(NamedTuple):
    """A history read to one message: what was asked, the cursor, and the message it stands at."""

    asked: dict[str, str]
    cursor: str
    anchor: str


class MemoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = Host()
        self.model: Model = {}
        self.greatest_id = ""
        # So far apart that none is met by counting on from an id that was given out.
        self.own_ids = itertools.count(1 << 40, 1 << 40)
        self.written: list[str] = []  # every id, in the order of writing
        self.bookmarks: list[Bookmark] = []

    def teardown(self) -> None:
        self.compare(self.seen())
        self.host.restart()
        self.compare(self.seen())
        self.start_on(without_snapshots(self.host.disk.files))
        self.compare(self.seen())
        self.host.__exit__()

    # What is asked. Each gives the model as it is when the answer has come.

    def write(
        self,
        session_id: str,
        content: str,
        metadata: Message,
        links: list[str],
        own_id: str | None = None,
    ) -> None:
        metadata = linked(metadata, links)
        written = self.host.write(content, session_id, metadata=metadata, message_id=own_id)
        if own_id is None:
            assert written["message_id"] > self.greatest_id, "an id was given out twice"
        self.greatest_id = max(self.greatest_id, written["message_id"])
        self.written.append(written["message_id"])
        self.model[written["message_id"]] = {
            "message_id": written["message_id"],
            "session_id": session_id,
            "timestamp": self.host.clock.now_ms,
            "updated_at": self.host.clock.now_ms,
            "revision": 1,
            "role": "user",
            "content": content,
            "metadata": {"memory_kind": "conversation"} | metadata,
            "written_by": "test host",
        }

    def update(self, pick: int, content: str | None, metadata: Message, clear: list[str]) -> None:
        message = self.picked(pick)
        clear = [name for name in clear if name not in metadata]
        wanted = changed(message, content, metadata, clear)
        arguments: Message = {"metadata": metadata or None, "clear": clear or None}
        arguments |= {} if content is None else {"content": content}
        if not metadata and not clear and content is None:
            return
        answer = self.host.call(
            "update_message",
            message_id=message["message_id"],
            expected_revision=message["revision"],
            **arguments,
        )
        assert bool(answer["changed"]) == (wanted != message)
        if wanted != message:
            wanted["revision"] += 1
            wanted["updated_at"] = self.host.clock.now_ms
        self.model[message["message_id"]] = wanted

    def delete(self, pick: int) -> None:
        message = self.picked(pick)
        answer = self.host.call("delete_message", message_id=message["message_id"])
        assert answer["revision"] == message["revision"]
        del self.model[message["message_id"]]

    def rebuild(self) -> None:
        pointed_to = {link for message in self.model.values() for link in links_of(message)}
        answer = self.host.call("rebuild_index")
        assert answer["live"] == len(self.model)
        assert answer["dropped_links"] == len(pointed_to - self.model.keys())
        drop_dangling_links(self.model, self.host.clock.now_ms)

    # The steps.

    @rule(session=sessions, content=contents, metadata=labels, picks=st.lists(picks, max_size=3))
    def writing(self, session: str, content: str, metadata: Message, picks: list[int]) -> None:
        self.write(session, content, metadata, self.ids(picks))

    @rule(session=sessions, content=contents, ahead_ms=st.integers(-100_000, 100_000))
    def bringing_an_id(self, session: str, content: str, ahead_ms: int) -> None:
        random = next(self.own_ids).to_bytes(ids.RANDOM_BYTES, "big")
        own_id = ids.successor(ids.NO_ID, self.host.clock.now_ms + ahead_ms, random)
        self.write(session, content, {}, [], ids.to_text(own_id))

    @precondition(lambda self: self.model)
    @rule(
        pick=picks,
        content=st.none() | contents,
        metadata=labels,
        links=st.lists(picks, max_size=3),
        clear=st.lists(clearable, unique=True),
    )
    def updating(
        self,
        pick: int,
        content: str | None,
        metadata: Message,
        links: list[int],
        clear: list[str],
    ) -> None:
        self.update(pick, content, linked(metadata, self.ids(links)), clear)

    @precondition(lambda self: self.model)
    @rule(pick=picks)
    def deleting(self, pick: int) -> None:
        self.delete(pick)

    @rule()
    def rebuilding(self) -> None:
        self.rebuild()

    @precondition(lambda self: self.model)
    @rule(pick=picks)
    def repeating_a_write(self, pick: int) -> None:
        message = self.picked(pick)
        arguments = {
            name: message[name] for name in ("session_id", "content", "message_id", "metadata")
        }
        again = self.host.write(**arguments)
        assert (again["created"], again["revision"]) == (False, message["revision"])
        arguments["content"] += "!"
        self.refused("CONFLICT", "write_message", role="user", **arguments)

    @precondition(lambda self: self.model)
    @rule(pick=picks, ahead=st.integers(1, 3))
    def guarding(self, pick: int, ahead: int) -> None:
        message = self.picked(pick)
        other = {
            "message_id": message["message_id"],
            "expected_revision": message["revision"] + ahead,
        }
        for told in (
            self.refused("CONFLICT", "update_message", **other, content="never"),
            self.refused("CONFLICT", "delete_message", **other),
        ):
            assert told["current_revision"] == message["revision"]
        other = {"message_id": message["message_id"], "session_id": "never"}
        self.refused("CONFLICT", "delete_message", **other)

    @precondition(lambda self: self.model)
    @rule(pick=picks, before=st.integers(0, 3), after=st.integers(0, 3), depth=st.integers(0, 2))
    def looking_around(self, pick: int, before: int, after: int, depth: int) -> None:
        message = self.picked(pick)
        start = message["message_id"]
        asked = {"message_id": start, "before": before, "after": after, "relation_depth": depth}
        reply = self.host.read("context", **asked, max_bytes=WHOLE["max_bytes"])
        session = history(self.model, message["session_id"])
        place = session.index(message)
        assert reply["message"] == message
        assert reply["before"] == session[max(0, place - before) : place]
        assert reply["after"] == session[place + 1 : place + 1 + after]
        related = reached(self.model, start, depth)
        gone = related.keys() - self.model.keys()
        assert set(reply.get("missing_message_ids", [])) == gone
        assert {item["message_id"]: item["depth"] for item in reply["related"]} == {
            id_: distance for id_, distance in related.items() if id_ in self.model
        }

    @precondition(lambda self: self.model)
    @rule(pick=picks)
    def searching(self, pick: int) -> None:
        message = self.picked(pick)
        results = self.host.call("search_messages", query=message["content"], **WHOLE)["results"]
        assert {result["message_id"] for result in results} <= self.model.keys()
        assert message["message_id"] in [r["message_id"] for r in results if r["holds_query"]]

    @precondition(lambda self: self.model)
    @rule(pick=picks, order=st.sampled_from(["oldest_first", "newest_first"]))
    def opening_a_history(self, pick: int, order: str) -> None:
        asked = {"session_id": self.picked(pick)["session_id"], "order": order}
        page = self.host.read("history", **asked, limit=1)
        if "next_cursor" in page:
            anchor = page["messages"][0]["message_id"]
            self.bookmarks.append(Bookmark(asked, page["next_cursor"], anchor))

    @precondition(lambda self: self.bookmarks)
    @rule(pick=picks)
    def reading_on(self, pick: int) -> None:
        """A page begins where the one before ended, whatever was done since."""
        mark = self.bookmarks.pop(pick % len(self.bookmarks))
        session = history(self.model, mark.asked["session_id"])
        place = self.written.index(mark.anchor)
        later = [m for m in session if self.written.index(m["message_id"]) > place]
        earlier = [m for m in session[::-1] if self.written.index(m["message_id"]) < place]
        expected = later if mark.asked["order"] == "oldest_first" else earlier
        page = self.page_or_code("history", **mark.asked, **WHOLE, cursor=mark.cursor)
        if mark.anchor in self.model:
            assert page == expected
        else:  # only until a rebuild does a cursor stand on a deleted message
            assert page in (expected, "STALE_CURSOR")

    @rule(milliseconds=st.integers(-100_000, 100_000))
    def jumping_clock(self, milliseconds: int) -> None:
        self.host.clock.now_ms += milliseconds

    @rule()
    def restarting(self) -> None:
        self.host.restart()

    @rule()
    def losing_the_snapshot(self) -> None:
        self.host.restart()
        self.start_on(without_snapshots(self.host.disk.files))

    @rule(
        data=st.data(),
        kind=st.sampled_from(["write", "update", "delete", "rebuild", "restart"]),
        change=st.integers(1, 12),
    )
    def losing_power(self, data: st.DataObject, kind: str, change: int) -> None:
        """The power goes at one of the disk's changes during a step, or right after it."""
        if kind in ("update", "delete") and not self.model:
            return
        left: list[dict[str, bytes]] = []
        changes = itertools.count(1)

        def remember(operation: Operation) -> None:
            if next(changes) == change:
                left.extend(itertools.islice(disk.crash_states(), CRASH_STATES_TRIED_MAX))

        disk: MemoryDisk = self.host.disk
        before, greatest_before = deepcopy(self.model), self.greatest_id
        ids_before = set(self.written)
        disk.hook = remember
        match kind:
            case "write":
                self.write("a", data.draw(contents), {}, [])
            case "update":
                self.update(data.draw(picks), data.draw(contents), {}, [])
            case "delete":
                self.delete(data.draw(picks))
            case "rebuild":
                self.rebuild()
            case _:
                self.host.restart()
        interrupted = bool(left)
        states = left or list(itertools.islice(disk.crash_states(), CRASH_STATES_TRIED_MAX))
        self.start_on(states[data.draw(st.integers(0, len(states) - 1))])
        seen = self.seen()
        if interrupted and seen == list(before.values()):
            self.model, self.greatest_id = before, greatest_before
            self.written = [id_ for id_ in self.written if id_ in ids_before]
        self.compare(seen)

    @invariant()
    def counts_are_right(self) -> None:
        health = self.host.call("get_system_health")
        assert (health["status"], health["messages"]) == ("ok", len(self.model))

    # How.

    def start_on(self, files: dict[str, bytes]) -> None:
        clock = self.host.clock
        self.host.abandon()
        self.host = Host(MemoryDisk(files), clock)

    def picked(self, pick: int) -> Message:
        return list(self.model.values())[pick % len(self.model)]

    def ids(self, picks: list[int]) -> list[str]:
        if not self.model:
            return []
        return list(dict.fromkeys(self.picked(pick)["message_id"] for pick in picks))

    def refused(self, code: str, tool: str, **arguments: Any) -> Message:
        with pytest.raises(Refused) as refused:
            self.host.call(tool, **arguments)
        assert refused.value.code == code
        return refused.value.told

    def page_or_code(self, view: str, **arguments: Any) -> Any:
        """The messages of a page, or the code it is refused with."""
        try:
            return self.host.read(view, **arguments)["messages"]
        except Refused as refused:
            return refused.code

    def seen(self) -> list[Message]:
        """Every message, in the order of writing, as the export and the histories show it."""
        lines = [line for page in self.host.pages("export", "lines", **WHOLE) for line in page]
        manifest, *messages = map(json.loads, lines)
        assert manifest["messages"] == len(messages)
        for message in messages:
            assert message.pop("type") == "message"
        listed = [
            item for page in self.host.pages("sessions", "sessions", **WHOLE) for item in page
        ]
        for item in listed:
            arguments = {"session_id": item["session_id"], "order": "oldest_first"} | WHOLE
            history = [
                message
                for page in self.host.pages("history", "messages", **arguments)
                for message in page
            ]
            assert history == [m for m in messages if m["session_id"] == item["session_id"]]
            assert item["messages"] == len(history)
        assert {m["session_id"] for m in messages} == {item["session_id"] for item in listed}
        return messages

    def compare(self, seen: list[Message]) -> None:
        assert seen == list(self.model.values())


def linked(metadata: Message, targets: list[str]) -> Message:
    """The metadata with links to messages, if there are any to link to."""
    if not targets:
        return metadata
    relations = [{"type": "cites", "message_id": target} for target in targets[:2]]
    return metadata | {"relations": relations, "source_message_ids": targets}


def without_snapshots(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith(".cvs")}


@pytest.mark.parametrize("examples", [100, pytest.param(400, marks=pytest.mark.ci)])
def test_the_tools_do_what_a_dictionary_would(examples: int) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=30)
    run_state_machine_as_test(MemoryMachine, settings=chosen)
