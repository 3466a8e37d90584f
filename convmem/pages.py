"""What a reply is made of: messages as JSON objects, excerpts, and a budget of bytes.

A reply's size is that of its compact JSON text in UTF-8, which is what a model reads.
"""

import json
from collections.abc import Callable
from typing import Generic, TypeVar

from convmem import ids
from convmem.limits import ENVELOPE_BYTES, EXCERPT_BYTES
from convmem.message import Message, Metadata
from convmem.operations import JsonObject

Item = TypeVar("Item", JsonObject, str)


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

    def add(self, item: Item, shorten: Callable[[], Item] | None = None) -> bool:
        """Take an item in, or leave it to the next page and return False.

        An item that would not fit on an empty page is taken as ``shorten`` gives it.
        """
        size = json_bytes(item)
        if self._budget < size and shorten is not None:
            item = shorten()
            size = json_bytes(item)
        if self.items and self._left < size:
            return False
        self._left -= size
        self.items.append(item)
        return True


def add_message(page: Page[JsonObject], message: Message) -> bool:
    """Take a message in, or leave it to the next page. On its own page it may be shortened."""
    return page.add(message_item(message), lambda: message_item(message, whole=False))


def json_bytes(value: object) -> int:
    """Size of a value as compact JSON text in UTF-8, with the comma that follows it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (len(text) if text.isascii() else len(text.encode())) + 1


def message_item(message: Message, *, whole: bool = True) -> JsonObject:
    """A message as a reply shows it. ``whole=False`` gives the start of its content only."""
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


def excerpt(text: str) -> str:
    """The first bytes of a text, cut at a code point."""
    return text.encode()[:EXCERPT_BYTES].decode(errors="ignore")
