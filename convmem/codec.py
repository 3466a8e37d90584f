"""Records to bytes and back: the payloads that the log frames carry. Facts: ``fact_codec``.

    put      := head session tool_call_id writer tag* relation* source* summary content
    head     := id: 16 bytes            timestamp: i64          updated_at: i64
                revision: u32           role: u8                tier: u8, 0 = none
                kind: u8                importance: u8          session_len: u16
                tool_call_id_len: u16   summary_len: u16        tags: u8
                relations: u8           sources: u8             presence: u8
                writer_len: u8          0: u8                   content_len: u32     56 bytes
    presence := bit 0: has a tool_call_id   bit 1: has a summary
    update   := id: 16 bytes   updated_at: i64   revision: u32 (the new one)
                mask: u32      content_len: u32  event: u32 (0 = none)               40 bytes
                then, where the mask has its bit, in this order:
                1 tool_call_id: optional   2 tags: u8 tag*   3 tier: u8   4 kind: u8
                5 importance: u8   6 summary: optional   7 relations: u8 relation*
                8 sources: u8 source*   0 content
    delete   := id: 16 bytes   deleted_at: i64   revision: u32 (the last)
                event: u32 (0 = none)                                                32 bytes
    greatest := id: 16 bytes
    effect   := id: 16 bytes   time: i64   revision: u32   event: u32                32 bytes
    tag      := len: u8   text
    relation := len: u8   type text   target id: 16 bytes
    source   := id: 16 bytes
    optional := len: u16 (0xFFFF = none)   text

Integers are little-endian, ids big-endian, text UTF-8. Words (role, tier, kind) are stored as
their place in ``convmem.message``. Record types and mask bits are never reused.
"""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, assert_never

from convmem import fact_codec, limits
from convmem.errors import InvalidRecord
from convmem.ids import ID_BYTES
from convmem.message import KINDS, NO_METADATA, ROLES, TIERS, Message, Metadata, Relation
from convmem.record_types import RecordType
from convmem.records import (
    CHANGEABLE,
    ChangeEffect,
    DeleteFact,
    DeleteMessage,
    GreatestFactRevision,
    GreatestId,
    PutMessage,
    Record,
    RefuseFact,
    SetFact,
    UpdateMessage,
)

KNOWN_TYPES = frozenset(RecordType)

_PUT = struct.Struct("<16sqqIBBBBHHHBBBBBxI")
_UPDATE = struct.Struct("<16sqIIII")
_DELETE = struct.Struct("<16sqII")
_GREATEST = struct.Struct("16s")
assert (_PUT.size, _UPDATE.size, _DELETE.size) == (56, 40, 32)

_HAS_TOOL_CALL_ID = 1
_HAS_SUMMARY = 2
_NONE = 0xFFFF
_CONTENT, *_METADATA = CHANGEABLE  # content is bit 0 of the mask and comes last, as in a put
_TIERS_OR_NONE = (None, *TIERS)


def encode(record: Record) -> tuple[RecordType, bytes]:
    """The type and the payload that stand for a record in the log."""
    match record:
        case PutMessage(message):
            return RecordType.PUT_MESSAGE, _encode_put(message)
        case UpdateMessage():
            return RecordType.UPDATE_MESSAGE, _encode_update(record)
        case DeleteMessage(message_id, deleted_at, revision, event):
            payload = _DELETE.pack(message_id, deleted_at, revision, event)
            return RecordType.DELETE_MESSAGE, payload
        case GreatestId(message_id):
            return RecordType.GREATEST_ID, message_id
        case ChangeEffect(message_id, event, revision, time_ms):
            return RecordType.CHANGE_EFFECT, _DELETE.pack(message_id, time_ms, revision, event)
        case SetFact() | DeleteFact() | RefuseFact() | GreatestFactRevision():
            return fact_codec.encode(record)
        case _:
            assert_never(record)


def decode(record_type: int, payload: bytes) -> Record:
    """The record of a payload. Raises InvalidRecord where the bytes cannot be one."""
    try:
        if record_type in _DECODE:
            return _DECODE[record_type](payload)
        return fact_codec.decode(RecordType(record_type), payload)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise InvalidRecord(f"record of type {record_type}: {error}") from error


