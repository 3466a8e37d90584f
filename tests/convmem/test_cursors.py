"""A cursor comes back as it was, only to the question it was given for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem import cursors, limits
from convmem.errors import Code, Refusal
from tests.convmem.strategies import any_text, message_ids


@given(any_text, message_ids, message_ids)
def test_anchors_come_back(scope: str, anchor: bytes, second: bytes) -> None:
    cursor = cursors.encode(scope, anchor, second)
    assert cursors.decode(cursor, scope) == (anchor, second)
    assert len(cursor) <= limits.CURSOR_BYTES_MAX


@given(message_ids, st.data())
def test_a_mistyped_cursor_is_refused(anchor: bytes, data: st.DataObject) -> None:
    cursor = cursors.encode("scope", anchor)
    place = data.draw(st.integers(0, len(cursor) - 1))
    typed = data.draw(st.characters().filter(lambda character: character != cursor[place]))
    with pytest.raises(Refusal) as refused:
        cursors.decode(cursor[:place] + typed + cursor[place + 1 :], "scope")
    assert refused.value.code == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("cursor", ["", "=", "none", "\0", "é", "A" * 56])
def test_what_never_was_a_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Refusal, match="cursor"):
        cursors.decode(cursor, "scope")


def test_a_cursor_of_another_question_is_refused() -> None:
    with pytest.raises(Refusal, match="other arguments"):
        cursors.decode(cursors.encode("history of a", bytes(16)), "history of b")
