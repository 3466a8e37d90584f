"""Hypothesis strategies for what the domain holds, up to its limits."""

from hypothesis import strategies as st

from convmem import limits
from convmem.message import KINDS, ROLES, TIERS, Message, Metadata, Relation

# Any code point but surrogates: NUL, combining marks, right-to-left and emoji included.
any_text = st.text(st.characters(exclude_categories=["Cs"]))


def text_of(bytes_max: int, *, bytes_min: int = 0) -> st.SearchStrategy[str]:
    """Texts whose UTF-8 fits the limits."""
    return any_text.filter(lambda text: bytes_min <= len(text.encode()) <= bytes_max)


message_ids = st.binary(min_size=16, max_size=16)
times_ms = st.integers(0, 2**48 - 1)
relations = st.builds(
    Relation, type=st.from_regex("[a-z][a-z0-9_]{0,20}", fullmatch=True), message_id=message_ids
)
metadata = st.builds(
    Metadata,
    tool_call_id=st.none() | text_of(limits.TOOL_CALL_ID_BYTES_MAX, bytes_min=1),
    tags=st.lists(text_of(limits.TAG_BYTES_MAX, bytes_min=1), max_size=4, unique=True).map(tuple),
    memory_tier=st.none() | st.sampled_from(TIERS),
    memory_kind=st.sampled_from(KINDS),
    importance=st.integers(0, limits.IMPORTANCE_MAX),
    summary=st.none() | text_of(limits.SUMMARY_BYTES_MAX),
    relations=st.lists(relations, max_size=3).map(tuple),
    source_message_ids=st.lists(message_ids, max_size=3).map(tuple),
)
messages = st.builds(
    Message,
    message_id=message_ids,
    session_id=text_of(limits.SESSION_ID_BYTES_MAX, bytes_min=1),
    timestamp=times_ms,
    updated_at=times_ms,
    revision=st.integers(1, 2**31 - 1),
    role=st.sampled_from(ROLES),
    content=any_text,
    metadata=st.just(Metadata()) | metadata,
    written_by=st.none() | text_of(limits.CLIENT_ID_BYTES_MAX, bytes_min=1),
)
