"""The latest changes that were asked for under a number, so that who asks again is answered.

A guest whose owner dies cannot know whether its change came to be. It numbers each update and
deletion before it sends it; the number stands in the record, and whoever owns the store next
knows it from there. Only the latest are kept: who asks again does so within seconds.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmem.errors import InvalidRecord
from convmem.ids import ID_BYTES
from convmem.limits import EFFECTS_MAX

NO_EVENT = 0
"""The number of a change that nobody will ask for again."""

_SAVED: dict[str, Any] = {"event": np.uint32, "revision": np.uint32, "time_ms": np.int64}
_EFFECT_BYTES = 250  # a dictionary's entry, roughly


class Effect(NamedTuple):
    """What a change came to: the revision after an update or of what was deleted, and when."""

    revision: int
    time_ms: int


class EffectTable:
    """By message and number, oldest first."""

    def __init__(self) -> None:
        self._effects: OrderedDict[tuple[bytes, int], Effect] = OrderedDict()

    def add(self, message_id: bytes, event: int, effect: Effect) -> None:
        """Note what came of a change, and forget the oldest of too many."""
        if event != NO_EVENT:
            self._effects[message_id, event] = effect
            if len(self._effects) > EFFECTS_MAX:
                self._effects.popitem(last=False)

    def find(self, message_id: bytes, event: int) -> Effect | None:
        """What came of a change, where it is known."""
        return self._effects.get((message_id, event))

    def since(self, time_ms: int) -> Iterator[tuple[tuple[bytes, int], Effect]]:
        """By message and number, what came of the changes from then on."""
        return (item for item in self._effects.items() if item[1].time_ms >= time_ms)

    def save(self) -> Mapping[str, NDArray[Any]]:
        """The table as columns, for a snapshot."""
        ids = b"".join(message_id for message_id, _ in self._effects)
        events = [event for _, event in self._effects]
        values = (events, *zip(*self._effects.values(), strict=True)) if events else ((), (), ())
        columns = {
            name: np.array(column, kind)
            for (name, kind), column in zip(_SAVED.items(), values, strict=True)
        }
        return {"message_id": np.frombuffer(ids, np.uint8), **columns}

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot. Raises InvalidRecord if they do not fit together."""
        try:
            ids = bytes(saved["message_id"])
            columns = [np.frombuffer(saved[name], kind).tolist() for name, kind in _SAVED.items()]
            starts = range(0, len(ids), ID_BYTES)
            self._effects = OrderedDict(
                ((ids[start : start + ID_BYTES], event), Effect(revision, time_ms))
                for start, event, revision, time_ms in zip(starts, *columns, strict=True)
            )
        except (KeyError, ValueError) as error:
            raise InvalidRecord(f"the effects do not fit together: {error}") from error

    def memory_bytes(self) -> int:
        """What the table occupies, roughly."""
        return _EFFECT_BYTES * len(self._effects)
