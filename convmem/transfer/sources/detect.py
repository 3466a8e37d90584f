"""Which format a file or folder is of: told by what is in it, not by its name."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from convmem.errors import Code, Refusal
from convmem.transfer.export_file import ExportFile
from convmem.transfer.incoming import Findings, Source
from convmem.transfer.sources import (
    chat_lines,
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    memory_server,
)
from convmem.transfer.sources.pieces import Piece, head_of, json_elements, json_lines, pieces_of

_HEAD_BYTES = 1 << 16
_LINES_LOOKED_AT = 20

KNOWN = (
    "an export of convmem; sessions of Claude Code or Codex, a file or a folder; "
    "conversations.json of ChatGPT or Claude.ai, or the zip it came in; chat JSON lines; "
    "the file of the MCP memory server"
)


def detect(path: Path, *, all_branches: bool = False) -> Source:
    """The source at a path. Raises Refusal where nothing known is there; OSError."""
    found: dict[str, list[Piece]] = {}
    pieces = pieces_of(path)
    for piece in pieces:
        kind = _kind(piece)
        if kind is not None:
            found.setdefault(kind, []).append(piece)
    if not found:
        looked_at = f"{len(pieces)} files in it" if path.is_dir() else "it"
        text = f"{path}: {looked_at} cannot be imported. What can be: {KNOWN}"
        raise Refusal(Code.INVALID_ARGUMENT, text)
    if len(found) > 1:
        kinds = ", ".join(sorted(found))
        text = f"{path}: files of several kinds are in it ({kinds}); import them one by one"
        raise Refusal(Code.INVALID_ARGUMENT, text)
    ((kind, chosen),) = found.items()
    return _source(kind, path, chosen, all_branches)


def _source(kind: str, path: Path, pieces: Sequence[Piece], all_branches: bool) -> Source:
    match kind:
        case "convmem" if len(pieces) == 1 and path.is_file():
            return ExportFile(path)
        case "convmem":
            text = f"{path}: exports of convmem are imported one by one, and not from a zip"
            raise Refusal(Code.INVALID_ARGUMENT, text)
        case "chatgpt":
            return chatgpt.ChatGpt(pieces, all_branches=all_branches)
        case "claude-ai":
            return claude_ai.ClaudeAi(pieces, all_branches=all_branches)
        case "claude-code":
            return claude_code.ClaudeCode(pieces)
        case "codex":
            return codex.Codex(pieces)
        case "memory-server":
            return memory_server.MemoryServer(pieces)
        case _:
            return chat_lines.ChatLines(pieces, is_array=kind == "chat array")


def _kind(piece: Piece) -> str | None:
    """What a file is, by the first of its lines or elements that tells; None for nothing known."""
    head = head_of(piece, _HEAD_BYTES).lstrip()
    if not head.startswith(("[", "{")):
        return None
    if head.startswith("{") and (lines := list(_lines(head))):
        kind = next(filter(None, map(_kind_of_line, lines)), None)
        if kind != "chat" or len(lines) > 1:
            return kind
    try:
        first = next(json_elements(piece), None)
    except Refusal:
        return next(filter(None, map(_kind_of_line, _first_lines(piece))), None)
    return _kind_of_element(first, is_alone=head.startswith("{"))


def _lines(head: str) -> Iterator[dict[str, Any]]:
    """The lines that are whole JSON objects; none in a file that is one value on many lines."""
    for text in head.splitlines()[:_LINES_LOOKED_AT]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _first_lines(piece: Piece) -> Iterator[dict[str, Any]]:
    """The first lines of a file whose first one is longer than what was looked at."""
    for number, line in json_lines(piece, Findings()):
        yield line
        if number == _LINES_LOOKED_AT:
            return


def _kind_of_line(line: dict[str, Any]) -> str | None:
    if line.get("type") == "manifest" and "format" in line:
        return "convmem"
    if memory_server.is_line(line):
        return "memory-server"
    if codex.is_line(line):
        return "codex"
    if claude_code.is_line(line):
        return "claude-code"
    if chatgpt.is_conversation(line) or claude_ai.is_conversation(line):
        return _kind_of_element(line)
    return "chat" if chat_lines.is_line(line) else None


def _kind_of_element(value: object, *, is_alone: bool = False) -> str | None:
    """What a file is whose first element is this, or that is this alone."""
    if isinstance(value, list):
        return "chat array"
    if not isinstance(value, dict):
        return None
    if chatgpt.is_conversation(value):
        return "chatgpt"
    if claude_ai.is_conversation(value):
        return "claude-ai"
    if not chat_lines.is_line(value):
        return None
    return "chat" if is_alone else "chat array"
