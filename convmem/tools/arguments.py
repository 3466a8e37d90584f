"""What the message tools take and give, declared once.

The JSON Schemas that hosts see, the checks, and the argument objects all follow from these.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from convmem import limits
from convmem.message import MemoryKind, MemoryTier, Role
from convmem.operations import Order, SearchMode
from convmem.protocol import Field

View = Literal["history", "content", "context", "sessions", "export"]
Clearable = Literal[
    "tool_call_id",
    "tags",
    "memory_tier",
    "memory_kind",
    "importance",
    "summary",
    "relations",
    "source_message_ids",
]

_ID = Field(
    "Message id, as a result gave it.",
    bytes_min=limits.MESSAGE_ID_BYTES,
    bytes_max=limits.MESSAGE_ID_BYTES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationArguments:
    """A relation of a message to another."""

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
    """What is known of a message beside its text."""

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
    memory_kind: Annotated[
        MemoryKind | None, Field("What sort of memory this is; conversation unless given.")
    ] = None
    importance: Annotated[
        int | None,
        Field("0 (unless given) to 100; breaks ties.", minimum=0, maximum=limits.IMPORTANCE_MAX),
    ] = None
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
    """What ``write_message`` takes."""

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
    """What ``write_message`` answers."""

    message_id: Annotated[str, Field("The id to refer to it by.")]
    timestamp: Annotated[int, Field("When it was stored, UTC milliseconds.")]
    revision: Annotated[int, Field("1 for a new message.")]
    created: Annotated[bool, Field("False if the same message was there already.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMessageArguments:
    """What ``update_message`` takes."""

    message_id: Annotated[str, _ID]
    expected_revision: Annotated[
        int, Field("The revision you read; refused if it changed since.", minimum=1)
    ]
    content: Annotated[
        str | None, Field("The new text, whole.", bytes_max=limits.CONTENT_BYTES_MAX)
    ] = None
    metadata: Annotated[
        MetadataArguments | None, Field("The fields to change; a list replaces the list before.")
    ] = None
    clear: Annotated[
        tuple[Annotated[Clearable, Field("A field of metadata.")], ...] | None,
        Field(
            "Fields to put back to what they are when not given.",
            items_max=len(get_args(Clearable)),
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMessageResult:
    """What ``update_message`` answers."""

    message_id: Annotated[str, Field("The message.")]
    revision: Annotated[int, Field("Its revision now.")]
    updated_at: Annotated[int, Field("When it last changed, UTC milliseconds.")]
    changed: Annotated[
        tuple[Annotated[str, Field("A field.")], ...],
        Field("The fields that changed; none if all was so already."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMessageArguments:
    """What ``delete_message`` takes."""

    message_id: Annotated[str, _ID]
    session_id: Annotated[
        str | None,
        Field(
            "A guard: refused if the message is in another session.",
            bytes_min=1,
            bytes_max=limits.SESSION_ID_BYTES_MAX,
        ),
    ] = None
    expected_revision: Annotated[
        int | None, Field("A guard: refused if the message changed since.", minimum=1)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMessageResult:
    """What ``delete_message`` answers."""

    message_id: Annotated[str, Field("The message that is gone.")]
    revision: Annotated[int, Field("The last revision it had.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildIndexResult:
    """What ``rebuild_index`` answers."""

    rebuilt: Annotated[bool, Field("False if nothing was dead and nothing was written.")]
    live: Annotated[int, Field("Messages in the store.")]
    bytes_before: Annotated[int, Field("Size of the log before.")]
    bytes_after: Annotated[int, Field("Size of the log now.")]
    dropped_links: Annotated[int, Field("Ids of gone messages that links pointed to.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessagesArguments:
    """What ``read_messages`` takes."""

    view: Annotated[
        View,
        Field(
            "history: the messages of a session. content: one long message in windows. "
            "context: a message with its neighbours and links. sessions: the sessions there "
            "are. export: everything, as lines of JSON."
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
            "content, context (required): the message.",
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
    before: Annotated[
        int | None,
        Field(
            f"context: messages before it, {limits.NEIGHBOURS_DEFAULT} unless given.",
            minimum=0,
            maximum=limits.NEIGHBOURS_MAX,
        ),
    ] = None
    after: Annotated[
        int | None,
        Field(
            f"context: messages after it, {limits.NEIGHBOURS_DEFAULT} unless given.",
            minimum=0,
            maximum=limits.NEIGHBOURS_MAX,
        ),
    ] = None
    relation_depth: Annotated[
        int | None,
        Field(
            f"context: links to follow, both ways, {limits.RELATION_DEPTH_DEFAULT} unless given.",
            minimum=0,
            maximum=limits.RELATION_DEPTH_MAX,
        ),
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
            f"history, sessions, export: most items, {limits.PAGE_ITEMS_DEFAULT} unless given, "
            f"up to {limits.PAGE_ITEMS_MAX}. content: bytes of the window, "
            f"{limits.WINDOW_BYTES_DEFAULT} unless given.",
            minimum=1,
            maximum=limits.WINDOW_BYTES_MAX,
        ),
    ] = None
    cursor: Annotated[
        str | None,
        Field(
            "history, sessions, export: next_cursor of the page before, all else unchanged.",
            bytes_min=1,
            bytes_max=limits.CURSOR_BYTES_MAX,
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        Field(
            "all but content: size of the reply as JSON text, "
            f"{limits.REPLY_BYTES_DEFAULT} unless given.",
            minimum=limits.REPLY_BYTES_MIN,
            maximum=limits.REPLY_BYTES_MAX,
        ),
    ] = None


_TIME = "a time with its offset, like 2026-03-01T09:00:00+09:00, or UTC milliseconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMessagesArguments:
    """What ``search_messages`` takes."""

    query: Annotated[
        str,
        Field(
            "A question, a few words, part of a word or a phrase, in any language. Blank finds "
            "all that pass the filters.",
            bytes_max=limits.QUERY_BYTES_MAX,
        ),
    ]
    session_id: Annotated[
        str | None,
        Field("Only this session.", bytes_min=1, bytes_max=limits.SESSION_ID_BYTES_MAX),
    ] = None
    role: Annotated[Role | None, Field("Only what this one said.")] = None
    memory_kind: Annotated[MemoryKind | None, Field("Only memories of this sort.")] = None
    memory_tier: Annotated[MemoryTier | None, Field("Only memories of this tier.")] = None
    tags: Annotated[
        tuple[
            Annotated[str, Field("A tag.", bytes_min=1, bytes_max=limits.TAG_BYTES_MAX)],
            ...,
        ]
        | None,
        Field("Only messages with all of these, exactly so.", items_max=limits.TAGS_MAX),
    ] = None
    min_importance: Annotated[
        int | None,
        Field("Only messages of at least this.", minimum=0, maximum=limits.IMPORTANCE_MAX),
    ] = None
    since: Annotated[
        str | None, Field(f"Only messages written then or later: {_TIME}.", takes_integer=True)
    ] = None
    until: Annotated[
        str | None, Field(f"Only messages written then or earlier: {_TIME}.", takes_integer=True)
    ] = None
    limit: Annotated[
        int | None,
        Field(
            f"Most results, {limits.SEARCH_RESULTS_DEFAULT} unless given.",
            minimum=1,
            maximum=limits.PAGE_ITEMS_MAX,
        ),
    ] = None
    before: Annotated[
        int | None,
        Field("Messages before each to show with it.", minimum=0, maximum=limits.NEIGHBOURS_MAX),
    ] = None
    after: Annotated[
        int | None,
        Field("Messages after each to show with it.", minimum=0, maximum=limits.NEIGHBOURS_MAX),
    ] = None
    mode: Annotated[
        SearchMode | None, Field("auto unless given: the best this installation can do.")
    ] = None
    max_bytes: Annotated[
        int | None,
        Field(
            f"Size of the reply as JSON text, {limits.REPLY_BYTES_DEFAULT} unless given.",
            minimum=limits.REPLY_BYTES_MIN,
            maximum=limits.REPLY_BYTES_MAX,
        ),
    ] = None
