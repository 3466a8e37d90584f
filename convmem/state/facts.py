"""Facts and what happened to them, by key: where it stands in the log, not what it says.

Of every key that was ever named: its last revision, the record that holds its value, and one
entry for each event. Values and authors are read from the log when they are asked for.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmem.errors import InvalidRecord
from convmem.ids import ID_BYTES
from convmem.records import DeleteFact, FactEvent, Place, RefuseFact, SetFact

_FACT_COLUMNS: dict[str, Any] = {
    "key_bytes": np.uint16,
    "revision": np.uint32,
    "value_event": np.int32,
    "was_purged": np.uint8,
    "events": np.uint32,
}
_EVENT_COLUMNS: dict[str, Any] = {"frame_offset": np.uint64, "frame_start": np.uint32}
_FACT_BYTES, _EVENT_BYTES = 300, 200  # what one costs in Python, roughly
_NO_VALUE = -1


class Event(NamedTuple):
    """Something that happened to a key: its id, and where its record stands."""

    event_id: bytes
    place: Place


@dataclass(slots=True)
class KeyHistory:
    """One key. ``revision`` is the last that was given out; ``value_event`` holds the value."""

    number: int
    key: str
    revision: int = 0
    value_event: int | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def fact_id(self) -> bytes:
        """What stands for the key in a cursor: the id of the first thing that happened to it."""
        return self.events[0].event_id

    @property
    def value_place(self) -> Place | None:
        """Where the record of the present value stands; None if there is none."""
        return None if self.value_event is None else self.events[self.value_event].place


class FactTable:
    """The keys, in the order in which they were first named."""

    def __init__(self) -> None:
        self._by_key: dict[str, KeyHistory] = {}
        self._by_id: dict[bytes, KeyHistory] | None = None
        self._sorted: list[str] | None = None  # the keys with a value
        self.revision_floor = 0  # no key that is new gets a revision up to this
        self.purged: set[str] = set()  # keys of which a compaction has something to leave out
        self.live = 0

    def __len__(self) -> int:
        """Keys that were ever named, and not forgotten by a compaction since."""
        return len(self._by_key)

    def __iter__(self) -> Iterator[KeyHistory]:
        return iter(self._by_key.values())

    @property
    def events(self) -> int:
        """What happened to all keys together."""
        return sum(len(history.events) for history in self)

    def get(self, key: str) -> KeyHistory | None:
        """What is known of a key; None if it was never named."""
        return self._by_key.get(key)

    def with_id(self, fact_id: bytes) -> KeyHistory | None:
        """The key that a cursor stands at."""
        if self._by_id is None:
            self._by_id = {history.fact_id: history for history in self}
        return self._by_id.get(fact_id)

    def listed(self, prefix: str, after: str | None) -> Iterator[KeyHistory]:
        """The keys with a value that begin so, by code points, those behind ``after`` only."""
        keys = self._keys_with_value()
        first, end = _range(keys, prefix)
        if after is not None:
            first = max(first, bisect_right(keys, after))
        for place in range(first, end):
            yield self._by_key[keys[place]]

    def count(self, prefix: str) -> int:
        """How many keys with a value begin so."""
        first, end = _range(self._keys_with_value(), prefix)
        return end - first

    def next_revision(self, key: str) -> int:
        """The revision of the next value of a key."""
        history = self._by_key.get(key)
        return ((history.revision if history else 0) or self.revision_floor) + 1

    def apply(self, event: FactEvent, place: Place) -> None:
        """Take in what happened. Raises InvalidRecord where it cannot follow the past."""
        match event:
            case SetFact(event_id, fact):
                if fact.revision < self.next_revision(fact.key):
                    raise InvalidRecord(f"revision {fact.revision} of a fact does not rise")
                history = self._named(fact.key)
                if history.value_event is None:
                    self._has_value(fact.key)
                history.revision = fact.revision
                history.value_event = len(history.events)
            case DeleteFact(event_id=event_id, key=key, purge=purge):
                history = self._named(key)
                if history.value_event is not None:
                    self._has_value_no_more(key)
                history.value_event = None
                if purge:
                    self.purged.add(key)
                    self.raise_floor(history.revision)
                    history.events.clear()
            case RefuseFact(event_id=event_id, key=key):
                history = self._named(key)
        history.events.append(Event(event_id, place))
        self._by_id = None if len(history.events) == 1 else self._by_id

    def raise_floor(self, revision: int) -> None:
        """Give no new key a revision up to this one."""
        self.revision_floor = max(self.revision_floor, revision)

    def save(self) -> Mapping[str, NDArray[Any]]:
        """The table as columns, for a snapshot."""
        keys = [history.key.encode() for history in self]
        facts = [
            (
                len(key),
                history.revision,
                _NO_VALUE if history.value_event is None else history.value_event,
                history.key in self.purged,
                len(history.events),
            )
            for key, history in zip(keys, self, strict=True)
        ]
        events = [event for history in self for event in history.events]
        ids = b"".join(event.event_id for event in events)
        return {
            "keys": np.frombuffer(b"".join(keys), np.uint8),
            "event_ids": np.frombuffer(ids, np.uint8),
            "totals": np.array([self.revision_floor], np.uint32),
            **_columns(_FACT_COLUMNS, facts),
            **_columns(_EVENT_COLUMNS, [event.place for event in events]),
        }

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot. Raises InvalidRecord if they do not fit together."""
        try:
            (self.revision_floor,) = np.frombuffer(saved["totals"], np.uint32).tolist()
            events = _events(saved)
            names = bytes(saved["keys"])
            key_end, event_end = 0, 0
            for key_bytes, revision, value_event, was_purged, count in _rows(_FACT_COLUMNS, saved):
                key = names[key_end : key_end + key_bytes].decode()
                history = self._named(key)
                history.revision = revision
                if was_purged:
                    self.purged.add(key)
                history.value_event = None if value_event == _NO_VALUE else value_event
                history.events = events[event_end : event_end + count]
                key_end, event_end = key_end + key_bytes, event_end + count
                if history.value_event is not None:
                    self._has_value(key)
                if not history.events or not value_event < count:
                    raise InvalidRecord("a fact without the event it needs")
        except (KeyError, ValueError) as error:
            raise InvalidRecord(f"the facts do not fit together: {error}") from error
        if (key_end, event_end) != (len(names), len(events)):
            raise InvalidRecord("there are keys or events of no fact")

    def memory_bytes(self) -> int:
        """What the table occupies, roughly."""
        return _FACT_BYTES * len(self._by_key) + _EVENT_BYTES * self.events

    def _named(self, key: str) -> KeyHistory:
        history = self._by_key.get(key)
        if history is None:
            history = self._by_key[key] = KeyHistory(len(self._by_key), key)
        return history

    def _has_value(self, key: str) -> None:
        self.live += 1
        if self._sorted is not None:
            insort(self._sorted, key)

    def _has_value_no_more(self, key: str) -> None:
        self.live -= 1
        if self._sorted is not None:
            del self._sorted[bisect_left(self._sorted, key)]

    def _keys_with_value(self) -> list[str]:
        """By code points. Sorted when first asked for: a replay need not keep them in order."""
        if self._sorted is None:
            self._sorted = sorted(
                history.key for history in self if history.value_event is not None
            )
        return self._sorted


def _range(keys: list[str], prefix: str) -> tuple[int, int]:
    """The places of the sorted keys that begin so."""
    end = bisect_right(keys, prefix, key=lambda key: key[: len(prefix)])
    return bisect_left(keys, prefix), end


def _columns(kinds: Mapping[str, Any], rows: list[Any]) -> dict[str, NDArray[Any]]:
    values = zip(*rows, strict=True) if rows else ((),) * len(kinds)
    return {
        name: np.array(column, kind)
        for (name, kind), column in zip(kinds.items(), values, strict=True)
    }


def _rows(kinds: Mapping[str, Any], saved: Mapping[str, memoryview]) -> Iterator[Any]:
    columns = [np.frombuffer(saved[name], kind).tolist() for name, kind in kinds.items()]
    return zip(*columns, strict=True)


def _events(saved: Mapping[str, memoryview]) -> list[Event]:
    ids = bytes(saved["event_ids"])
    places = list(_rows(_EVENT_COLUMNS, saved))
    starts = range(0, len(ids), ID_BYTES)
    return [
        Event(ids[start : start + ID_BYTES], Place(*place))
        for start, place in zip(starts, places, strict=True)
    ]
