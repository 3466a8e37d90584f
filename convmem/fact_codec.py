"""The records of facts, to bytes and back; ``codec`` knows those of messages.

    set      := event id: 16 bytes   at: i64   revision: u32   value_len: u32
                key_len: u16         client_len: u8   0: u8                     36 bytes
                key client value
    delete   := event id: 16 bytes   at: i64   revision: u32 (0 = had none)
                key_len: u16         client_len: u8   purge: u8                 32 bytes
                key client
    refused  := event id: 16 bytes   at: i64   revision: u32 (0 = had none)
                value_len: u32 (0xFFFFFFFF = no value was tried)
                key_len: u16         client_len: u8   action: u8   reason: u8   37 bytes
                key client value
    greatest := revision: u32

Integers are little-endian, ids big-endian, text UTF-8. Words are stored as their place in
``convmem.fact``.
"""

import struct
from typing import assert_never

from convmem.errors import InvalidRecord
from convmem.fact import ACTIONS, REASONS, Fact
from convmem.record_types import RecordType
from convmem.records import DeleteFact, FactRecord, GreatestFactRevision, RefuseFact, SetFact

_SET = struct.Struct("<16sqIIHBx")
_DELETE = struct.Struct("<16sqIHBB")
_REFUSED = struct.Struct("<16sqIIHBBB")
_GREATEST = struct.Struct("<I")
assert (_SET.size, _DELETE.size, _REFUSED.size) == (36, 32, 37)

_NONE = 0xFFFF_FFFF


def encode(record: FactRecord) -> tuple[RecordType, bytes]:
    """The type and the payload that stand for a record in the log."""
    match record:
        case SetFact(event_id, fact):
            key, client, value = _texts(fact.key, fact.client_id, fact.value)
            head = _SET.pack(
                event_id, fact.set_at, fact.revision, len(value), len(key), len(client)
            )
            return RecordType.SET_FACT, b"".join((head, key, client, value))
        case DeleteFact():
            key, client, _ = _texts(record.key, record.client_id, "")
            head = _DELETE.pack(
                record.event_id, record.at, record.revision, len(key), len(client), record.purge
            )
            return RecordType.DELETE_FACT, b"".join((head, key, client))
        case RefuseFact():
            key, client, value = _texts(record.key, record.client_id, record.value or "")
            head = _REFUSED.pack(
                record.event_id,
                record.at,
                record.revision,
                _NONE if record.value is None else len(value),
                len(key),
                len(client),
                ACTIONS.index(record.action),
                REASONS.index(record.reason),
            )
            return RecordType.REFUSE_FACT, b"".join((head, key, client, value))
        case GreatestFactRevision(revision):
            return RecordType.GREATEST_FACT_REVISION, _GREATEST.pack(revision)
        case _:
            assert_never(record)


def decode(record_type: RecordType, payload: bytes) -> FactRecord:
    """The record of a payload; the caller turns what struct and UTF-8 raise into a refusal."""
    match record_type:
        case RecordType.SET_FACT:
            event_id, at, revision, value_len, key_len, client_len = _SET.unpack_from(payload)
            key, client, value = _cut(payload, _SET.size, key_len, client_len, value_len)
            if not revision:
                raise InvalidRecord("a fact without a revision")
            fact = Fact(key=key, value=value, revision=revision, set_at=at, client_id=client)
            return SetFact(event_id, fact)
        case RecordType.DELETE_FACT:
            event_id, at, revision, key_len, client_len, purge = _DELETE.unpack_from(payload)
            key, client, _ = _cut(payload, _DELETE.size, key_len, client_len, 0)
            return DeleteFact(
                event_id=event_id,
                key=key,
                at=at,
                revision=revision,
                client_id=client,
                purge=_flag(purge),
            )
        case RecordType.REFUSE_FACT:
            (event_id, at, revision, value_len, key_len, client_len, action, reason) = (
                _REFUSED.unpack_from(payload)
            )
            was_tried = value_len != _NONE
            key, client, value = _cut(
                payload, _REFUSED.size, key_len, client_len, value_len if was_tried else 0
            )
            return RefuseFact(
                event_id=event_id,
                key=key,
                at=at,
                revision=revision,
                action=ACTIONS[action],
                reason=REASONS[reason],
                value=value if was_tried else None,
                client_id=client,
            )
        case RecordType.GREATEST_FACT_REVISION:
            return GreatestFactRevision(*_GREATEST.unpack(payload))
        case _:
            raise InvalidRecord(f"no record of a fact is of type {record_type}")


def _texts(key: str, client_id: str | None, value: str) -> tuple[bytes, bytes, bytes]:
    return key.encode(), (client_id or "").encode(), value.encode()


def _cut(
    payload: bytes, start: int, key_len: int, client_len: int, value_len: int
) -> tuple[str, str | None, str]:
    """Key, client and value; the lengths must take up the payload."""
    key_end = start + key_len
    client_end = key_end + client_len
    if not key_len or len(payload) != client_end + value_len:
        raise InvalidRecord("a record of a fact of another size than its fields")
    client = payload[key_end:client_end].decode()
    return payload[start:key_end].decode(), client or None, payload[client_end:].decode()


def _flag(value: int) -> bool:
    if value > 1:
        raise InvalidRecord(f"a flag of {value}")
    return bool(value)
