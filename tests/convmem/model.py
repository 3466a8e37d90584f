"""What a dictionary of messages would answer: the model that the tools are compared with.

A model maps message ids to messages as replies show them, in the order of writing.
"""

from typing import Any

Message = dict[str, Any]
Model = dict[str, Message]


def links_of(message: Message) -> list[str]:
    """The ids that a message points to, relations first."""
    metadata = message["metadata"]
    related = [relation["message_id"] for relation in metadata.get("relations", [])]
    return [*related, *metadata.get("source_message_ids", [])]


def drop_dangling_links(model: Model, now_ms: int) -> None:
    """What a rebuild does."""
    for message in model.values():
        if any(link not in model for link in links_of(message)):
            message["revision"] += 1
            message["updated_at"] = now_ms
        metadata = message["metadata"]
        kept = {
            "relations": [
                link for link in metadata.get("relations", []) if link["message_id"] in model
            ],
            "source_message_ids": [
                source for source in metadata.get("source_message_ids", []) if source in model
            ],
        }
        for name, links in kept.items():
            if links:
                metadata[name] = links
            else:
                metadata.pop(name, None)


def changed(message: Message, content: str | None, metadata: Message, clear: list[str]) -> Message:
    """The message as an update leaves it, but for revision and time."""
    wanted = message | {"metadata": message["metadata"] | metadata}
    for name in clear:
        wanted["metadata"].pop(name, None)
    wanted["metadata"].setdefault("memory_kind", "conversation")
    if content is not None:
        wanted["content"] = content
    return wanted


def history(model: Model, session_id: str) -> list[Message]:
    """The messages of a session, oldest first."""
    return [message for message in model.values() if message["session_id"] == session_id]


def reached(model: Model, start: str, depth_max: int) -> dict[str, int]:
    """The ids that links lead to and from, each with its distance; some may be gone."""
    distances = {start: 0}
    for depth in range(1, depth_max + 1):
        for near in [id_ for id_, distance in distances.items() if distance == depth - 1]:
            if near not in model:
                continue
            incoming = [id_ for id_, message in model.items() if near in links_of(message)]
            for id_ in [*links_of(model[near]), *incoming]:
                distances.setdefault(id_, depth)
    del distances[start]
    return distances
