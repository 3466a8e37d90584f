"""Searches against a scan of a plain dictionary, whatever was done to the messages before.

The sizes at which the index goes over to another way of working are made so small here that
a few messages meet all of them: blocks, merges, chunks, and the thread that indexes much.
"""

import unicodedata
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from convmem import indexer, limits
from convmem.search import index, postings, saved
from convmem.storage import MemoryDisk
from tests.convmem.harness import Host
from tests.convmem.model import Message, Model
from tests.convmem.strategies import any_text

ALL = {"limit": limits.PAGE_ITEMS_MAX, "max_bytes": limits.REPLY_BYTES_MAX}

# Alike, folding to one another, joining, standing alone; with and without spaces.
PIECES = [
    *("paint", "Painted", "PAINTER", "x", "C++", "POL-35", "don't", "100%", "_", '"', "\\", "..."),
    *("Straße", "STRASSE", "\ufb01n", "fin", "\u03c3\u03c2", "\u03a3", "e\u0301", "\u00e9"),
    *("台所", "台", "所を", "緑", "ラス", "\uff76\uff9e", "가", "\u1100\u1161", "ไทย", "🎉"),
    *("\u0301", "\u200d"),
    *(" ", " ", " ", "\n", "\u3000", "\0", ". ", "long" * 20),
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=10).map("".join) | any_text
contents = texts | texts.map(lambda text: text * 40)  # of several segments
tags = st.sampled_from(["one", "One", "一", "to paint"])
labels = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.lists(tags, min_size=1, unique=True),
        "summary": texts,
        "memory_tier": st.sampled_from(["short", "mid"]),
        "memory_kind": st.sampled_from(["episode", "conversation"]),
        "importance": st.integers(1, 3),
    },
)
sessions = st.sampled_from(["a", "b", "c"])
roles = st.sampled_from(["user", "assistant"])
picks = st.integers(0, 10**6)
filters = st.fixed_dictionaries(
    {},
    optional={
        "session_id": sessions,
        "role": roles,
        "memory_tier": st.sampled_from(["short", "mid", "long"]),
        "memory_kind": st.sampled_from(["episode", "conversation", "summary"]),
        "tags": st.lists(tags, min_size=1, max_size=2),
        "min_importance": st.integers(0, 3),
    },
)


