"""Sessions of Codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl``.

A turn stands there twice, as an item of the conversation and as an event of the program: the
items count, and the events only in a session that has no items with words.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from convmem.message import Role
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources.pieces import Piece, json_lines
from convmem.transfer.sources.turns import (
    Conversation,
    Turn,
    incoming,
    items,
    mapping,
    text_or,
    time_of,
    tool_text,
)

SOURCE = "codex"

_KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
_ENVELOPES = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_context>",
    "<permissions instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
)


def is_line(line: dict[str, Any]) -> bool:
    """Whether an object is a line of such a session."""
    return line.get("type") in _KINDS and isinstance(line.get("payload"), dict)


class Codex:
    """A session, or a folder of them, as a source."""

    name = "Codex sessions"

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self.findings = Findings()
        self.size_bytes = sum(piece.size_bytes for piece in pieces)

    def read(self) -> Iterator[Incoming]:
        """The messages of all sessions."""
        self.findings = Findings()
        for piece in self._pieces:
            conversation, has_items = self._survey(piece)
            turns = self._turns(piece, has_items)
            yield from incoming(conversation, turns, self.findings)

    def _survey(self, piece: Piece) -> tuple[Conversation, bool]:
        """Whose session a file is, and whether its items hold words."""
        id_, has_items = "", False
        for _, line in json_lines(piece, Findings()):
            payload = mapping(line.get("payload"))
            if line.get("type") == "session_meta":
                id_ = id_ or text_or(payload.get("id"))
            has_items = has_items or (
                line.get("type") == "response_item" and payload.get("type") == "message"
            )
        id_ = id_ or piece.name.rpartition("/")[2]
        conversation = Conversation(source=SOURCE, id=id_, title=None, time_ms=piece.changed_ms)
        return conversation, has_items

    def _turns(self, piece: Piece, has_items: bool) -> Iterator[Turn]:
        for number, line in json_lines(piece, self.findings):
            kind, payload = line.get("type"), mapping(line.get("payload"))
            if kind not in ("response_item", "event_msg"):
                self.findings.skip(f"lines of the kind {kind!r} are no messages")
                continue
            found = self._item(payload) if kind == "response_item" else self._event(payload)
            if kind == "event_msg" and has_items:
                continue  # said already, by an item
            self.findings.read += 1
            if found is None:
                continue
            role, text, call = found
            yield Turn(
                key=f"line {number}",  # a session is only added to
                role=role,
                text=text,
                time_ms=time_of(line.get("timestamp")),
                tool_call_id=call,
                place=f"{piece.name}, line {number}",
            )

    def _item(self, payload: dict[str, Any]) -> tuple[Role, str, str | None] | None:
        """Who said it, what, and of which call."""
        call = text_or(payload.get("call_id")) or None
        match payload.get("type"):
            case "message":
                return self._message(payload)
            case "function_call" | "custom_tool_call" | "local_shell_call":
                asked = payload.get("arguments", payload.get("input", payload.get("action")))
                label = f"call of {text_or(payload.get('name'), 'a tool')}"
                return "assistant", tool_text(label, asked, self.findings), call
            case "function_call_output" | "custom_tool_call_output":
                answer = payload.get("output")
                answer = answer.get("content", answer) if isinstance(answer, dict) else answer
                return "assistant", tool_text("answer of a tool", answer, self.findings), call
            case "reasoning":
                self.findings.skip("thoughts of the assistant")
            case other:
                self.findings.skip(f"items of the kind {other!r}")
        return None

    def _message(self, payload: dict[str, Any]) -> tuple[Role, str, str | None] | None:
        texts = []
        for block in map(mapping, items(payload.get("content"))):
            if text_or(block.get("text")):
                texts.append(block["text"])
            elif block.get("type") == "input_image":
                self.findings.note("is a picture, sound or file: a mark stands for it")
                texts.append("[image]")
        text = "\n\n".join(texts)
        if payload.get("role") == "developer" or text.lstrip().startswith(_ENVELOPES):
            self.findings.skip("messages were put in by the program")
            return None
        if not text.strip():
            self.findings.skip("messages hold no words")
            return None
        roles: dict[object, Role] = {"user": "user", "system": "system"}
        return roles.get(payload.get("role"), "assistant"), text, None

    def _event(self, payload: dict[str, Any]) -> tuple[Role, str, str | None] | None:
        text = text_or(payload.get("message"))
        match payload.get("type"):
            case "user_message" if text.strip():
                return "user", text, None
            case "agent_message" if text.strip():
                return "assistant", text, None
        return None
