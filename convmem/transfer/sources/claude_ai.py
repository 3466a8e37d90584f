"""The export of Claude.ai: ``conversations.json``, as it is or in its zip."""

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

SOURCE = "claude-ai"


def is_conversation(value: dict[str, Any]) -> bool:
    """Whether an element of a file is such a conversation."""
    messages = value.get("chat_messages", value.get("messages"))
    return isinstance(messages, list) and ("uuid" in value or "chat_messages" in value)


class ClaudeAi:
    """An export as a source."""

    name = "Claude.ai export"

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
                    continue
                messages = self._messages(value)
                id_ = text_or(value.get("uuid")) or derived_id(*messages).hex()
                if id_ in seen:
                    self.findings.skip("conversations are there already, under the same id")
                    continue
                seen.add(id_)
                conversation = Conversation(
                    source=SOURCE,
                    id=id_,
                    title=text_or(value.get("name")) or text_or(value.get("summary")) or None,
                    time_ms=time_of(value.get("created_at")) or piece.changed_ms,
                )
                turns = self._turns(messages, self._path(value, messages), place)
                yield from incoming(conversation, turns, self.findings)

    def _messages(self, value: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The messages by id, in the order of the file."""
        given = items(value.get("chat_messages", value.get("messages")))
        return {
            text_or(message.get("uuid"), f"message {number}"): message
            for number, message in enumerate(map(mapping, given), 1)
        }

    def _path(self, value: dict[str, Any], messages: dict[str, dict[str, Any]]) -> list[str]:
        """The ids of the messages to take, in order."""
        parents = {key: text_or(each.get("parent_message_uuid")) for key, each in messages.items()}
        if not any(parent in messages for parent in parents.values()):
            return list(messages)  # an older export: a line, not a tree
        leaf = text_or(value.get("current_leaf_message_uuid"))
        leaf = leaf if leaf in messages else list(messages)[-1]
        others = len(trees.leaves(parents) - {leaf})
        if others:
            left = "were taken" if self._all_branches else "were left out (--all-branches)"
            self.findings.note(f"other branches {left}", others)
        seen = trees.path_to(leaf, parents)
        return trees.in_order(parents, [*seen, *messages]) if self._all_branches else seen

    def _turns(
        self, messages: dict[str, dict[str, Any]], keys: list[str], place: str
    ) -> Iterator[Turn]:
        before = ""
        for key in keys:
            message = messages[key]
            self.findings.read += 1
            text = self._words(message)
            if not text.strip():
                self.findings.skip("messages hold no words")
                continue
            parent = text_or(message.get("parent_message_uuid"))
            is_human = message.get("sender", message.get("role")) in ("human", "user")
            yield Turn(
                key=key,
                role="user" if is_human else "assistant",
                text=text,
                time_ms=time_of(message.get("created_at")),
                follows=parent if before and parent in messages and parent != before else None,
                place=place,
            )
            before = key

    def _words(self, message: dict[str, Any]) -> str:
        blocks = [self._block(mapping(block)) for block in items(message.get("content"))]
        said = "\n\n".join(block for block in blocks if block)
        texts = [said or text_or(message.get("text"))]
        for attachment in map(mapping, items(message.get("attachments"))):
            name = text_or(attachment.get("file_name"), "without a name")
            texts.append(f"[attachment {name}]\n{text_or(attachment.get('extracted_content'))}")
        for file in map(mapping, items(message.get("files"))):
            self.findings.note("is a picture, sound or file: a mark stands for it")
            texts.append(f"[file {text_or(file.get('file_name'), 'without a name')}]")
        return "\n\n".join(text for text in texts if text)

    def _block(self, block: dict[str, Any]) -> str:
        match block.get("type"):
            case "text" | "voice_note":
                return text_or(block.get("text"))
            case "thinking" | "redacted_thinking":
                self.findings.skip("thoughts of the assistant")
                return ""
            case "tool_use":
                label = f"call of {text_or(block.get('name'), 'a tool')}"
                return tool_text(label, block.get("input"), self.findings)
            case "tool_result":
                label = f"answer of {text_or(block.get('name'), 'a tool')}"
                return tool_text(label, _result(block.get("content")), self.findings)
            case other:
                self.findings.skip(f"blocks of the kind {other!r}")
                return ""


def _result(content: object) -> object:
    if isinstance(content, list):
        return "\n".join(text_or(mapping(each).get("text")) for each in content)
    return content
