"""Posting lists: for each key the ascending numbers of what holds it.

    keys    uint64, ascending, each once
    ends    uint32, where the list of each key ends (it begins where the one before ends)
    values  the lists, one after the other

Numbers are only ever added in ascending order. A few at a time go into a dict of lists; when
those have become many, and before the lists are saved, they are merged into the arrays.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

# Pairs that may lie in the dict: some 2,000 messages, a merge of milliseconds.
_RECENT_MAX = 1 << 16
_RECENT_BYTES = 40  # of one of them, roughly


class PostingLists:
    """Lists of numbers of one numpy dtype by key."""

    def __init__(self, dtype: type[np.unsignedinteger[Any]]) -> None:
        self.keys: Keys = np.zeros(0, np.uint64)
        self.ends: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.values: NDArray[Any] = np.zeros(0, dtype)
        self._recent: dict[int, list[int]] = {}
        self._recent_pairs = 0

    def lists(self, keys: Keys) -> list[NDArray[Any]]:
        """The list of each key, empty where there is none."""
        places = np.minimum(self.keys.searchsorted(keys), max(0, len(self.keys) - 1))
        found = self.keys[places] == keys if len(self.keys) else np.zeros(len(keys), bool)
        lists = []
        for key, place, is_there in zip(
            keys.tolist(), places.tolist(), found.tolist(), strict=True
        ):
            merged = self._at(place) if is_there else self.values[:0]
            recent = self._recent.get(key)
            if recent is not None:
                merged = np.concatenate((merged, np.array(recent, self.values.dtype)))
            lists.append(merged)
        return lists

    def add(self, keys: Keys, values: NDArray[Any]) -> None:
        """Add pairs, sorted by key and value, each new value greater than all before."""
        if self._recent_pairs + len(keys) <= _RECENT_MAX and len(self.keys):
            for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                self._recent.setdefault(key, []).append(value)
            self._recent_pairs += len(keys)
            return
        self.merge()
        self._take_in(keys, values)

    def merge(self) -> None:
        """Put what lies in the dict into the arrays."""
        if self._recent:
            counts = [len(values) for values in self._recent.values()]
            keys = np.repeat(np.fromiter(self._recent, np.uint64, len(counts)), counts)
            values = [value for list_ in self._recent.values() for value in list_]
            order = keys.argsort(kind="stable")
            self._take_in(keys[order], np.array(values, self.values.dtype)[order])
            self._recent = {}
            self._recent_pairs = 0

    def restore(self, keys: Keys, ends: NDArray[np.uint32], values: NDArray[Any]) -> None:
        """Take the arrays of merged lists."""
        self.keys, self.ends, self.values = keys, ends, values

    def count_marked(self, marked: NDArray[np.bool_]) -> Mapping[int, int]:
        """How many marked numbers are in the list of each key that has any."""
        hits = np.flatnonzero(marked[self.values])
        places, counts = np.unique(self.ends.searchsorted(hits, "right"), return_counts=True)
        found: dict[int, int] = dict(zip(self.keys[places].tolist(), counts.tolist(), strict=True))
        for key, values in self._recent.items():
            count = int(np.count_nonzero(marked[values]))
            if count:
                found[key] = found.get(key, 0) + count
        return found

    def memory_bytes(self) -> int:
        """What the lists occupy; those in the dict roughly."""
        arrays = self.keys.nbytes + self.ends.nbytes + self.values.nbytes
        return arrays + self._recent.__sizeof__() + _RECENT_BYTES * self._recent_pairs

    def _at(self, place: int) -> NDArray[Any]:
        first = self.ends[place - 1] if place else 0
        return self.values[first : self.ends[place]]

    def _take_in(self, keys: Keys, values: NDArray[Any]) -> None:
        if not len(keys):
            return
        if len(self.keys):
            keys = np.concatenate((np.repeat(self.keys, np.diff(self.ends, prepend=0)), keys))
            values = np.concatenate((self.values, values))
            order = keys.argsort(kind="stable")  # two sorted runs: a merge
            keys, values = keys[order], values[order]
        last_of_key = np.append(keys[1:] != keys[:-1], True)
        self.keys = keys[last_of_key]
        self.ends = (np.flatnonzero(last_of_key) + 1).astype(np.uint32)
        self.values = values
