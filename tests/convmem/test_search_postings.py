"""Posting lists: what was added is found, however it came in."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convmem.search.postings import PostingLists

KEYS = st.integers(0, 5)
BATCHES = st.lists(st.lists(st.sets(KEYS), max_size=4), max_size=4)


@given(BATCHES, st.lists(KEYS), st.booleans())
def test_lists_apart_and_joined_hold_what_was_added(
    batches: list[list[set[int]]], asked: list[int], merged: bool
) -> None:
    """Each batch is the keys of the next numbers; ``asked`` may repeat a key, in any order."""
    postings = PostingLists(np.uint16)
    expected: dict[int, list[int]] = {}
    number = 0
    for batch in batches:
        pairs = []
        for keys in batch:
            pairs += [(key, number) for key in keys]
            for key in keys:
                expected.setdefault(key, []).append(number)
            number += 1
        pairs.sort()
        keys_added = np.array([key for key, _ in pairs], np.uint64)
        postings.add(keys_added, np.array([value for _, value in pairs], np.uint16))
        if merged:
            postings.merge()
    keys_asked = np.array(asked, np.uint64)
    wanted = [expected.get(key, []) for key in asked]
    assert [list_.tolist() for list_ in postings.lists(keys_asked)] == wanted
    assert postings.counts(keys_asked).tolist() == [len(list_) for list_ in wanted]
    values, counts = postings.joined(keys_asked)
    assert values.dtype == np.uint16
    assert values.tolist() == [value for list_ in wanted for value in list_]
    assert counts.tolist() == [len(list_) for list_ in wanted]
