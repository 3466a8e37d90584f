"""Conversations as lines of JSON, as models are tuned with and logs are written: OpenAI's chat
format, ShareGPT's, or one message on each line.

There are no ids and no times in them: a message is known by the name of its file, its line and
its place in that, and has the time of the file.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from convmem.message import Role
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources.pieces import Piece, json_elements, json_lines
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

SOURCE = "chat"

_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "tool": "assistant",
    "function": "assistant",
}


def is_line(line: dict[str, Any]) -> bool:
    """Whether an object is a line of such a file."""
    return any(
        (
            isinstance(line.get("messages"), list),
            isinstance(line.get("conversations"), list),
            isinstance(line.get("role"), str) and "content" in line,
            "prompt" in line and "completion" in line,
        )
    )


class ChatLines:
    """A file of such lines, or of one array of them, as a source."""

    name = "chat JSON lines"

    def __init__(self, pieces: Sequence[Piece], *, is_array: bool = False) -> None:
        self._pieces = pieces
        self._is_array = is_array
        self.findings = Findings()
        self.size_bytes = sum(piece.size_bytes for piece in pieces)

    def read(self) -> Iterator[Incoming]:
        """The messages of all lines."""
        self.findings = Findings()
        for piece in self._pieces:
            alone: list[Turn] = []
            for number, line in self._lines(piece):
                if isinstance(line, dict) and "role" in line and "messages" not in line:
                    alone += self._turns([line], str(number), f"{piece.name}, line {number}")
                else:
                    yield from self._conversation(piece, number, line)
            conversation = self._named(piece, piece.name.rpartition("/")[2])
            yield from incoming(conversation, alone, self.findings)

    def _lines(self, piece: Piece) -> Iterator[tuple[int, Any]]:
        if self._is_array:
            return enumerate(json_elements(piece), 1)
        return json_lines(piece, self.findings)

    def _conversation(self, piece: Piece, number: int, line: Any) -> Iterator[Incoming]:
        place = f"{piece.name}, line {number}"
        given = mapping(line)
        if "prompt" in given and "completion" in given:
            said = [
                {"role": "user", "content": given["prompt"]},
                {"role": "assistant", "content": given["completion"]},
            ]
        else:
            said = items(line) or items(given.get("messages")) or items(given.get("conversations"))
        if not said:
            self.findings.skip(f"lines are no conversations (as {place})")
            return
        id_ = text_or(given.get("id")) or text_or(mapping(given.get("metadata")).get("id"))
        name = id_ or f"{piece.name.rpartition('/')[2]}:{number}"
        turns = self._turns(said, "", place)
        yield from incoming(self._named(piece, name), turns, self.findings)

    def _named(self, piece: Piece, name: str) -> Conversation:
        return Conversation(source=SOURCE, id=name, title=None, time_ms=piece.changed_ms)

    def _turns(self, said: list[Any], key: str, place: str) -> Iterator[Turn]:
        for index, message in enumerate(map(mapping, said)):
            self.findings.read += 1
            role = text_or(message.get("role")) or text_or(message.get("from"))
            if role not in _ROLES:
                self.findings.skip(f"messages have the role {role!r} (as {place})")
                continue
            text = self._words(message, role)
            if not text.strip():
                self.findings.skip("messages hold no words")
                continue
            yield Turn(
                key=f"{key}:{index}",
                role=_ROLES[role],
                text=text,
                time_ms=time_of(message.get("timestamp", message.get("created_at"))),
                tool_call_id=self._call(message),
                place=place,
            )

    def _words(self, message: dict[str, Any], role: str) -> str:
        content = message.get("content", message.get("value"))
        if isinstance(content, list):
            content = "\n\n".join(filter(None, map(self._part, map(mapping, content))))
        texts = [text_or(content) or text_or(message.get("refusal"))]
        if role in ("tool", "function") and texts[0]:
            label = f"answer of {text_or(message.get('name'), 'a tool')}"
            texts = [tool_text(label, texts[0], self.findings)]
        for call in map(mapping, items(message.get("tool_calls"))):
            function = mapping(call.get("function"))
            label = f"call of {text_or(function.get('name'), 'a tool')}"
            texts.append(tool_text(label, function.get("arguments"), self.findings))
        return "\n\n".join(text for text in texts if text)

    def _part(self, part: dict[str, Any]) -> str:
        text = text_or(part.get("text")) or text_or(part.get("refusal"))
        if text:
            return text
        self.findings.note("is a picture, sound or file: a mark stands for it")
        return f"[{text_or(part.get('type'), 'attachment')}]"

    def _call(self, message: dict[str, Any]) -> str | None:
        calls = items(message.get("tool_calls"))
        first = text_or(mapping(calls[0]).get("id")) if calls else ""
        return text_or(message.get("tool_call_id")) or first or None
