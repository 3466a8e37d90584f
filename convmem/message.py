"""The message: a conversation turn, what is known about it, and the words for both.

The tuples of words double as the stored codes: a word's place is its code in the log. Add
at the end, never reorder, never remove.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

Role = Literal["user", "assistant", "system"]
MemoryTier = Literal["short", "mid", "long"]
MemoryKind = Literal["conversation", "episode", "semantic", "procedure", "preference", "summary"]

ROLES: tuple[Role, ...] = get_args(Role)
TIERS: tuple[MemoryTier, ...] = get_args(MemoryTier)
KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed link to another message of the store."""

    type: str
    message_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a host knows about a message beside its text. All of it may change later.

    ``importance`` is 0 to 100. ``memory_tier`` is a label only: nothing moves or expires by it.
    """

    tool_call_id: str | None = None
    tags: tuple[str, ...] = ()
    memory_tier: MemoryTier | None = None
    memory_kind: MemoryKind = "conversation"
    importance: int = 0
    summary: str | None = None
    relations: tuple[Relation, ...] = ()
    source_message_ids: tuple[bytes, ...] = ()


NO_METADATA = Metadata()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One stored message as it stands now. Times are UTC milliseconds since 1970, ids 16 bytes.

    ``message_id``, ``session_id``, ``role`` and ``timestamp`` are its identity and never change.
    ``revision`` counts from 1. ``written_by`` is the client that wrote it, where known.
    """

    message_id: bytes
    session_id: str
    timestamp: int
    updated_at: int
    revision: int
    role: Role
    content: str
    metadata: Metadata = NO_METADATA
    written_by: str | None = None


def targets(metadata: Metadata) -> list[bytes]:
    """The ids of the messages that a message points to: its relations, then its sources."""
    related = [relation.message_id for relation in metadata.relations]
    return [*related, *metadata.source_message_ids]


def without_links(metadata: Metadata, is_gone: Callable[[bytes], bool]) -> Metadata:
    """The metadata without its relations and sources to messages that are gone."""
    return replace(
        metadata,
        relations=tuple(link for link in metadata.relations if not is_gone(link.message_id)),
        source_message_ids=tuple(id_ for id_ in metadata.source_message_ids if not is_gone(id_)),
    )
