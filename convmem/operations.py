"""Everything that can be asked of a memory, as values: commands change it, queries do not.

The closed unions ``Command`` and ``Query`` are the whole interface between who asks (tools,
command line, another process) and who answers (the engine). Sizes and words have been checked
by then; what only the store can judge (targets, revisions, cursors) has not.

This module is imported before the host is greeted: it must stay light.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from convmem.message import NO_METADATA, MemoryKind, MemoryTier, Metadata, Role

Order = Literal["newest_first", "oldest_first"]
SearchMode = Literal["auto", "lexical", "semantic"]

Changes = Mapping[str, Any]
"""New values of a message's fields: ``content`` and the field names of ``Metadata``."""

JsonObject = dict[str, object]
"""An answer: what a reply carries, ready to be written as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMessage:
    """Store a message. With a ``message_id`` it may be repeated: the second time changes nothing.

    ``client_id`` is who asks, where known. ``assigned`` tells that the id was made for this
    command alone: where it is taken already, by this very command.
    """

    session_id: str
    role: Role
    content: str
    metadata: Metadata = NO_METADATA
    message_id: bytes | None = None
    client_id: str | None = None
    assigned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMessage:
    """Change some of a message, if it still has the expected revision.

    A command that may have to be repeated has a random number of 32 bits, its ``event``: the
    second time changes nothing.
    """

    message_id: bytes
    expected_revision: int
    changes: Changes
    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMessage:
    """Remove a message, if it is in the session and has the revision expected, where given.

    ``event`` as in an update.
    """

    message_id: bytes
    session_id: str | None = None
    expected_revision: int | None = None
    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildIndex:
    """Write the log anew without what is dead in it, and build all that is derived from it."""


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
class ReadContext:
    """A message with its neighbours in the session and what it is linked to, both ways."""

    message_id: bytes
    before: int
    after: int
    relation_depth: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadExport:
    """One page of everything, as lines of JSON that an import would take."""

    limit: int
    max_bytes: int
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSessions:
    """One page of the sessions, most recently written first."""

    limit: int
    max_bytes: int
    prefix: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSessionIds:
    """The names of sessions that begin so, most recently written first."""

    limit: int
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMessages:
    """The messages that answer a query best, of those that pass every filter that is given.

    ``tags`` are all wanted. ``since`` and ``until`` are UTC milliseconds, both included.
    ``before`` and ``after`` are the neighbours to show with each.
    """

    query: str
    limit: int
    max_bytes: int
    mode: SearchMode = "auto"
    session_id: str | None = None
    role: Role | None = None
    memory_kind: MemoryKind | None = None
    memory_tier: MemoryTier | None = None
    tags: tuple[str, ...] = ()
    min_importance: int | None = None
    since: int | None = None
    until: int | None = None
    before: int = 0
    after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFact:
    """Give a key a value, if what is there is as expected.

    ``require_absent`` expects no value; ``expected_value`` and ``expected_revision`` expect the
    present one to be so. ``event_id`` is given by who may have to ask again: the second time
    changes nothing.
    """

    key: str
    value: str
    client_id: str | None = None
    expected_value: str | None = None
    expected_revision: int | None = None
    require_absent: bool = False
    event_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFact:
    """Take a key's value away, if it is as expected. ``purge``: its history as well."""

    key: str
    client_id: str | None = None
    expected_value: str | None = None
    expected_revision: int | None = None
    purge: bool = False
    event_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFact:
    """The value of a key, on demand with what happened to it last."""

    key: str
    include_events: bool
    max_bytes: int
    client_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFacts:
    """One page of the facts whose key begins so, by key."""

    prefix: str
    limit: int
    max_bytes: int
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFactKeys:
    """The keys with a value that begin so."""

    limit: int
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFactHistory:
    """One page of what happened to a key, the newest first; on demand with who read it."""

    key: str
    limit: int
    max_bytes: int
    include_reads: bool = False
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFacts:
    """The facts that answer a query best, of those whose key begins so."""

    query: str
    top_k: int
    max_bytes: int
    prefix: str = ""
    client_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHealth:
    """What the store holds, where, how it was recovered, and what it costs."""


MessageCommand = WriteMessage | UpdateMessage | DeleteMessage
FactCommand = SetFact | DeleteFact
WriteCommand = MessageCommand | FactCommand
Command = WriteCommand | RebuildIndex
MessageQuery = ReadHistory | ReadContent | ReadContext | ReadSessions | ReadExport | ListSessionIds
FactQuery = ReadFact | ListFacts | ListFactKeys | ReadFactHistory | SearchFacts
Query = MessageQuery | SearchMessages | FactQuery | ReadHealth
