"""A state is the fold of its records, whichever way it was come by.

The same past in three shapes must look the same from outside: as it happened, as a compaction
leaves it, and as a snapshot with the records after it. Ids come in any order here, and ids are
settled after every few, so that each way to find a message is taken.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem import codec, compaction, ids, limits, views
from convmem.message import KINDS, ROLES, TIERS, Message, Metadata, Relation, targets
from convmem.operations import JsonObject, ReadContext, ReadExport, ReadHistory, ReadSessions
from convmem.records import DeleteMessage, Place, PutMessage, Record, UpdateMessage
from convmem.state import State
from tests.convmem.strategies import any_text, text_of

SETTLED_AFTER = 3
REBUILT_MS = 5
WHOLE: dict[str, Any] = {"limit": 1000, "max_bytes": limits.REPLY_BYTES_MAX}
PLACE_COLUMNS = {"frame_offset", "frame_start"}  # a compaction moves every record

labels = st.fixed_dictionaries(
    {},
    optional={
        "tool_call_id": st.none() | st.just("call"),
        "tags": st.lists(text_of(limits.TAG_BYTES_MAX, bytes_min=1), max_size=3).map(tuple),
        "memory_tier": st.none() | st.sampled_from(TIERS),
        "memory_kind": st.sampled_from(KINDS),
        "importance": st.integers(0, 100),
        "summary": st.none() | any_text,
    },
)
picks = st.lists(st.integers(0, 99), max_size=3)
links = st.fixed_dictionaries({}, optional={"relations": picks, "source_message_ids": picks})


class Log:
    """Records as the bytes that a log holds, each in a frame of its own."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, bytes]] = []

    def append(self, record: Record) -> Place:
        self._entries.append(codec.encode(record))
        return Place(len(self._entries) - 1, 0)

    def read(self, place: Place) -> Record:
        return codec.decode(*self._entries[place.frame_offset])


class Past:
    """A history in the making: what is drawn becomes records that may follow each other."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._there: dict[bytes, Message] = {}
        self._ids: set[bytes] = set()

    def put(self, number: int, session: str, content: str, metadata: dict[str, Any]) -> None:
        message_id = number.to_bytes(ids.ID_BYTES, "big")
        if message_id in self._ids:
            return
        message = Message(
            message_id=message_id,
            session_id=session,
            timestamp=number,
            updated_at=number,
            revision=1,
            role=ROLES[number % len(ROLES)],
            content=content,
            metadata=Metadata(**self._linked(metadata)),
        )
        self._ids.add(message_id)
        self._there[message_id] = message
        self.records.append(PutMessage(message))

    def update(self, pick: int, changes: dict[str, Any]) -> None:
        if not self._there or not changes:
            return
        message_id, revision = self._picked(pick)
        update = UpdateMessage(message_id, pick, revision + 1, self._linked(changes), event=pick)
        self.records.append(update)

    def delete(self, pick: int) -> None:
        if not self._there:
            return
        message_id, revision = self._picked(pick)
        del self._there[message_id]
        self.records.append(DeleteMessage(message_id, pick, revision, event=pick))

    def _picked(self, pick: int) -> tuple[bytes, int]:
        message_id = list(self._there)[pick % len(self._there)]
        changes = [r for r in self.records if isinstance(r, UpdateMessage)]
        return message_id, 1 + sum(r.message_id == message_id for r in changes)

    def _linked(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields with picks made ids of messages that are there."""
        there = list(self._there)
        linked = dict(fields)
        for name in {"relations", "source_message_ids"} & fields.keys():
            linked[name] = tuple(there[pick % len(there)] for pick in fields[name] if there)
        if "relations" in linked:
            linked["relations"] = tuple(Relation("cites", id_) for id_ in linked["relations"])
        return linked


@st.composite
def pasts(draw: st.DrawFn) -> list[Record]:
    past = Past()
    for _ in range(draw(st.integers(0, 25))):
        match draw(st.sampled_from(["put", "put", "update", "delete"])):
            case "put":
                session = draw(st.sampled_from(["a", "b", "日本"]))
                metadata = draw(labels) | draw(links)
                past.put(draw(st.integers(1, 99)), session, draw(any_text), metadata)
            case "update":
                content = draw(st.fixed_dictionaries({}, optional={"content": any_text}))
                past.update(draw(st.integers(0, 99)), draw(labels) | draw(links) | content)
            case _:
                past.delete(draw(st.integers(0, 99)))
    return past.records


