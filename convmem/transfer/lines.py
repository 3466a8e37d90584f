"""The lines of an export file: what stands in them, written and read.

    file     := manifest record*                each a JSON object on a line of its own, UTF-8
    manifest := {"type": "manifest", "format": "convmem", "version": 1, "messages": how many,
                 "fact_events": how many, "tombstones": how many}          missing ones are 0
    record   := message | event | tombstone     messages and events in the order of writing
    message  := {"type": "message", ...}        as view "export" of read_messages gives it
    event    := {"type": "fact_event", "key", ...}   as memory_history gives it
    tombstone := {"type": "tombstone", "message_id", "revision"}

The counts tell a file that was cut from a whole one. Pure: lines in, records out, and back.
"""

import json
import re
from dataclasses import asdict, dataclass

from convmem import ids, limits
from convmem.fact import ACTIONS, REASONS, Fact
from convmem.message import KINDS, NO_METADATA, ROLES, TIERS, Message, Metadata, Relation
from convmem.operations import JsonObject
from convmem.pages import message_item
from convmem.records import DeleteFact, DeleteMessage, FactEvent, PutMessage, RefuseFact, SetFact
from convmem.transfer.fields import Fields, Unfit, read_object
from convmem.views.facts import event_item

FORMAT = "convmem"
VERSION = 1

Exported = PutMessage | FactEvent | DeleteMessage

