"""Ids increase strictly, whatever the clock does, and their text says the same as their bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem import ids
from tests.convmem.strategies import message_ids, times_ms

randoms = st.binary(min_size=ids.RANDOM_BYTES, max_size=ids.RANDOM_BYTES)


@given(st.lists(st.tuples(times_ms, randoms)))
def test_ids_increase_under_any_clock(readings: list[tuple[int, bytes]]) -> None:
    last = ids.NO_ID
    for now_ms, random in readings:
        new = ids.successor(last, now_ms, random)
        assert last < new
        last = new


@given(times_ms.filter(bool), randoms)
def test_a_new_millisecond_is_written_into_the_id(now_ms: int, random: bytes) -> None:
    new = ids.successor(ids.NO_ID, now_ms, random)
    assert ids.timestamp_ms(new) == now_ms
    assert new.endswith(random)


def test_a_full_millisecond_carries_over() -> None:
    last = (5).to_bytes(6, "big") + b"\xff" * ids.RANDOM_BYTES
    assert ids.successor(last, 5, bytes(10)) == (6).to_bytes(6, "big") + bytes(10)


@given(message_ids, message_ids)
def test_text_comes_back_and_sorts_like_bytes(one: bytes, other: bytes) -> None:
    assert ids.from_text(ids.to_text(one)) == one
    assert (ids.to_text(one) < ids.to_text(other)) == (one < other)


@pytest.mark.parametrize(
    "text",
    ["", "0", "8" + "0" * 25, "0" * 25, "0" * 27, "u" * 26, "01m8qfs9r996zjfzkgdh96r2y0", "é" * 26],
)
def test_what_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ids.from_text(text)
