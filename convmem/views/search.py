"""The answer to a search: the best messages with what each was found by, and what was searched.

Filters decide first, on the columns, then the ranking. A message is scored the same whatever
the filters leave out.
"""

import difflib
from typing import assert_never

from convmem.indexer import document_of
from convmem.limits import (
    EXCERPT_BYTES,
    FILTERS_BYTES_MAX,
    NEAR_SESSIONS_MAX,
    SESSIONS_COMPARED_MAX,
)
from convmem.message import Message
from convmem.operations import JsonObject, SearchMessages
from convmem.pages import Detail, Page, json_bytes, message_item
from convmem.search import Columns, Field, Found, Hit, SearchIndex
from convmem.semantic import Meaning
from convmem.state import State
from convmem.state.filters import passing
from convmem.state.overview import live_messages
from convmem.views.rows import matched_by, neighbour_rows

_FILTERS = (
    "session_id",
    "role",
    "memory_kind",
    "memory_tier",
    "tags",
    "min_importance",
    "since",
    "until",
)
_DECIMALS = 4


def search(state: State, index: SearchIndex, query: SearchMessages, meaning: Meaning) -> JsonObject:
    """The best messages, from the index of the state, which is up to date, and the meaning."""
    allowed = passing(state.messages, state.sessions, query)
    for tag in query.tags:
        allowed &= index.rows_with_tag(tag)
    found = index.find(
        query.query,
        columns=_columns(state),
        allowed=allowed,
        limit=query.limit,
        read=lambda row: document_of(row, state.message(row)),
        cosines=meaning.of_messages(len(state.messages)),
        by_words=meaning.by_words,
    )
    page: Page[JsonObject] = Page(query.max_bytes)
    reply: JsonObject = {
        "results": page.items,
        "total": found.total,
        **meaning.told,
        "searched": found.searched,
        "filters": _filters(query),
    }
    if query.session_id is not None and not len(state.live_rows_of(query.session_id)):
        near = _near_sessions(state, query.session_id)
        reply["near_session_ids"] = [name for name in near if page.reserve(name)]
    for hit in found.hits:
        if not _add(page, state, query, found, hit):
            reply["left_out"] = len(found.hits) - len(page.items)
            break
    return reply


def _add(
    page: Page[JsonObject], state: State, query: SearchMessages, found: Found, hit: Hit
) -> bool:
    """Take a result in, or leave it out. On its own page it may be shortened."""
    message = state.message(hit.row)
    matched = _matched(message, found, hit)
    around = _neighbours(state, hit.row, query)
    left_out = {f"{side}_left_out": len(items) for side, items in around.items() if items}

    def item(detail: Detail) -> JsonObject:
        match detail:
            case Detail.WHOLE:
                return _short_item(message) | matched | around
            case Detail.EXCERPT:
                return _short_item(message) | matched | left_out
            case Detail.LABELS:
                return message_item(message, detail) | matched | left_out | {"content": ""}
            case _:
                assert_never(detail)

    return page.add_detailed(item)


def _filters(query: SearchMessages) -> JsonObject:
    """The filters that were given, as they were understood; only their names if that is long."""
    given = {name: getattr(query, name) for name in _FILTERS}
    given["tags"] = list(query.tags) or None
    told = {name: value for name, value in given.items() if value is not None}
    return told if json_bytes(told) <= FILTERS_BYTES_MAX else dict.fromkeys(told, "given")


def _columns(state: State) -> Columns:
    messages = state.messages
    return Columns(
        sessions=messages.column("session"),
        importance=messages.column("importance"),
        timestamps=messages.column("timestamp"),
        content_bytes=messages.column("content_bytes"),
        ids=(messages.column("id_high"), messages.column("id_low")),
    )


def _matched(message: Message, found: Found, hit: Hit) -> JsonObject:
    """What a message was found by: its scores, and the place of the best match."""
    texts = _texts(message)
    holding = [field for field in texts if hit.holds_query and found.is_held_by(texts[field])]
    best = max(hit.fields, key=lambda field: hit.fields[field], default=Field.CONTENT)
    shown = holding[0] if holding else best
    text = "\n".join(texts[shown])
    cut, offset = found.excerpt(text, EXCERPT_BYTES)
    scores = {field: round(score, _DECIMALS) for field, score in hit.fields.items()}
    matched = [field.label for field in texts if field in holding or field in hit.fields]
    return {
        "score": round(hit.score, _DECIMALS),
        "scores": {field.label: score for field, score in scores.items()}
        | {"context": round(hit.context, _DECIMALS)},
        "holds_query": hit.holds_query,
        **matched_by(hit),
        "matched_fields": matched,
        "excerpt": cut,
        "excerpt_field": shown.label,
        "excerpt_offset": offset,
    }


def _texts(message: Message) -> dict[Field, list[str]]:
    """The texts of a message by the field they stand in."""
    metadata = message.metadata
    return {
        Field.CONTENT: [message.content],
        Field.SUMMARY: [metadata.summary or ""],
        Field.TAGS: list(metadata.tags),
    }


def _neighbours(state: State, row: int, query: SearchMessages) -> dict[str, list[JsonObject]]:
    """What was said right before and after, where that is asked for; long texts cut."""
    if not query.before and not query.after:
        return {}
    before, after = neighbour_rows(state, row, query.before, query.after)
    return {"before": _shown(state, before), "after": _shown(state, after)}


def _shown(state: State, rows: list[int]) -> list[JsonObject]:
    return [_short_item(state.message(row)) for row in rows]


def _short_item(message: Message) -> JsonObject:
    is_short = len(message.content.encode()) <= EXCERPT_BYTES
    return message_item(message, Detail.WHOLE if is_short else Detail.EXCERPT)


def _near_sessions(state: State, unknown: str) -> list[str]:
    """The names of sessions that are spelled much like an unknown one."""
    live = live_messages(state.messages, len(state.sessions))
    newest = live.nonzero()[0][::-1][:SESSIONS_COMPARED_MAX].tolist()
    names = {state.sessions.name(session).casefold(): session for session in reversed(newest)}
    near = difflib.get_close_matches(unknown.casefold(), names, NEAR_SESSIONS_MAX)
    return [state.sessions.name(names[name]) for name in near]
