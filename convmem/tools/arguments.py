"""What the message tools take and give, declared once.

The JSON Schemas that hosts see, the checks, and the argument objects all follow from these.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from convmem import limits
from convmem.message import MemoryKind, MemoryTier, Role
from convmem.operations import Order
from convmem.protocol import Field

View = Literal["history", "content", "sessions"]

_ID = Field(
    "Message id, as a result gave it.",
    bytes_min=limits.MESSAGE_ID_BYTES,
    bytes_max=limits.MESSAGE_ID_BYTES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationArguments:
    type: Annotated[
        str,
        Field(
            "What the link means, like derived_from: a lower-case word, digits and _ allowed.",
            bytes_min=1,
            bytes_max=limits.RELATION_TYPE_BYTES_MAX,
        ),
    ]
    message_id: Annotated[str, _ID]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataArguments:
    tool_call_id: Annotated[
        str | None,
        Field(
            "The tool call this message belongs to.",
            bytes_min=1,
            bytes_max=limits.TOOL_CALL_ID_BYTES_MAX,
            allow_nul=False,
        ),
    ] = None
    tags: Annotated[
        tuple[
            Annotated[str, Field("A tag.", bytes_min=1, bytes_max=limits.TAG_BYTES_MAX)],
            ...,
        ]
        | None,
        Field("Labels, exact and case-sensitive, each once.", items_max=limits.TAGS_MAX),
    ] = None
    memory_tier: Annotated[
        MemoryTier | None, Field("How long it is meant to matter; a label only.")
    ] = None
    memory_kind: Annotated[MemoryKind, Field("What sort of memory this is.")] = "conversation"
    importance: Annotated[
        int,
        Field("0 to 100; breaks ties in search.", minimum=0, maximum=limits.IMPORTANCE_MAX),
    ] = 0
    summary: Annotated[
        str | None, Field("The message in a few words.", bytes_max=limits.SUMMARY_BYTES_MAX)
    ] = None
    relations: Annotated[
        tuple[Annotated[RelationArguments, Field("A link.")], ...] | None,
        Field("Typed links to stored messages.", items_max=limits.RELATIONS_MAX),
    ] = None
    source_message_ids: Annotated[
        tuple[Annotated[str, _ID], ...] | None,
        Field("The stored messages that a summary covers.", items_max=limits.SOURCES_MAX),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMessageArguments:
    session_id: Annotated[
        str,
        Field(
            "The conversation it belongs to; any name, the same for all of its messages.",
            bytes_min=1,
            bytes_max=limits.SESSION_ID_BYTES_MAX,
            allow_nul=False,
        ),
    ]
    role: Annotated[Role, Field("Who said it.")]
    content: Annotated[
        str,
        Field("The full text; kept byte for byte.", bytes_max=limits.CONTENT_BYTES_MAX),
    ]
    metadata: Annotated[MetadataArguments | None, Field("What is known about it.")] = None
    message_id: Annotated[
        str | None,
        Field(
            "A ULID of your own, to make a repeated call harmless. Normally left out.",
            bytes_min=limits.MESSAGE_ID_BYTES,
            bytes_max=limits.MESSAGE_ID_BYTES,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMessageResult:
    message_id: Annotated[str, Field("The id to refer to it by.")]
    timestamp: Annotated[int, Field("When it was stored, UTC milliseconds.")]
    revision: Annotated[int, Field("1 for a new message.")]
    created: Annotated[bool, Field("False if the same message was there already.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessagesArguments:
    view: Annotated[
        View,
        Field(
            "history: the messages of a session. content: one long message in windows. "
            "sessions: the sessions there are."
        ),
    ]
    session_id: Annotated[
        str | None,
        Field(
            "history (required): the session.",
            bytes_min=1,
            bytes_max=limits.SESSION_ID_BYTES_MAX,
        ),
    ] = None
    order: Annotated[
        Order | None, Field("history: newest_first (the default) or oldest_first.")
    ] = None
    message_id: Annotated[
        str | None,
        Field(
            "content (required): the message.",
            bytes_min=limits.MESSAGE_ID_BYTES,
            bytes_max=limits.MESSAGE_ID_BYTES,
        ),
    ] = None
    offset: Annotated[
        int | None,
        Field("content: first byte, 0 or a next_offset.", minimum=0),
    ] = None
    expected_revision: Annotated[
        int | None,
        Field("content: refuse if the message changed since that revision.", minimum=1),
    ] = None
    prefix: Annotated[
        str | None,
        Field(
            "sessions: only ids that begin so.", bytes_min=1, bytes_max=limits.SESSION_ID_BYTES_MAX
        ),
    ] = None
    limit: Annotated[
        int | None,
        Field(
            f"history, sessions: most items, {limits.PAGE_ITEMS_DEFAULT} unless given, up to "
            f"{limits.PAGE_ITEMS_MAX}. content: bytes of the window, "
            f"{limits.WINDOW_BYTES_DEFAULT} unless given.",
            minimum=1,
            maximum=limits.WINDOW_BYTES_MAX,
        ),
    ] = None
    cursor: Annotated[
        str | None,
        Field(
            "history, sessions: next_cursor of the page before, all else unchanged.",
            bytes_min=1,
            bytes_max=limits.CURSOR_BYTES_MAX,
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        Field(
            "history, sessions: size of the reply as JSON text, "
            f"{limits.REPLY_BYTES_DEFAULT} unless given.",
            minimum=limits.REPLY_BYTES_MIN,
            maximum=limits.REPLY_BYTES_MAX,
        ),
    ] = None