def _encode_put(message: Message) -> bytes:
    metadata = message.metadata
    session = message.session_id.encode()
    tool_call_id = (metadata.tool_call_id or "").encode()
    writer = (message.written_by or "").encode()
    summary = (metadata.summary or "").encode()
    content = message.content.encode()
    presence = (metadata.tool_call_id is not None) * _HAS_TOOL_CALL_ID
    presence |= (metadata.summary is not None) * _HAS_SUMMARY
    head = _PUT.pack(
        message.message_id,
        message.timestamp,
        message.updated_at,
        message.revision,
        ROLES.index(message.role),
        _TIERS_OR_NONE.index(metadata.memory_tier),
        KINDS.index(metadata.memory_kind),
        metadata.importance,
        len(session),
        len(tool_call_id),
        len(summary),
        len(metadata.tags),
        len(metadata.relations),
        len(metadata.source_message_ids),
        presence,
        len(writer),
        len(content),
    )
    tags = b"".join(map(_short, metadata.tags))
    relations = b"".join(map(_relation, metadata.relations))
    sources = b"".join(metadata.source_message_ids)
    return b"".join(
        (head, session, tool_call_id, writer, tags, relations, sources, summary, content)
    )


def _decode_put(payload: bytes) -> PutMessage:
    (
        message_id, timestamp, updated_at, revision, role, tier, kind, importance,
        session_len, tool_call_id_len, summary_len, tags, relations, sources,
        presence, writer_len, content_len,
    ) = _PUT.unpack_from(payload)  # fmt: skip
    if (tool_call_id_len and not presence & _HAS_TOOL_CALL_ID) or (
        summary_len and not presence & _HAS_SUMMARY
    ):
        raise InvalidRecord("a text that the record says it does not have")
    if tool_call_id_len or tags or relations or sources or presence:
        reader = _Reader(payload, _PUT.size)
        session_id = reader.text(session_len)
        tool_call_id = reader.text(tool_call_id_len)
        writer = reader.text(writer_len)
        metadata = Metadata(  # arguments in the order of the bytes: each takes its own
            tool_call_id=tool_call_id if presence & _HAS_TOOL_CALL_ID else None,
            tags=reader.tags(tags),
            memory_tier=_TIERS_OR_NONE[tier],
            memory_kind=KINDS[kind],
            importance=_importance(importance),
            relations=reader.relations(relations),
            source_message_ids=reader.ids(sources),
            summary=reader.text(summary_len) if presence & _HAS_SUMMARY else None,
        )
        content = reader.text(content_len)
        reader.end()
    else:  # almost every message: worth a shorter way
        session_end = _PUT.size + session_len
        writer_end = session_end + writer_len
        if len(payload) != writer_end + content_len:
            raise InvalidRecord("a message of another size than its fields")
        session_id = payload[_PUT.size : session_end].decode()
        writer = payload[session_end:writer_end].decode()
        metadata = _labels(tier, kind, importance)
        content = payload[writer_end:].decode()
    if not revision or not session_len:
        raise InvalidRecord("a message without a session or a revision")
    message = Message(
        message_id=message_id,
        session_id=session_id,
        timestamp=timestamp,
        updated_at=updated_at,
        revision=revision,
        role=ROLES[role],
        content=content,
        metadata=metadata,
        written_by=writer or None,
    )
    return PutMessage(message)


@lru_cache
def _labels(tier: int, kind: int, importance: int) -> Metadata:
    """Metadata that is labels only, as almost every message has it: shared."""
    metadata = Metadata(
        memory_tier=_TIERS_OR_NONE[tier],
        memory_kind=KINDS[kind],
        importance=_importance(importance),
    )
    return NO_METADATA if metadata == NO_METADATA else metadata


def _encode_update(update: UpdateMessage) -> bytes:
    changes = update.changes
    content = changes[_CONTENT].encode() if _CONTENT in changes else b""
    mask = 1 if _CONTENT in changes else 0
    fields = []
    for bit, name in enumerate(_METADATA, start=1):
        if name in changes:
            mask |= 1 << bit
            fields.append(_ENCODE_FIELD[name](changes[name]))
    head = _UPDATE.pack(
        update.message_id, update.updated_at, update.revision, mask, len(content), update.event
    )
    return b"".join((head, *fields, content))