_RELATION_TYPE = re.compile("[a-z][a-z0-9_]*")
_TIME_MAX = 2**48 - 1  # of an id: the year 10889
_REVISION_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a file says it holds."""

    messages: int = 0
    fact_events: int = 0
    tombstones: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in asdict(self).items())


def manifest_line(manifest: Manifest) -> str:
    """The first line of a file."""
    counts = asdict(manifest)
    told = {name: count for name, count in counts.items() if count or name == "messages"}
    return _line({"type": "manifest", "format": FORMAT, "version": VERSION, **told})


def record_line(record: Exported) -> str:
    """The line of a record."""
    match record:
        case PutMessage(message):
            return _line({"type": "message"} | message_item(message))
        case DeleteMessage():
            message_id = ids.to_text(record.message_id)
            told = {"type": "tombstone", "message_id": message_id, "revision": record.revision}
            return _line(told)
        case SetFact(fact=fact):
            key = fact.key
        case DeleteFact() | RefuseFact():
            key = record.key
    return _line({"type": "fact_event", "key": key} | event_item(record))


def read_manifest(line: str) -> Manifest:
    """What the first line says. Raises Unfit."""
    fields = read_object(line)
    if not fields.has("type") or fields.word("type", ("manifest",)) != "manifest":
        raise Unfit("type: the first line of an export is its manifest")
    fields.word("format", (FORMAT,))
    version = fields.integer("version", 0, _REVISION_MAX)
    if version != VERSION:
        newer = "use the convmem that wrote it, or a newer one" if version > VERSION else "unknown"
        raise Unfit(f"version: {version} is not {VERSION}, the one that is read here: {newer}")
    most = limits.IMPORT_RECORDS_MAX
    manifest = Manifest(
        messages=fields.integer("messages", 0, most, 0),
        fact_events=fields.integer("fact_events", 0, most, 0),
        tombstones=fields.integer("tombstones", 0, most, 0),
    )
    fields.end()
    return manifest


def read_record(line: str) -> Exported:
    """The record of any other line. Raises Unfit."""
    fields = read_object(line)
    kind = fields.word("type", ("message", "fact_event", "tombstone"))
    record: Exported
    if kind == "message":
        record = PutMessage(_message(fields))
    elif kind == "fact_event":
        record = _event(fields)
    else:
        message_id = fields.id("message_id")
        record = DeleteMessage(message_id, 0, fields.integer("revision", 1, _REVISION_MAX))
    fields.end()
    return record


def _message(fields: Fields) -> Message:
    timestamp = fields.integer("timestamp", 0, _TIME_MAX)
    metadata = fields.inner("metadata")
    return Message(
        message_id=fields.id("message_id"),
        session_id=_name(fields, "session_id", limits.SESSION_ID_BYTES_MAX),
        timestamp=timestamp,
        updated_at=fields.integer("updated_at", 0, _TIME_MAX),
        revision=fields.integer("revision", 1, _REVISION_MAX),
        role=fields.word("role", ROLES),
        content=fields.text("content", limits.CONTENT_BYTES_MAX),
        metadata=_metadata(metadata),
        written_by=_client(fields, "written_by"),
    )


def _metadata(fields: Fields) -> Metadata:
    tool_call_id = None
    if fields.has("tool_call_id"):
        tool_call_id = _name(fields, "tool_call_id", limits.TOOL_CALL_ID_BYTES_MAX)
    tags = fields.items("tags", limits.TAGS_MAX, fields.text_item(limits.TAG_BYTES_MAX))
    for n, tag in enumerate(tags):
        if tag in tags[:n]:
            fields.refuse(f"tags[{n}]", "is there already")
    metadata = Metadata(
        tool_call_id=tool_call_id,
        tags=tags,
        memory_tier=fields.word("memory_tier", TIERS) if fields.has("memory_tier") else None,
        memory_kind=fields.word("memory_kind", KINDS, NO_METADATA.memory_kind),
        importance=fields.integer("importance", 0, limits.IMPORTANCE_MAX, 0),
        summary=fields.optional_text("summary", limits.SUMMARY_BYTES_MAX),
        relations=fields.items("relations", limits.RELATIONS_MAX, _relation),
        source_message_ids=fields.items("source_message_ids", limits.SOURCES_MAX, Fields.id_item),
    )
    fields.end()
    return NO_METADATA if metadata == NO_METADATA else metadata


def _relation(fields: Fields, name: str, value: object) -> Relation:
    link = fields.object_item(name, value)
    kind = link.text("type", limits.RELATION_TYPE_BYTES_MAX)
    if not _RELATION_TYPE.fullmatch(kind):
        link.refuse("type", "not a lower-case word of a-z, 0-9 and _ that begins with a letter")
    relation = Relation(kind, link.id("message_id"))
    link.end()
    return relation


def _event(fields: Fields) -> FactEvent:
    key = _name(fields, "key", limits.FACT_KEY_BYTES_MAX)
    event_id = fields.id("event_id")
    at = fields.integer("at", 0, _TIME_MAX)
    client = _client(fields, "client_id")
    match fields.word("action", (*ACTIONS, "refused")):
        case "set":
            fact = Fact(
                key=key,
                value=fields.text("value", limits.FACT_VALUE_BYTES_MAX),
                revision=fields.integer("revision", 1, _REVISION_MAX),
                set_at=at,
                client_id=client,
            )
            return SetFact(event_id, fact)
        case "delete":
            return DeleteFact(
                event_id=event_id,
                key=key,
                at=at,
                revision=fields.integer("revision", 0, _REVISION_MAX),
                client_id=client,
            )
        case _:
            return RefuseFact(
                event_id=event_id,
                key=key,
                at=at,
                revision=fields.integer("current_revision", 1, _REVISION_MAX, 0)
                if fields.has("current_revision")
                else 0,
                action=fields.word("tried", ACTIONS),
                reason=fields.word("reason", REASONS),
                value=fields.optional_text("value", limits.FACT_VALUE_BYTES_MAX),
                client_id=client,
            )


def _name(fields: Fields, name: str, bytes_max: int) -> str:
    return fields.text(name, bytes_max, bytes_min=1, allow_nul=False)


def _client(fields: Fields, name: str) -> str | None:
    return fields.optional_text(name, limits.CLIENT_ID_BYTES_MAX, bytes_min=1)


def _line(record: JsonObject) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
