"""What the fact tools take and give, declared once; see ``arguments``."""

from dataclasses import dataclass
from typing import Annotated

from convmem import limits
from convmem.protocol import Field

_KEY = Field(
    "The name of the fact, like user/theme; exact and case-sensitive.",
    bytes_min=1,
    bytes_max=limits.FACT_KEY_BYTES_MAX,
)
_CLIENT = Field(
    "Who does this, unless it is the host itself.",
    bytes_min=1,
    bytes_max=limits.CLIENT_ID_BYTES_MAX,
)
_EXPECTED_VALUE = Field(
    "Only if this is the present value. Cannot tell a value that was changed and changed back.",
    bytes_max=limits.FACT_VALUE_BYTES_MAX,
)
_EXPECTED_REVISION = Field("Only if this is the present revision.", minimum=1)
_PREFIX = Field("Only keys that begin with this, exactly so.", bytes_max=limits.FACT_KEY_BYTES_MAX)
_LIMIT = Field(
    f"Most entries of a page, {limits.PAGE_ITEMS_DEFAULT} unless given.",
    minimum=1,
    maximum=limits.PAGE_ITEMS_MAX,
)
_CURSOR = Field(
    "next_cursor of the page before, all else unchanged.",
    bytes_min=1,
    bytes_max=limits.CURSOR_BYTES_MAX,
)
_MAX_BYTES = Field(
    f"Size of the reply as JSON text, {limits.REPLY_BYTES_DEFAULT} unless given.",
    minimum=limits.REPLY_BYTES_MIN,
    maximum=limits.REPLY_BYTES_MAX,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFactArguments:
    """What ``memory_set`` takes."""

    key: Annotated[str, _KEY]
    value: Annotated[
        str, Field("The text; kept byte for byte.", bytes_max=limits.FACT_VALUE_BYTES_MAX)
    ]
    client_id: Annotated[str | None, _CLIENT] = None
    expected_value: Annotated[str | None, _EXPECTED_VALUE] = None
    expected_revision: Annotated[int | None, _EXPECTED_REVISION] = None
    require_absent: Annotated[bool | None, Field("Only if the key has no value.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousValue:
    """What a fact said before."""

    value: Annotated[str, Field("The text.")]
    revision: Annotated[int, Field("Its revision.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFactResult:
    """What ``memory_set`` answers."""

    key: Annotated[str, Field("The key.")]
    revision: Annotated[int, Field("Rises with every set of the key; never used again.")]
    set_at: Annotated[int, Field("When it was set, UTC milliseconds.")]
    previous: Annotated[PreviousValue | None, Field("The value before; absent if none.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetFactArguments:
    """What ``memory_get`` takes."""

    key: Annotated[str, _KEY]
    include_events: Annotated[
        bool | None,
        Field(f"With the last {limits.FACT_EVENTS_SHOWN} things that happened to it."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFactsArguments:
    """What ``memory_list`` takes."""

    prefix: Annotated[str | None, _PREFIX] = None
    limit: Annotated[int | None, _LIMIT] = None
    cursor: Annotated[str | None, _CURSOR] = None
    max_bytes: Annotated[int | None, _MAX_BYTES] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFactArguments:
    """What ``memory_delete`` takes."""

    key: Annotated[str, _KEY]
    client_id: Annotated[str | None, _CLIENT] = None
    expected_value: Annotated[str | None, _EXPECTED_VALUE] = None
    expected_revision: Annotated[int | None, _EXPECTED_REVISION] = None
    purge: Annotated[
        bool | None,
        Field("Its history too; after rebuild_index no trace of it is on disk."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFactResult:
    """What ``memory_delete`` answers."""

    key: Annotated[str, Field("The key.")]
    revision: Annotated[int, Field("That of the value that was there; 0 if none was.")]
    purged: Annotated[bool, Field("Whether its history is gone too.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFactsArguments:
    """What ``memory_search`` takes."""

    query: Annotated[str, Field("A question or a few words.", bytes_max=limits.QUERY_BYTES_MAX)]
    top_k: Annotated[
        int | None,
        Field(
            f"Most facts, {limits.FACTS_FOUND_DEFAULT} unless given.",
            minimum=1,
            maximum=limits.FACTS_FOUND_MAX,
        ),
    ] = None
    prefix: Annotated[str | None, _PREFIX] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactHistoryArguments:
    """What ``memory_history`` takes."""

    key: Annotated[str, _KEY]
    include_reads: Annotated[
        bool | None, Field("With who read it lately, and the searches it won.")
    ] = None
    limit: Annotated[int | None, _LIMIT] = None
    cursor: Annotated[str | None, _CURSOR] = None
    max_bytes: Annotated[int | None, _MAX_BYTES] = None
