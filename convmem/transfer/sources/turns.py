"""From what was said in another program to messages of ours: the part that all formats share.

A message's id is made of where it comes from, so that the same source read twice gives the same
messages, and a conversation that has grown only the new ones:

    id := time of the message: 48 bits    start of SHA-256 (source, conversation, message): 80 bits
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from convmem import ids
from convmem.limits import (
    CONTENT_BYTES_MAX,
    IMPORT_TOOL_TEXT_BYTES_MAX,
    SESSION_ID_BYTES_MAX,
    SUMMARY_BYTES_MAX,
    TOOL_CALL_ID_BYTES_MAX,
)
from convmem.message import MemoryKind, Message, Metadata, Relation, Role
from convmem.records import PutMessage
from convmem.transfer.incoming import Findings, Incoming

NO_TIME = "has no time of its own: that before it was taken, or the file's"

_SURROGATE = re.compile("[\ud800-\udfff]")
_MILLISECONDS_MAX = 2**48 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What was said at one go. ``key`` tells it from all others of its conversation.

    ``time_ms`` is None where the source does not say. ``follows`` is the key of the turn before
    it where that is not the one that stands before it, as in another branch.
    """

    key: str
    role: Role
    text: str
    time_ms: int | None = None
    tool_call_id: str | None = None
    kind: MemoryKind = "conversation"
    follows: str | None = None
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation of a source. ``time_ms`` stands for turns that have none."""

    source: str
    id: str
    title: str | None
    time_ms: int
    tags: tuple[str, ...] = ()


def incoming(
    conversation: Conversation, turns: Iterable[Turn], findings: Findings
) -> Iterator[Incoming]:
    """The messages of a conversation, its title as the summary of the first."""
    time_ms = conversation.time_ms
    known: dict[str, bytes] = {}
    title = conversation.title
    for turn in turns:
        if turn.key in known:
            findings.skip("is there already, under the same id")
            continue
        if turn.time_ms is None:
            findings.note(NO_TIME)
        id_ms = turn.time_ms or 0
        time_ms = time_ms if turn.time_ms is None else turn.time_ms
        message_id = known[turn.key] = derived_id(
            conversation.source, conversation.id, turn.key, time_ms=id_ms
        )
        before = known.get(turn.follows or "")
        message = Message(
            message_id=message_id,
            session_id=_session(conversation),
            timestamp=time_ms,
            updated_at=time_ms,
            revision=1,
            role=turn.role,
            content=_unicode(turn.text, findings),
            metadata=Metadata(
                tool_call_id=_short(turn.tool_call_id, TOOL_CALL_ID_BYTES_MAX),
                tags=("imported", conversation.source, *conversation.tags),
                memory_kind=turn.kind,
                summary=_summary(title),
                relations=(Relation("reply_to", before),) if before else (),
            ),
        )
        title = None
        for part in _parts(message, findings):
            yield Incoming(PutMessage(part), turn.place or conversation.id)


def derived_id(*names: str, time_ms: int = 0) -> bytes:
    """The id of something by its names, the same each time."""
    digest = hashlib.sha256(json.dumps(names).encode()).digest()
    return time_ms.to_bytes(ids.ID_BYTES - ids.RANDOM_BYTES, "big") + digest[: ids.RANDOM_BYTES]


def time_of(value: object) -> int | None:
    """UTC milliseconds of a time: seconds (or milliseconds) as a number, or ISO 8601."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if value > 1e11 else value
    else:
        return None
    # NaN and infinity are no times either.
    return round(seconds * 1000) if 0 <= seconds * 1000 <= _MILLISECONDS_MAX else None


def tool_text(label: str, value: object, findings: Findings) -> str:
    """What a tool was asked or has answered, as much of it as a memory is served by."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    data = text.encode("utf-8", "replace")
    if len(data) > IMPORT_TOOL_TEXT_BYTES_MAX:
        findings.note("is a long text of a tool: its start was taken")
        text = data[:IMPORT_TOOL_TEXT_BYTES_MAX].decode(errors="ignore")
        text += f"\n[{len(data) - len(text.encode()):,} more bytes were not imported]"
    return f"[{label}] {text}"


def text_or(value: object, default: str = "") -> str:
    """The value, if it is text."""
    return value if isinstance(value, str) else default


def mapping(value: object) -> dict[str, Any]:
    """The value, if it is an object."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """The value, if it is a list."""
    return value if isinstance(value, list) else []


def _session(conversation: Conversation) -> str:
    name = _SURROGATE.sub("\ufffd", f"{conversation.source}/{conversation.id}").replace("\0", "0")
    return _short(name, SESSION_ID_BYTES_MAX) or name


def _short(name: str | None, bytes_max: int) -> str | None:
    """A name that fits: the end of a longer one is a digest of it."""
    if not name:
        return None
    name = _SURROGATE.sub("\ufffd", name).replace("\0", "0")
    data = name.encode()
    if len(data) <= bytes_max:
        return name
    digest = hashlib.sha256(data).hexdigest()[:16]
    return data[: bytes_max - len(digest) - 1].decode(errors="ignore") + "-" + digest


def _summary(title: str | None) -> str | None:
    if not title or not title.strip():
        return None
    data = _SURROGATE.sub("\ufffd", title.strip()).encode()
    return data[:SUMMARY_BYTES_MAX].decode(errors="ignore")


def _unicode(text: str, findings: Findings) -> str:
    if text.isascii() or not _SURROGATE.search(text):
        return text
    findings.note("is not quite Unicode: what is not was replaced")
    return _SURROGATE.sub("\ufffd", text)


def _parts(message: Message, findings: Findings) -> Iterator[Message]:
    """The message, in parts that continue each other where it is longer than one may be."""
    data = message.content.encode()
    if len(data) <= CONTENT_BYTES_MAX:
        yield message
        return
    findings.note("is longer than a message may be: it was divided")
    before: bytes | None = None
    number = 0
    while data:
        part = data[:CONTENT_BYTES_MAX].decode(errors="ignore")
        data = data[len(part.encode()) :]
        if before is None:
            yield replace(message, content=part)
            before = message.message_id
        else:
            number += 1
            time_ms = ids.timestamp_ms(message.message_id)
            part_id = derived_id(message.message_id.hex(), str(number), time_ms=time_ms)
            metadata = Metadata(
                tags=message.metadata.tags, relations=(Relation("continues", before),)
            )
            yield replace(message, message_id=part_id, content=part, metadata=metadata)
            before = part_id
