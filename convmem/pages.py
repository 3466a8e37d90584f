"""What a reply is made of: messages as JSON objects, excerpts, and a budget of bytes.

A reply's size is that of its compact JSON text in UTF-8, which is what a model reads.
"""

import json
from collections.abc import Callable
from enum import Enum, auto
from typing import Generic, TypeVar

from convmem import ids
from convmem.limits import ENVELOPE_BYTES, EXCERPT_BYTES
from convmem.message import Message, Metadata
from convmem.operations import JsonObject

Item = TypeVar("Item", JsonObject, str)


class Detail(Enum):
    """How much of a message is shown, most first."""

    WHOLE = auto()
    EXCERPT = auto()  # the start of its content, all of its metadata
    LABELS = auto()  # the start of its content, and of its metadata what is a word or a number


class Page(Generic[Item]):
    """The items of one reply: at least one, and as many as its budget and limit take."""

    def __init__(self, max_bytes: int, limit: int | None = None) -> None:
        self.items: list[Item] = []
        self._limit = limit
        self._budget = max_bytes - ENVELOPE_BYTES
        self._left = self._budget

    @property
    def full(self) -> bool:
        """Whether the limit of items is reached."""
        return self._limit is not None and len(self.items) >= self._limit

    def add(self, item: Item) -> bool:
        """Take an item in, or leave it to the next page and return False."""
        return self._take_in(item, json_bytes(item))

    def add_detailed(self, item: Callable[[Detail], Item]) -> bool:
        """Take an item in with the most detail that would fit on an empty page, or leave it."""
        for detail in Detail:
            detailed = item(detail)
            size = json_bytes(detailed)
            if size <= self._budget:
                break
        return self._take_in(detailed, size)

    def reserve(self, value: object) -> bool:
        """Set aside what a value takes beside the items; False if so much is not left."""
        size = json_bytes(value)
        if self._left < size:
            return False
        self._left -= size
        return True

    def _take_in(self, item: Item, size: int) -> bool:
        if self.items and self._left < size:
            return False
        self._left -= size
        self.items.append(item)
        return True


def add_message(page: Page[JsonObject], message: Message) -> bool:
    """Take a message in, or leave it to the next page. On its own page it may be shortened."""
    return page.add_detailed(lambda detail: message_item(message, detail))


# Made once: ``json.dumps`` makes one for each call, which takes longer than a small item.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def json_bytes(value: object) -> int:
    """Size of a value as compact JSON text in UTF-8, with the comma that follows it."""
    text = _ENCODER.encode(value)
    return (len(text) if text.isascii() else len(text.encode())) + 1


def message_item(message: Message, detail: Detail = Detail.WHOLE) -> JsonObject:
    """A message as a reply shows it. What is cut is marked, with the size of the whole."""
    whole = detail is Detail.WHOLE
    item: JsonObject = {
        "message_id": ids.to_text(message.message_id),
        "session_id": message.session_id,
        "timestamp": message.timestamp,
        "updated_at": message.updated_at,
        "revision": message.revision,
        "role": message.role,
        "content": message.content if whole else excerpt(message.content),
    }
    if not whole:
        item["content_bytes"] = len(message.content.encode())
        item["content_truncated"] = True
    if detail is Detail.LABELS:
        item["metadata"] = metadata_item(_labels(message.metadata))
        item["metadata_truncated"] = True
    else:
        item["metadata"] = metadata_item(message.metadata)
    if message.written_by is not None:
        item["written_by"] = message.written_by
    return item


def metadata_item(metadata: Metadata) -> JsonObject:
    """Metadata as a reply shows it: the kind always, the rest where it is set."""
    relations = [
        {"type": relation.type, "message_id": ids.to_text(relation.message_id)}
        for relation in metadata.relations
    ]
    sources = [ids.to_text(source) for source in metadata.source_message_ids]
    item: JsonObject = {
        "tool_call_id": metadata.tool_call_id,
        "tags": list(metadata.tags) or None,
        "memory_tier": metadata.memory_tier,
        "memory_kind": metadata.memory_kind,
        "importance": metadata.importance or None,
        "summary": metadata.summary,
        "relations": relations or None,
        "source_message_ids": sources or None,
    }
    return {name: value for name, value in item.items() if value is not None}


def _labels(metadata: Metadata) -> Metadata:
    """Of metadata what is never long."""
    return Metadata(
        memory_tier=metadata.memory_tier,
        memory_kind=metadata.memory_kind,
        importance=metadata.importance,
    )


def excerpt(text: str) -> str:
    """The first bytes of a text, cut at a code point."""
    return text.encode()[:EXCERPT_BYTES].decode(errors="ignore")
