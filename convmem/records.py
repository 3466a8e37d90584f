"""The durable records: the closed union of what a log can say about a memory.

A record is a fact that has happened, with every clock reading and id already in it. Applying
the same records in the same order gives the same state, live or on replay.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from convmem.fact import Action, Fact, Reason
from convmem.message import Message

# What may change of a message: its content, and the fields of its metadata. A name's place is
# its bit in the log and in snapshots: add at the end, never reorder, never remove.
CHANGEABLE = (
    "content",
    "tool_call_id",
    "tags",
    "memory_tier",
    "memory_kind",
    "importance",
    "summary",
    "relations",
    "source_message_ids",
)


class Place(NamedTuple):
    """Where a record stands in the log: its frame, and its first byte in the frame's payload."""

    frame_offset: int
    start: int


@dataclass(frozen=True, slots=True)
class PutMessage:
    """A message was written. ``revision`` is 1, or what it was when the log was compacted."""

    message: Message


@dataclass(frozen=True, slots=True)
class UpdateMessage:
    """Some of a message changed. ``changes`` maps field names to new values, never empty.

    The names are ``content`` and those of ``Metadata``. ``revision`` is the new one. ``event``
    is the number under which a guest asked for it, 0 if none.
    """

    message_id: bytes
    updated_at: int
    revision: int
    changes: Mapping[str, Any]
    event: int = 0


@dataclass(frozen=True, slots=True)
class DeleteMessage:
    """A message is gone. ``revision`` is the last one it had, ``event`` as in an update."""

    message_id: bytes
    deleted_at: int
    revision: int
    event: int = 0


@dataclass(frozen=True, slots=True)
class GreatestId:
    """An id that was given out. A compaction keeps the greatest, should its message be gone."""

    message_id: bytes


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """What a change came to that was asked for under a number. A compaction keeps the latest.

    ``revision`` and ``time_ms`` are those of the update or deletion itself.
    """

    message_id: bytes
    event: int
    revision: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class SetFact:
    """A key got a value. ``event_id`` is the id of what happened, ``client_id`` who did it."""

    event_id: bytes
    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFact:
    """A key has no value any more. ``revision`` is that of the value it had, 0 if it had none.

    ``purge``: its history is to go as well, with the next compaction.
    """

    event_id: bytes
    key: str
    at: int
    revision: int
    client_id: str | None = None
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseFact:
    """A change of a key was refused for a guard: what was tried, and why.

    ``revision`` is that of the value that was there, 0 if there was none.
    """

    event_id: bytes
    key: str
    at: int
    revision: int
    action: Action
    reason: Reason
    value: str | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class GreatestFactRevision:
    """The greatest revision of a key that was purged: a new key starts above it.

    A client may still hold such a revision, and must not be right about another value.
    """

    revision: int


MessageRecord = PutMessage | UpdateMessage | DeleteMessage | GreatestId | ChangeEffect
FactEvent = SetFact | DeleteFact | RefuseFact
FactRecord = FactEvent | GreatestFactRevision
Record = MessageRecord | FactRecord


def updated(message: Message, update: UpdateMessage) -> Message:
    """The message after an update."""
    changes = dict(update.changes)
    content = changes.pop("content", message.content)
    return replace(
        message,
        content=content,
        metadata=replace(message.metadata, **changes),
        updated_at=update.updated_at,
        revision=update.revision,
    )
