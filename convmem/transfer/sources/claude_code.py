"""Sessions of Claude Code: ``~/.claude/projects/FOLDER/SESSION.jsonl``, one block on each line.

The lines of a session in their order are what was seen. Forks and resumed sessions repeat lines
of others: a line counts once, by its uuid. What a sub-agent did is a session of its own.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

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

SOURCE = "claude-code"

# What the program puts into a person's words.
_ENVELOPE = re.compile(
    r"<(system-reminder|command-[a-z]+|local-command-[a-z]+|task-notification|user-prompt-submit-hook"
    r"|bash-(?:input|stdout|stderr))>.*?</\1>\s*",
    re.DOTALL,
)


def is_line(line: dict[str, Any]) -> bool:
    """Whether an object is a line of such a session."""
    kinds = ("summary", "file-history-snapshot", "queue-operation", "permission-mode")
    return "sessionId" in line or ("uuid" in line and "type" in line) or line.get("type") in kinds


class ClaudeCode:
    """A session, or a folder of them, as a source."""

    name = "Claude Code sessions"

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self.findings = Findings()
        self.size_bytes = sum(piece.size_bytes for piece in pieces)

    def read(self) -> Iterator[Incoming]:
        """The messages of all sessions."""
        self.findings = Findings()
        seen: set[str] = set()
        for piece in self._pieces:
            yield from _Session(piece, seen, self.findings).read()


class _Session:
    """One file."""

    def __init__(self, piece: Piece, seen: set[str], findings: Findings) -> None:
        self._piece = piece
        self._seen = seen
        self._findings = findings
        self._title: str | None = None
        self._typed_ahead: dict[str, Turn] = {}

    def read(self) -> Iterator[Incoming]:
        turns = self._turns()
        first = next(turns, None)
        if first is None:
            return
        session, agent, turn = first
        rest = (each for _, _, each in turns)
        conversation = Conversation(
            source=SOURCE,
            id=f"{session}/{agent}" if agent else session,
            title=self._title,
            time_ms=self._piece.changed_ms,
            tags=("sub-agent",) if agent else (),
        )
        yield from incoming(conversation, _chain(turn, rest), self._findings)

    def _turns(self) -> Iterator[tuple[str, str, Turn]]:
        """The turns, with the ids of session and sub-agent that the first one names."""
        session = agent = ""
        for number, line in json_lines(self._piece, self._findings):
            session = session or text_or(line.get("sessionId"))
            if line.get("isSidechain") and not agent:
                agent = text_or(line.get("agentId")) or self._piece.name.rpartition("/")[2]
            place = f"{self._piece.name}, line {number}"
            for turn in self._turns_of(line, place):
                yield session or self._piece.name, agent, turn
        for turn in self._typed_ahead.values():
            yield session or self._piece.name, agent, turn

    def _turns_of(self, line: dict[str, Any], place: str) -> Iterator[Turn]:
        kind = line.get("type")
        match kind:
            case "user" | "assistant" | "system":
                pass
            case "summary":
                self._title = self._title or text_or(line.get("summary")) or None
                return
            case "queue-operation":
                self._queue(line, place)
                return
            case _:
                self._findings.skip(f"lines of the kind {kind!r} are no messages")
                return
        self._findings.read += 1
        uuid = text_or(line.get("uuid")) or place
        if uuid in self._seen:
            self._findings.skip("lines are there already, under the same uuid")
            return
        self._seen.add(uuid)
        if line.get("isMeta"):
            self._findings.skip("lines were put in by the program")
            return
        yield from self._said(line, uuid, place)

    def _said(self, line: dict[str, Any], uuid: str, place: str) -> Iterator[Turn]:
        message = mapping(line.get("message"))
        content = message.get("content", line.get("content"))
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
        time_ms = time_of(line.get("timestamp"))
        role = "assistant" if line["type"] == "assistant" else "user"
        texts: list[str] = []
        found = False
        for number, block in enumerate(map(mapping, blocks)):
            said = self._block(block, texts)
            if said is not None:
                found = True
                label, value, call = said
                yield Turn(
                    key=f"{uuid}#{number}",
                    role="assistant",
                    text=tool_text(label, value, self._findings),
                    time_ms=time_ms,
                    tool_call_id=call,
                    place=place,
                )
        text = "\n\n".join(texts)
        if line["type"] == "user":
            text = self._without_envelopes(text)
        if not text.strip():
            if not found:
                self._findings.skip("lines hold no words")
            return
        self._typed_ahead.pop(text, None)
        is_system = line["type"] == "system"
        is_summary = bool(line.get("isCompactSummary"))
        yield Turn(
            key=uuid,
            role="system" if is_system or is_summary else role,  # type: ignore[arg-type]
            text=text,
            time_ms=time_ms,
            kind="summary" if is_summary else "conversation",
            place=place,
        )

    def _block(self, block: dict[str, Any], texts: list[str]) -> tuple[str, object, str] | None:
        """Take words; of a tool's block its label, its text and the id of the call."""
        match block.get("type"):
            case "text":
                texts.append(text_or(block.get("text")))
            case "thinking" | "redacted_thinking":
                self._findings.skip("thoughts of the assistant")
            case "image" | "document":
                self._findings.note("is a picture or document: a mark stands for it")
                texts.append(f"[{block['type']}]")
            case "tool_use" | "server_tool_use":
                label = f"call of {text_or(block.get('name'), 'a tool')}"
                return label, block.get("input"), text_or(block.get("id"))
            case "tool_result":
                label = "failure of a tool" if block.get("is_error") else "answer of a tool"
                return label, _words(block.get("content")), text_or(block.get("tool_use_id"))
            case other:
                self._findings.skip(f"blocks of the kind {other!r}")
        return None

    def _queue(self, line: dict[str, Any], place: str) -> None:
        """What was typed ahead: it may never have become a line of its own."""
        text = text_or(line.get("content"))
        if line.get("operation") == "remove":
            self._typed_ahead.pop(text, None)
        elif line.get("operation") == "enqueue" and self._without_envelopes(text).strip():
            time_ms = time_of(line.get("timestamp"))
            key = f"queue {time_ms} {text}"
            turn = Turn(key=key, role="user", text=text, time_ms=time_ms, place=place)
            self._typed_ahead.setdefault(text, turn)

    def _without_envelopes(self, text: str) -> str:
        if "<" not in text:
            return text
        text, count = _ENVELOPE.subn("", text)
        if count:
            self._findings.note("held words of the program, which were left out", count)
        return text


def _chain(first: Turn, rest: Iterator[Turn]) -> Iterator[Turn]:
    yield first
    yield from rest


def _words(content: object) -> object:
    """The text of a tool's answer, or what it is where it is none."""
    if isinstance(content, list):
        return "\n".join(
            text_or(block.get("text"), f"[{block.get('type')}]") for block in map(mapping, content)
        )
    return content
