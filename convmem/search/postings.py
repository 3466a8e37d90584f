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

# Pairs that may lie in the dict: some 2,000 messages, a merge of milliseconds; and pairs that
# come at once and are worth a merge.
_RECENT_MAX = 1 << 16
_MERGED_AT_ONCE = 1 << 13
_SHORT_VALUES = 64  # of a list, as to how lists are joined
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
        starts, ends = self._bounds(keys)
        lists = [
            self.values[start:end]
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        if self._recent:
            for place, key in enumerate(keys.tolist()):
                recent = self._recent.get(key)
                if recent is not None:
                    lists[place] = np.append(lists[place], np.array(recent, self.values.dtype))
        return lists

    def joined(self, keys: Keys) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The lists of all keys, one after the other, and how long each of them is."""
        starts, ends = self._bounds(keys)
        counts = ends.astype(np.intp) - starts
        total = int(counts.sum())
        if self._recent or total > _SHORT_VALUES * len(keys):
            lists = self.lists(keys)
            counts = np.fromiter(map(len, lists), np.intp, len(lists))
            return np.concatenate([self.values[:0], *lists]), counts
        # Of many short lists all numbers at once, by their places, are had faster than each list.
        shifts = starts - counts.cumsum() + counts  # of a list: to its place from that in the join
        return self.values[np.arange(total) + shifts.repeat(counts)], counts

    def counts(self, keys: Keys) -> NDArray[np.int64]:
        """How long the list of each key is."""
        starts, ends = self._bounds(keys)
        counts = ends.astype(np.int64) - starts
        if self._recent:
            recent = [len(self._recent.get(key, ())) for key in keys.tolist()]
            counts += np.array(recent, np.int64)
        return counts

    def add(self, keys: Keys, values: NDArray[Any]) -> None:
        """Add pairs, sorted by key and value, each new value greater than all before."""
        if len(keys) < _MERGED_AT_ONCE and self._recent_pairs + len(keys) <= _RECENT_MAX:
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
        """Take the arrays of merged lists, which are not changed."""
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

    def _bounds(self, keys: Keys) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Where the list of each key begins and ends in the values."""
        if not len(self.keys):
            return np.zeros(len(keys), np.uint32), np.zeros(len(keys), np.uint32)
        places = self.keys.searchsorted(keys)
        places[places == len(self.keys)] = 0
        ends = self.ends[places]
        starts = np.where(places, self.ends[places - 1], 0)
        return np.where(self.keys[places] == keys, starts, ends), ends

    def _take_in(self, keys: Keys, values: NDArray[Any]) -> None:
        """Take in pairs sorted by key: each goes behind the list of its key."""
        if not len(keys):
            return
        firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        counts = np.diff(firsts, append=len(keys))
        keys = keys[firsts]
        places = self.keys.searchsorted(keys, "right")
        before = np.append(0, self.ends)[places]
        self.values = np.insert(self.values, before.repeat(counts), values)
        is_new = self.keys[places - 1] != keys if len(self.keys) else np.ones(len(keys), bool)
        lengths = np.diff(self.ends, prepend=0).astype(np.int64)
        lengths[places[~is_new] - 1] += counts[~is_new]
        lengths = np.insert(lengths, places[is_new], counts[is_new])
        self.keys = np.insert(self.keys, places[is_new], keys[is_new])
        self.ends = lengths.cumsum().astype(np.uint32)