def folded(records: Iterable[Record], log: Log | None = None, onto: State | None = None) -> State:
    """The state after the records, which are appended to the log that it reads from."""
    log = log or Log()
    state = onto or State(log.read)
    with patch("convmem.state.id_table.IDS_UNSETTLED_MAX", SETTLED_AFTER):
        for record in records:
            state.apply(record, log.append(record))
    return state


def restored(state: State, log: Log) -> State:
    """The state through the bytes of a snapshot."""
    saved = {name: memoryview(column.tobytes()) for name, column in state.save().items()}
    again = State(log.read)
    again.restore(saved)
    return again


def seen(state: State) -> list[JsonObject]:
    """Everything that the views show of messages."""
    replies = [views.answer(state, ReadExport(**WHOLE))]
    for row in state.live_rows():
        around = ReadContext(
            message_id=state.messages.id(row),
            before=50,
            after=50,
            relation_depth=2,
            max_bytes=limits.REPLY_BYTES_MAX,
        )
        replies.append(views.answer(state, around))
        history = ReadHistory(session_id=state.session_of(row), order="newest_first", **WHOLE)
        replies.append(views.answer(state, history))
    assert not any("next_cursor" in reply for reply in replies)
    return replies


def sessions(state: State) -> list[JsonObject]:
    """The sessions in the order in which they are listed."""
    listed: Any = views.answer(state, ReadSessions(**WHOLE))["sessions"]
    return list(listed)


def assert_same_columns(one: State, other: State) -> None:
    saved = other.save()
    for name, column in one.save().items():
        assert np.array_equal(column, saved[name]), name


def compacted(state: State) -> Iterator[Record]:
    return compaction.live_records(state, compaction.dead(state).dangling, now_ms=REBUILT_MS)


@settings(max_examples=200)
@given(pasts())
def test_the_live_records_lead_to_the_same_state(past: list[Record]) -> None:
    state = folded(past)
    dead = compaction.dead(state)
    again = folded(compacted(state))
    assert again.last_id == state.last_id
    assert not compaction.dead(again)
    assert list(compacted(again)) == list(compacted(state))
    if not dead.dangling:
        assert sessions(again) == sessions(state)
        assert seen(again) == seen(state)
        live = np.array(list(state.live_rows()), dtype=np.uint32)
        for name, column in again.messages.save().items():
            if name not in PLACE_COLUMNS | {"session"}:
                assert np.array_equal(column, state.messages.column(name)[live]), name


@settings(max_examples=100)
@given(pasts())
def test_a_compaction_changes_nothing_but_links_to_what_is_gone(past: list[Record]) -> None:
    state = folded(past)
    messages = [state.message(row) for row in state.live_rows()]
    there = {message.message_id for message in messages}
    again = folded(compacted(state))
    assert [again.message(row) for row in again.live_rows()] == [
        without_links_out_of(there, message) for message in messages
    ]


def without_links_out_of(there: set[bytes], message: Message) -> Message:
    """The message as a compaction leaves it."""
    if there.issuperset(targets(message.metadata)):
        return message
    metadata = message.metadata
    kept = replace(
        metadata,
        relations=tuple(link for link in metadata.relations if link.message_id in there),
        source_message_ids=tuple(id_ for id_ in metadata.source_message_ids if id_ in there),
    )
    return replace(message, metadata=kept, revision=message.revision + 1, updated_at=REBUILT_MS)


@settings(max_examples=200)
@given(pasts(), st.floats(0, 1))
def test_a_snapshot_and_the_records_after_it_lead_to_the_same_state(
    past: list[Record], share: float
) -> None:
    log = Log()
    cut = round(len(past) * share)
    early = folded(past[:cut], log)
    late = restored(early, log)
    assert (sessions(late), seen(late)) == (sessions(early), seen(early))
    assert_same_columns(late, early)
    late = folded(past[cut:], log, onto=late)
    straight = folded(past)
    assert late.last_id == straight.last_id
    assert_same_columns(late, straight)
    assert (sessions(late), seen(late)) == (sessions(straight), seen(straight))


@given(pasts())
def test_a_snapshot_does_not_change_with_the_state(past: list[Record]) -> None:
    log = Log()
    half = len(past) // 2
    state = folded(past[:half], log)
    saved = state.save()
    kept = {name: column.copy() for name, column in saved.items()}
    folded(past[half:], log, onto=state)
    for name, column in saved.items():
        assert np.array_equal(column, kept[name]), name
