"""Everything that can be asked of a memory, as values: commands change it, queries do not.

The closed unions ``Command`` and ``Query`` are the whole interface between who asks (tools,
command line, another process) and who answers (the engine). Sizes and words have been checked
by then; what only the store can judge (targets, revisions, cursors) has not.

This module is imported before the host is greeted: it must stay light.
"""

from dataclasses import dataclass
from typing import Literal

from convmem.message import NO_METADATA, Metadata, Role

Order = Literal["newest_first", "oldest_first"]

JsonObject = dict[str, object]
"""An answer: what a reply carries, ready to be written as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMessage:
    """Store a message. With a ``message_id`` it may be repeated: the second time changes nothing.

    ``client_id`` is who asks, where known.
    """

    session_id: str
    role: Role
    content: str
    metadata: Metadata = NO_METADATA
    message_id: bytes | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory:
    """One page of a session's messages, in the order of writing or against it."""

    session_id: str
    order: Order
    limit: int
    max_bytes: int
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContent:
    """A window of one message's content, in UTF-8 bytes from ``offset``."""

    message_id: bytes
    offset: int
    limit: int
    expected_revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSessions:
    """One page of the sessions, most recently written first."""

    limit: int
    max_bytes: int
    prefix: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHealth:
    """What the store holds, where, how it was recovered, and what it costs."""


Command = WriteMessage
Query = ReadHistory | ReadContent | ReadSessions | ReadHealth
