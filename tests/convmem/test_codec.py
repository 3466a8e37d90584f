"""Records survive the trip to bytes and back; bytes that cannot be a record are refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem import limits
from convmem.codec import decode, encode
from convmem.errors import InvalidRecord
from convmem.message import Message, Metadata, Relation
from convmem.record_types import RecordType
from convmem.records import (
    ChangeEffect,
    DeleteMessage,
    GreatestId,
    PutMessage,
    Record,
    UpdateMessage,
)
from tests.convmem.strategies import message_ids, messages, times_ms

events = st.integers(0, 2**32 - 1)

PLAIN = Message(
    message_id=bytes(range(16)),
    session_id="s",
    timestamp=0x0102030405,
    updated_at=0x0102030405,
    revision=1,
    role="assistant",
    content="Hé",
    written_by="cli",
)
# head, session, writer, content: the bytes that a log of this version holds, written out.
PLAIN_BYTES = (
    bytes(range(16))
    + bytes.fromhex("0504030201000000" * 2)
    + bytes.fromhex("01000000 01000000 0100 0000 0000 00 00 00 00 03 00 03000000")
    + b"scliH\xc3\xa9"
)
PRESENCE_AT = 49


def test_a_plain_message_has_these_bytes() -> None:
    assert encode(PutMessage(PLAIN)) == (RecordType.PUT_MESSAGE, PLAIN_BYTES)
    assert decode(RecordType.PUT_MESSAGE, PLAIN_BYTES) == PutMessage(PLAIN)


@given(messages)
def test_a_record_comes_back_equal(message: Message) -> None:
    assert decode(*encode(PutMessage(message))) == PutMessage(message)


@given(
    st.builds(
        UpdateMessage,
        message_id=message_ids,
        updated_at=times_ms,
        revision=st.integers(2, 2**31),
        changes=st.fixed_dictionaries({"importance": st.integers(0, 100)}),
        event=events,
    )
    | st.builds(
        DeleteMessage,
        message_id=message_ids,
        deleted_at=times_ms,
        revision=st.integers(1, 2**31),
        event=events,
    )
    | st.builds(
        ChangeEffect,
        message_id=message_ids,
        event=events,
        revision=st.integers(1, 2**31),
        time_ms=times_ms,
    )
    | st.builds(GreatestId, message_ids)
)
def test_other_records_come_back(record: Record) -> None:
    record_type, payload = encode(record)
    assert decode(record_type, payload) == record
    with pytest.raises(InvalidRecord):
        decode(record_type, payload + b"x")


@given(messages, st.data())
def test_a_cut_or_longer_payload_is_refused(message: Message, data: st.DataObject) -> None:
    record_type, payload = encode(PutMessage(message))
    cut = data.draw(st.integers(0, len(payload) - 1))
    for damaged in (payload[:cut], payload + b"x"):
        with pytest.raises(InvalidRecord):
            decode(record_type, damaged)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_refused(payload: bytes) -> None:
    try:
        record = decode(RecordType.PUT_MESSAGE, payload)
    except InvalidRecord:
        return
    assert decode(*encode(record)) == record


@pytest.mark.parametrize(
    ("offset", "value"),
    [(36, 3), (37, 4), (38, 6), (39, limits.IMPORTANCE_MAX + 1), (32, 0)],
    ids=["role", "tier", "kind", "importance", "revision"],
)
def test_a_word_or_number_that_does_not_exist_is_refused(offset: int, value: int) -> None:
    damaged = bytearray(PLAIN_BYTES)
    damaged[offset] = value
    with pytest.raises(InvalidRecord):
        decode(RecordType.PUT_MESSAGE, bytes(damaged))


@pytest.mark.parametrize("metadata", [Metadata(tool_call_id="there"), Metadata(summary="there")])
def test_a_text_that_the_record_says_it_does_not_have_is_refused(metadata: Metadata) -> None:
    record_type, payload = encode(PutMessage(replace(PLAIN, metadata=metadata)))
    damaged = bytearray(payload)
    damaged[PRESENCE_AT] = 0
    with pytest.raises(InvalidRecord, match="does not have"):
        decode(record_type, bytes(damaged))


def test_the_largest_message_fits_a_frame() -> None:
    from convmem.storage import PAYLOAD_BYTES_MAX

    largest = Message(
        message_id=bytes(16),
        session_id="s" * limits.SESSION_ID_BYTES_MAX,
        timestamp=2**63 - 1,
        updated_at=2**63 - 1,
        revision=2**32 - 1,
        role="user",
        content="c" * limits.CONTENT_BYTES_MAX,
        metadata=Metadata(
            tool_call_id="t" * limits.TOOL_CALL_ID_BYTES_MAX,
            tags=tuple(f"{n:0{limits.TAG_BYTES_MAX}}" for n in range(limits.TAGS_MAX)),
            memory_tier="long",
            memory_kind="summary",
            importance=limits.IMPORTANCE_MAX,
            summary="s" * limits.SUMMARY_BYTES_MAX,
            relations=(Relation("r" * limits.RELATION_TYPE_BYTES_MAX, bytes(16)),)
            * limits.RELATIONS_MAX,
            source_message_ids=(bytes(16),) * limits.SOURCES_MAX,
        ),
        written_by="w" * limits.CLIENT_ID_BYTES_MAX,
    )
    record_type, payload = encode(PutMessage(largest))
    assert len(payload) <= PAYLOAD_BYTES_MAX
    assert decode(record_type, payload) == PutMessage(largest)


def test_what_may_change_is_named_alike_everywhere() -> None:
    from dataclasses import fields
    from typing import get_args

    from convmem.records import CHANGEABLE
    from convmem.tools.arguments import Clearable

    assert set(CHANGEABLE) == {"content"} | {field.name for field in fields(Metadata)}
    assert CHANGEABLE[1:] == get_args(Clearable)
