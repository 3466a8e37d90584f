"""The export of ChatGPT: ``conversations.json``, whole or in shards, each conversation a tree.

What a person saw is the path from the root to ``current_node``; what was edited away or answered
anew lies beside it, and is taken with ``all_branches`` only.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources import trees
from convmem.transfer.sources.pieces import Piece, json_elements
from convmem.transfer.sources.turns import (
    Conversation,
    Turn,
    derived_id,
    incoming,
    items,
    mapping,
    text_or,
    time_of,
    tool_text,
)

SOURCE = "chatgpt"

# Marks of citations: characters that are of nobody's alphabet, around what they refer to.
_CITATION = re.compile("\ue200[^\ue201]*\ue201?")
_SAID = ("text", "multimodal_text")
_THOUGHTS = ("thoughts", "reasoning_recap", "model_editable_context", "user_editable_context")


def is_conversation(value: dict[str, Any]) -> bool:
    """Whether an element of a file is such a conversation."""
    return isinstance(value.get("mapping"), dict)


class ChatGpt:
    """An export as a source."""

    name = "ChatGPT export"

    def __init__(self, pieces: Sequence[Piece], *, all_branches: bool) -> None:
        self._pieces = pieces
        self._all_branches = all_branches
        self.findings = Findings()
        self.size_bytes = sum(piece.size_bytes for piece in pieces)

    def read(self) -> Iterator[Incoming]:
        """The messages of all conversations."""
        self.findings = Findings()
        seen: set[str] = set()
        for piece in self._pieces:
            for number, value in enumerate(json_elements(piece), 1):
                place = f"{piece.name}, conversation {number}"
                if not isinstance(value, dict) or not is_conversation(value):
                    self.findings.skip(f"elements are no conversations (as {place})")
                elif (id_ := _id_of(value)) in seen:
                    self.findings.skip("conversations are there already, under the same id")
                else:
                    seen.add(id_)
                    yield from self._conversation(value, id_, piece, place)

    def _conversation(
        self, value: dict[str, Any], id_: str, piece: Piece, place: str
    ) -> Iterator[Incoming]:
        nodes = {key: mapping(node) for key, node in value["mapping"].items()}
        parents = {key: text_or(node.get("parent")) for key, node in nodes.items()}
        leaves = trees.leaves(parents)
        current = text_or(value.get("current_node"))
        if current not in nodes:
            current = max(leaves, key=lambda leaf: _time_in(nodes[leaf]) or 0, default="")
            if len(leaves) > 1:
                self.findings.note("conversations do not say which branch is theirs: the newest")
        seen = trees.path_to(current, parents)
        others = len(leaves - {current})
        if others:
            left = "were taken" if self._all_branches else "were left out (--all-branches)"
            self.findings.note(f"other branches {left}", others)
        keys = trees.in_order(parents, [*seen, *nodes]) if self._all_branches else seen
        conversation = Conversation(
            source=SOURCE,
            id=id_,
            title=text_or(value.get("title")) or None,
            time_ms=time_of(value.get("create_time")) or piece.changed_ms,
        )
        yield from incoming(conversation, self._turns(nodes, keys, place), self.findings)

    def _turns(
        self, nodes: dict[str, dict[str, Any]], keys: list[str], place: str
    ) -> Iterator[Turn]:
        before = ""
        for key in keys:
            message = mapping(nodes[key].get("message"))
            if not message:
                continue
            self.findings.read += 1
            parent = text_or(nodes[key].get("parent"))
            follows = parent if before and parent != before else None
            turn = self._turn(message, key, follows, place)
            if turn is not None:
                before = key
                yield turn

    def _turn(
        self, message: dict[str, Any], key: str, follows: str | None, place: str
    ) -> Turn | None:
        author = mapping(message.get("author"))
        content = mapping(message.get("content"))
        kind = text_or(content.get("content_type"), "text")
        role = text_or(author.get("role"))
        if mapping(message.get("metadata")).get("is_visually_hidden_from_conversation"):
            self.findings.skip("messages were hidden from the conversation")
            return None
        if kind in _THOUGHTS:
            self.findings.skip("thoughts of the assistant, or settings")
            return None
        text = self._words(content)
        recipient = text_or(message.get("recipient"), "all")
        if text.strip() and (role == "tool" or recipient != "all" or kind not in _SAID):
            name = text_or(author.get("name"), "a tool") if role == "tool" else recipient
            label = f"answer of {name}" if role == "tool" else f"call of {name}"
            text = tool_text(label if name != "all" else kind, text, self.findings)
        if not text.strip():
            self.findings.skip("messages hold no words")
            return None
        return Turn(
            key=key,
            role={"user": "user", "system": "system"}.get(role, "assistant"),  # type: ignore[arg-type]
            text=text,
            time_ms=time_of(message.get("create_time")),
            follows=follows,
            place=place,
        )

    def _words(self, content: dict[str, Any]) -> str:
        parts = [self._part(part) for part in items(content.get("parts"))]
        own = text_or(content.get("text")) or text_or(content.get("result"))
        text = "\n\n".join(part for part in (own, *parts) if part)
        if "\ue200" in text:
            self.findings.note("held marks of citations, which were left out")
            text = _CITATION.sub("", text)
        return text

    def _part(self, part: object) -> str:
        if isinstance(part, str):
            return part
        value = mapping(part)
        if text_or(value.get("text")):  # what was spoken
            return str(value["text"])
        kind = text_or(value.get("content_type"), "attachment")
        self.findings.note("is a picture, sound or file: a mark stands for it")
        return f"[{kind.removesuffix('_asset_pointer')}]"


def _id_of(value: dict[str, Any]) -> str:
    """The conversation's id, or what stands for it in an export that has none."""
    given = text_or(value.get("id")) or text_or(value.get("conversation_id"))
    return given or derived_id(*sorted(value["mapping"])).hex()


def _time_in(node: dict[str, Any]) -> int | None:
    return time_of(mapping(node.get("message")).get("create_time"))