def _decode_update(payload: bytes) -> UpdateMessage:
    message_id, updated_at, revision, mask, content_len, event = _UPDATE.unpack_from(payload)
    if not mask or mask >> len(CHANGEABLE) or revision < 2:
        raise InvalidRecord(f"an update to revision {revision} of the fields {mask:#x}")
    reader = _Reader(payload, _UPDATE.size)
    changes: dict[str, Any] = {
        name: _DECODE_FIELD[name](reader)
        for bit, name in enumerate(_METADATA, start=1)
        if mask >> bit & 1
    }
    if mask & 1:
        changes[_CONTENT] = reader.text(content_len)
    reader.end()
    return UpdateMessage(message_id, updated_at, revision, changes, event)


def _decode_effect(payload: bytes) -> ChangeEffect:
    message_id, time_ms, revision, event = _DELETE.unpack(payload)
    return ChangeEffect(message_id, event, revision, time_ms)


def _importance(value: int) -> int:
    if value > limits.IMPORTANCE_MAX:
        raise InvalidRecord(f"an importance of {value}")
    return value


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


def _relation(relation: Relation) -> bytes:
    return _short(relation.type) + relation.message_id


def _optional(text: str | None) -> bytes:
    if text is None:
        return _NONE.to_bytes(2, "little")
    data = text.encode()
    return len(data).to_bytes(2, "little") + data


class _Reader:
    """Takes one field after the other; running short is an InvalidRecord, never a short field."""

    __slots__ = ("_offset", "_payload")

    def __init__(self, payload: bytes, offset: int) -> None:
        self._payload = payload
        self._offset = offset

    def take(self, length: int) -> bytes:
        end = self._offset + length
        if end > len(self._payload):
            raise InvalidRecord(f"a field of {length} bytes runs past the end")
        field = self._payload[self._offset : end]
        self._offset = end
        return field

    def end(self) -> None:
        if self._offset != len(self._payload):
            raise InvalidRecord(f"{len(self._payload) - self._offset} bytes too many")

    def byte(self) -> int:
        return self.take(1)[0]

    def text(self, length: int) -> str:
        return self.take(length).decode()

    def optional(self) -> str | None:
        length = int.from_bytes(self.take(2), "little")
        return None if length == _NONE else self.text(length)

    def short(self) -> str:
        return self.text(self.byte())

    def tags(self, count: int) -> tuple[str, ...]:
        return tuple(self.short() for _ in range(count))

    def relations(self, count: int) -> tuple[Relation, ...]:
        return tuple(Relation(self.short(), self.take(ID_BYTES)) for _ in range(count))

    def ids(self, count: int) -> tuple[bytes, ...]:
        return tuple(self.take(ID_BYTES) for _ in range(count))


_ENCODE_FIELD: Mapping[str, Callable[[Any], bytes]] = {
    "tool_call_id": _optional,
    "tags": lambda tags: bytes((len(tags), *b"".join(map(_short, tags)))),
    "memory_tier": lambda tier: bytes((_TIERS_OR_NONE.index(tier),)),
    "memory_kind": lambda kind: bytes((KINDS.index(kind),)),
    "importance": lambda importance: bytes((importance,)),
    "summary": _optional,
    "relations": lambda links: bytes((len(links), *b"".join(map(_relation, links)))),
    "source_message_ids": lambda sources: bytes((len(sources), *b"".join(sources))),
}
_DECODE_FIELD: Mapping[str, Callable[[_Reader], Any]] = {
    "tool_call_id": _Reader.optional,
    "tags": lambda reader: reader.tags(reader.byte()),
    "memory_tier": lambda reader: _TIERS_OR_NONE[reader.byte()],
    "memory_kind": lambda reader: KINDS[reader.byte()],
    "importance": lambda reader: _importance(reader.byte()),
    "summary": _Reader.optional,
    "relations": lambda reader: reader.relations(reader.byte()),
    "source_message_ids": lambda reader: reader.ids(reader.byte()),
}
_DECODE: Mapping[int, Callable[[bytes], Record]] = {
    RecordType.PUT_MESSAGE: _decode_put,
    RecordType.UPDATE_MESSAGE: _decode_update,
    RecordType.DELETE_MESSAGE: lambda payload: DeleteMessage(*_DELETE.unpack(payload)),
    RecordType.GREATEST_ID: lambda payload: GreatestId(*_GREATEST.unpack(payload)),
    RecordType.CHANGE_EFFECT: _decode_effect,
}
