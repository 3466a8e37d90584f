"""The tools against a plain dictionary, over a disk that may lose power at any of its changes.

Every step asks the real client, server, engine and store. What was answered must be there ever
after; what was under way when the power went may be there or not, whole. A rebuild, a restart,
a lost snapshot and a clock that jumps change nothing that can be seen.
"""

import itertools
import json
import os
from copy import deepcopy
from typing import Any

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

from convmem.storage import MemoryDisk, Operation
from tests.convmem.harness import Host, Refused
from tests.convmem.strategies import any_text

Message = dict[str, Any]

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
clearable = st.sampled_from(["tags", "memory_tier", "memory_kind", "importance", "summary"])
picks = st.integers(0, 10**6)


class MemoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = Host()
        self.model: dict[str, Message] = {}
        self.greatest_id = ""

    def teardown(self) -> None:
        self.compare(self.seen())
        self.host.restart()
        self.compare(self.seen())
        self.start_on(without_snapshots(self.host.disk.files))
        self.compare(self.seen())
        self.host.__exit__()

    # What is asked. Each gives the model as it is when the answer has come.

    def write(self, session_id: str, content: str, metadata: Message, links: list[str]) -> None:
        if links:
            metadata = metadata | {
                "relations": [{"type": "cites", "message_id": id_} for id_ in links[:2]],
                "source_message_ids": links,
            }
        written = self.host.write(content, session_id, metadata=metadata)
        assert written["message_id"] > self.greatest_id, "an id was given out twice or went back"
        self.greatest_id = written["message_id"]
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
        wanted = deepcopy(message)
        wanted["metadata"] |= metadata
        for name in clear:
            wanted["metadata"].pop(name, None)
        wanted["metadata"].setdefault("memory_kind", "conversation")
        if content is not None:
            wanted["content"] = content
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
        answer = self.host.call("rebuild_index")
        assert answer["live"] == len(self.model)
        for message in self.model.values():
            drop_dangling_links(message["metadata"], set(self.model))

    # The steps.

    @rule(session=sessions, content=contents, metadata=labels, picks=st.lists(picks, max_size=3))
    def writing(self, session: str, content: str, metadata: Message, picks: list[int]) -> None:
        self.write(session, content, metadata, self.ids(picks))

    @precondition(lambda self: self.model)
    @rule(
        pick=picks,
        content=st.none() | contents,
        metadata=labels,
        clear=st.lists(clearable, unique=True),
    )
    def updating(self, pick: int, content: str | None, metadata: Message, clear: list[str]) -> None:
        self.update(pick, content, metadata, clear)

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
        links = [*links_of(message["metadata"])]
        if all(link in self.model for link in links):
            assert self.host.write(**arguments)["created"] is False
        arguments["content"] += "!"
        self.refused("CONFLICT", "write_message", role="user", **arguments)

    @precondition(lambda self: self.model)
    @rule(pick=picks, ahead=st.integers(1, 3))
    def updating_another_revision(self, pick: int, ahead: int) -> None:
        message = self.picked(pick)
        told = self.refused(
            "CONFLICT",
            "update_message",
            message_id=message["message_id"],
            expected_revision=message["revision"] + ahead,
            content="never",
        )
        assert told["current_revision"] == message["revision"]

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
        if interrupted and seen == in_order(before):
            self.model, self.greatest_id = before, greatest_before
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
        assert seen == in_order(self.model)


def in_order(model: dict[str, Message]) -> list[Message]:
    return list(model.values())


def without_snapshots(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith(".cvs")}


def links_of(metadata: Message) -> list[str]:
    related = [relation["message_id"] for relation in metadata.get("relations", [])]
    return [*related, *metadata.get("source_message_ids", [])]


def drop_dangling_links(metadata: Message, there: set[str]) -> None:
    kept = {
        "relations": [r for r in metadata.get("relations", []) if r["message_id"] in there],
        "source_message_ids": [s for s in metadata.get("source_message_ids", []) if s in there],
    }
    for name, links in kept.items():
        if links:
            metadata[name] = links
        else:
            metadata.pop(name, None)


EXAMPLES = 600 if os.environ.get("CONVMEM_TEST_ALL") else 100


def test_the_tools_do_what_a_dictionary_would() -> None:
    chosen = settings(max_examples=EXAMPLES, stateful_step_count=25)
    run_state_machine_as_test(MemoryMachine, settings=chosen)
