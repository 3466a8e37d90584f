"""Records to bytes and back: the payloads that the log frames carry.

    put     := head session tool_call_id writer tag* relation* source* summary content
    head    := id: 16 bytes            timestamp: i64          updated_at: i64
               revision: u32           role: u8                tier: u8, 0 = none
               kind: u8                importance: u8          session_len: u16
               tool_call_id_len: u16   summary_len: u16        tags: u8
               relations: u8           sources: u8             presence: u8
               writer_len: u8          0: u8                   content_len: u32     56 bytes
    tag     := len: u8   text
    relation:= len: u8   type text   target id: 16 bytes
    source  := id: 16 bytes
    presence:= bit 0: has a tool_call_id   bit 1: has a summary

Integers are little-endian, ids big-endian, text UTF-8. Words (role, tier, kind) are stored as
their place in ``convmem.message``. The content comes last, so that a row of the state finds it
by its length alone. Record types are never reused.
"""

import struct
from enum import IntEnum
from functools import lru_cache

from convmem import limits
from convmem.errors import InvalidRecord
from convmem.ids import ID_BYTES
from convmem.message import KINDS, NO_METADATA, ROLES, TIERS, Message, Metadata, Relation
from convmem.records import PutMessage, Record


class RecordType(IntEnum):
    """The type byte of a frame or batch item, as the log carries it."""

    PUT_MESSAGE = 1


KNOWN_TYPES = frozenset(RecordType)

_HEAD = struct.Struct("<16sqqIBBBBHHHBBBBBxI")
assert _HEAD.size == 56

_HAS_TOOL_CALL_ID = 1
_HAS_SUMMARY = 2
_ROLE_CODES = {role: code for code, role in enumerate(ROLES)}
_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
_TIERS_OR_NONE = (None, *TIERS)
_TIER_CODES = {tier: code for code, tier in enumerate(_TIERS_OR_NONE)}


def encode(record: Record) -> tuple[RecordType, bytes]:
    """The type and the payload that stand for a record in the log."""
    return RecordType.PUT_MESSAGE, _encode_put(record.message)


def decode(record_type: int, payload: bytes) -> Record:
    """The record of a payload. Raises InvalidRecord where the bytes cannot be one."""
    try:
        match RecordType(record_type):
            case RecordType.PUT_MESSAGE:
                return PutMessage(_decode_put(payload))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
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
    head = _HEAD.pack(
        message.message_id,
        message.timestamp,
        message.updated_at,
        message.revision,
        _ROLE_CODES[message.role],
        _TIER_CODES[metadata.memory_tier],
        _KIND_CODES[metadata.memory_kind],
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
    tags = b"".join(_short(tag) for tag in metadata.tags)
    relations = b"".join(_short(link.type) + link.message_id for link in metadata.relations)
    sources = b"".join(metadata.source_message_ids)
    return b"".join(
        (head, session, tool_call_id, writer, tags, relations, sources, summary, content)
    )


def _decode_put(payload: bytes) -> Message:
    (
        message_id, timestamp, updated_at, revision, role, tier, kind, importance,
        session_len, tool_call_id_len, summary_len, tags, relations, sources,
        presence, writer_len, content_len,
    ) = _HEAD.unpack_from(payload)  # fmt: skip
    reader = _Reader(payload, _HEAD.size)
    session_id = reader.text(session_len)
    if tool_call_id_len or tags or relations or sources or presence:
        tool_call_id = reader.text(tool_call_id_len)
        writer = reader.text(writer_len)
        metadata = Metadata(  # arguments in the order of the bytes: each takes its own
            tool_call_id=tool_call_id if presence & _HAS_TOOL_CALL_ID else None,
            tags=tuple(reader.short() for _ in range(tags)),
            memory_tier=_TIERS_OR_NONE[tier],
            memory_kind=KINDS[kind],
            importance=importance,
            relations=tuple(Relation(reader.short(), reader.id()) for _ in range(relations)),
            source_message_ids=tuple(reader.id() for _ in range(sources)),
            summary=reader.text(summary_len) if presence & _HAS_SUMMARY else None,
        )
    else:
        writer = reader.text(writer_len)
        metadata = _labels(tier, kind, importance)
    content = reader.text(content_len)
    if reader.offset != len(payload):
        raise InvalidRecord(f"{len(payload) - reader.offset} bytes after the content")
    if importance > limits.IMPORTANCE_MAX or not revision or not session_len:
        raise InvalidRecord("a message without a session or revision, or too important")
    return Message(
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


@lru_cache
def _labels(tier: int, kind: int, importance: int) -> Metadata:
    """Metadata that is labels only, as almost every message has it: shared."""
    metadata = Metadata(
        memory_tier=_TIERS_OR_NONE[tier], memory_kind=KINDS[kind], importance=importance
    )
    return NO_METADATA if metadata == NO_METADATA else metadata


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


class _Reader:
    """Takes one field after the other; running short is an InvalidRecord, never a short field."""

    __slots__ = ("offset", "payload")

    def __init__(self, payload: bytes, offset: int) -> None:
        self.payload = payload
        self.offset = offset

    def take(self, length: int) -> bytes:
        end = self.offset + length
        if len(self.payload) < end:
            raise InvalidRecord(f"a field of {length} bytes runs past the end")
        field = self.payload[self.offset : end]
        self.offset = end
        return field

    def text(self, length: int) -> str:
        return self.take(length).decode()

    def short(self) -> str:
        return self.text(self.take(1)[0])

    def id(self) -> bytes:
        return self.take(ID_BYTES)