def flat(text: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def holds(message: Message, query: str) -> bool:
    metadata = message["metadata"]
    fields = [message["content"], metadata.get("summary", ""), *metadata.get("tags", [])]
    return any(flat(query) in flat(field) for field in fields)


def passes(message: Message, wanted: dict[str, Any]) -> bool:
    metadata = message["metadata"]
    facts: dict[str, Callable[[Any], bool]] = {
        "session_id": lambda value: message["session_id"] == value,
        "role": lambda value: message["role"] == value,
        "memory_kind": lambda value: metadata.get("memory_kind", "conversation") == value,
        "memory_tier": lambda value: metadata.get("memory_tier") == value,
        "tags": lambda value: set(value) <= set(metadata.get("tags", [])),
        "min_importance": lambda value: metadata.get("importance", 0) >= value,
        "since": lambda value: message["timestamp"] >= value,
        "until": lambda value: message["timestamp"] <= value,
    }
    return all(facts[name](value) for name, value in wanted.items())


class SearchMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = Host()
        self.model: Model = {}

    def teardown(self) -> None:
        queries = ["paint", "painted x?", "台所を", "", "long fin", "to paint 緑"]
        before = [self.search(query) for query in queries]
        self.host.restart()
        assert [self.search(query) for query in queries] == before
        self.start_anew(without_snapshots=True)  # the index is made in one go
        assert [self.search(query) for query in queries] == before
        self.host.__exit__()

    @rule(session=sessions, role=roles, content=contents, metadata=labels)
    def writing(self, session: str, role: str, content: str, metadata: Message) -> None:
        written = self.host.write(content, session, role=role, metadata=metadata)
        self.model[written["message_id"]] = {
            "session_id": session,
            "role": role,
            "timestamp": written["timestamp"],
            "content": content,
            "metadata": metadata,
        }

    @rule(session=sessions, many=st.lists(contents, min_size=3, max_size=12))
    def writing_many(self, session: str, many: list[str]) -> None:
        for content in many:
            self.writing(session, "user", content, {})

    @precondition(lambda self: self.model)
    @rule(pick=picks, content=st.none() | contents, metadata=labels)
    def updating(self, pick: int, content: str | None, metadata: Message) -> None:
        message_id = self.picked(pick)
        message = self.model[message_id]
        revision = self.host.read("content", message_id=message_id)["revision"]
        changes: Message = {} if content is None else {"content": content}
        changes |= {"metadata": metadata} if metadata else {}
        if changes:
            told = {"message_id": message_id, "expected_revision": revision}
            self.host.call("update_message", **told, **changes)
            changed = {"metadata": message["metadata"] | metadata}
            self.model[message_id] = message | changes | changed

    @precondition(lambda self: self.model)
    @rule(pick=picks)
    def deleting(self, pick: int) -> None:
        message_id = self.picked(pick)
        self.host.call("delete_message", message_id=message_id)
        del self.model[message_id]

    @rule()
    def rebuilding(self) -> None:
        self.host.call("rebuild_index")

    @rule(milliseconds=st.integers(-1000, 1000))
    def jumping_clock(self, milliseconds: int) -> None:
        self.host.clock.now_ms += milliseconds

    @rule()
    def restarting(self) -> None:
        self.host.restart()

    @rule()
    def restarting_with_another_version_of_the_index(self) -> None:
        with mock.patch.object(indexer, "_PREFIX", "search0."):
            self.host.restart()

    @rule(snapshot=st.booleans())
    def crashing(self, snapshot: bool) -> None:
        self.start_anew(without_snapshots=not snapshot)

    @rule(data=st.data(), wanted=filters)
    def searching(self, data: st.DataObject, wanted: dict[str, Any]) -> None:
        """Any part of what was said finds all who said it, and nobody else is said to hold it."""
        query = data.draw(texts)
        if data.draw(st.booleans()) and self.model:
            said = flat(self.model[self.picked(data.draw(picks))]["content"])
            start = data.draw(st.integers(0, len(said)))
            part = said[start : start + data.draw(st.integers(1, 40))]
            query = data.draw(st.sampled_from([part, part.upper(), f" {part}\n"]))
        moments = [message["timestamp"] for message in self.model.values()] or [0]
        if data.draw(st.booleans()):
            since, until = sorted(data.draw(st.sampled_from(moments)) for _ in range(2))
            wanted = wanted | {"since": since, "until": until}
        passing = {id_ for id_, message in self.model.items() if passes(message, wanted)}
        holding = {id_ for id_ in passing if holds(self.model[id_], query)}
        results = self.search(query, **wanted)
        assert {result["message_id"] for result in results} <= passing
        if holding:
            assert {r["message_id"] for r in results if r["holds_query"]} == holding

    @precondition(lambda self: self.model)
    @rule(pick=picks)
    def searching_within_one_filter(self, pick: int) -> None:
        """A filter takes results away, and changes no score of those that stay."""
        message = self.model[self.picked(pick)]
        query = message["content"][:40] + "?"
        every = self.search(query)
        some = self.search(query, session_id=message["session_id"])
        assert some == [r for r in every if r["session_id"] == message["session_id"]]

    # How.

    def search(self, query: str, **wanted: Any) -> list[dict[str, Any]]:
        if len(query.encode()) > limits.QUERY_BYTES_MAX:
            query = query[:1000]
        reply = self.host.call("search_messages", query=query, **wanted, **ALL)
        assert reply["total"] == len(reply["results"])
        assert reply["searched"] == sum(passes(m, wanted) for m in self.model.values())
        assert "unreadable" not in reply
        results: list[dict[str, Any]] = reply["results"]
        return results

    def picked(self, pick: int) -> str:
        return list(self.model)[pick % len(self.model)]

    def start_anew(self, *, without_snapshots: bool) -> None:
        files = {
            name: data
            for name, data in self.host.disk.files.items()
            if not (without_snapshots and name.endswith(".cvs"))
        }
        clock = self.host.clock
        self.host.abandon()
        self.host = Host(MemoryDisk(files), clock)


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "AT_ONCE_TEXTS", 3)
    monkeypatch.setattr(indexer, "_CHUNK_TEXTS", 2)
    for module in (index, saved):
        monkeypatch.setattr(module, "BLOCK_SEGMENTS", 7)
    monkeypatch.setattr(index, "_DOCUMENTS_AT_ONCE", 2)
    monkeypatch.setattr(postings, "_RECENT_MAX", 40)
    monkeypatch.setattr(postings, "_MERGED_AT_ONCE", 20)


@pytest.mark.usefixtures("small_sizes")
@pytest.mark.parametrize("examples", [40, pytest.param(250, marks=pytest.mark.ci)])
def test_searches_find_what_a_scan_finds(examples: int) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=25)
    run_state_machine_as_test(SearchMachine, settings=chosen)
