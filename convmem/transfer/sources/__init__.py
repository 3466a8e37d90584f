"""Files that hold conversations, told apart by what is in them, not by their names.

files arrays     what lies on the disk, line by line and element by element
text trees drafts    from others' shapes to records of ours
source           what the formats have in common; then a module a format
"""

import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from convmem.errors import Code, Refusal
from convmem.transfer.export_file import ExportFile
from convmem.transfer.incoming import Findings, Source
from convmem.transfer.sources import chat_jsonl, claude_ai, memory_server
from convmem.transfer.sources.chat_jsonl import ChatJsonl
from convmem.transfer.sources.chatgpt import ChatGPT
from convmem.transfer.sources.claude_ai import ClaudeAi
from convmem.transfer.sources.claude_code import ClaudeCode
from convmem.transfer.sources.codex import Codex
from convmem.transfer.sources.files import Part, conversations, head, lines, part_of, parts_of_zip
from convmem.transfer.sources.memory_server import MemoryServer
from convmem.transfer.sources.source import ForeignSource

_HEAD_BYTES = 1 << 16
_LOOKED_AT = 50  # unknown types and damaged lines may come first
_OF_DOCUMENTS = (b'"mapping"', b'"chat_messages"')
_FORMATS: tuple[type[ForeignSource], ...] = (
    ClaudeCode,
    ChatGPT,
    ClaudeAi,
    Codex,
    ChatJsonl,
    MemoryServer,
)


def detect(path: Path, *, all_branches: bool = False) -> Source:
    """The source at a path: a file, a folder, or a zip as an export comes.

    Raises Refusal that says what was looked for and what was found; OSError.
    """
    if path.is_dir():
        return _of_parts(path, _in_folder(path), all_branches)
    if zipfile.is_zipfile(path):
        return _of_parts(path, _in_zip(path), all_branches)
    part = part_of(path)
    if b'"manifest"' in head(part, _HEAD_BYTES).partition(b"\n")[0]:
        return ExportFile(path)
    return _of_parts(path, [part], all_branches)


def _in_folder(path: Path) -> list[Part]:
    """An export's conversations, or else all JSON lines below a folder."""
    shards = sorted(path.glob("conversations*.json"))
    found = shards or sorted([*path.rglob("*.jsonl"), *path.rglob("rollout-*.json")])
    return [part_of(each, str(each.relative_to(path))) for each in found if each.is_file()]


def _in_zip(path: Path) -> list[Part]:
    parts = parts_of_zip(path)
    base = [(str(part.member).rpartition("/")[2], part) for part in parts]
    shards = [
        part for name, part in base if name.startswith("conversations") and name.endswith(".json")
    ]
    found = shards or [part for name, part in base if name.endswith(".jsonl")]
    return sorted(found, key=lambda part: part.name)


def _of_parts(path: Path, parts: list[Part], all_branches: bool) -> Source:
    by_format: dict[type[ForeignSource], list[Part]] = {}
    for part in parts:
        if (kind := _format(part)) is not None:
            by_format.setdefault(kind, []).append(part)
    match [*by_format]:
        case [only]:
            chosen = by_format[only]
            if only is ClaudeCode:  # what a fork copied counts where it was first
                chosen = sorted(chosen, key=_is_fork)
            source = only(chosen, all_branches=all_branches)
            source.passed_over = len(parts) - len(chosen)
            return source
        case []:
            names = ", ".join(["an export of convmem", *(each.name for each in _FORMATS)])
            found = f"{len(parts)} files that may be one" if len(parts) != 1 else "something else"
            text = f"{path}: nothing that can be imported. Looked for: {names}; found: {found}"
            raise Refusal(Code.INVALID_ARGUMENT, text)
        case several:
            names = ", ".join(f"{each.name} ({by_format[each][0].name})" for each in several)
            text = f"{path}: files of several kinds: {names}; import one kind at a time"
            raise Refusal(Code.INVALID_ARGUMENT, text)


def _is_fork(part: Part) -> bool:
    return b'"forkedFrom"' in head(part, _HEAD_BYTES)


def _format(part: Part) -> type[ForeignSource] | None:
    """The format of a file, None for none that is known. Raises Refusal, OSError."""
    if not part.size_bytes:
        return None
    beginning = head(part, _HEAD_BYTES).lstrip()
    is_array = beginning.startswith(b"[")
    if is_array or any(name in beginning for name in _OF_DOCUMENTS):  # may be one huge line
        return _first(_document(part, is_array)) or _first(memory_server.objects(part, Findings()))
    return (
        _first(lines(part, Findings()))
        or (_first(_document(part, is_array)) if beginning.startswith(b"{") else None)
        or _first(memory_server.objects(part, Findings()))
    )


def _document(part: Part, is_array: bool) -> Iterator[tuple[str, Any]]:
    """The elements of a file that may be one JSON value. Raises Refusal for a damaged array."""
    try:
        yield from conversations(part)
    except Refusal:
        if is_array:
            raise  # it would be one but for the damage, and that says where


def _first(values: Iterator[tuple[str, Any]]) -> type[ForeignSource] | None:
    """The format of the first values that are of a known one."""
    for _, value in islice(values, _LOOKED_AT):
        if kind := _format_of(value):
            return kind
    return None


def _format_of(value: Any) -> type[ForeignSource] | None:
    """The format that a line or an element is of."""
    if chat_jsonl.turns(value) is not None and not _has_claude_turns(value):
        return ChatJsonl
    if isinstance(value, list):
        return next((kind for each in value if (kind := _format_of(each))), None)
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("mapping"), dict):
        return ChatGPT
    if claude_ai.turns(value) is not None:
        return ClaudeAi
    kind = value.get("type")
    if kind in ("entity", "relation") and ("entityType" in value or "relationType" in value):
        return MemoryServer
    if isinstance(value.get("payload"), dict) or _is_old_rollout(value):
        return Codex
    if "sessionId" in value or "leafUuid" in value or {"uuid", "parentUuid"} <= value.keys():
        return ClaudeCode
    return None


def _has_claude_turns(value: object) -> bool:
    found = claude_ai.turns(value)
    return bool(found) and any(isinstance(each, dict) and "sender" in each for each in found or ())


def _is_old_rollout(value: dict[str, Any]) -> bool:
    session = value.get("session")
    if isinstance(session, dict) and isinstance(value.get("items"), list):
        return True
    return "record_type" in value or {"id", "timestamp", "instructions"} <= value.keys()
