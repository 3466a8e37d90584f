"""What others write down in the shapes that are kept: times, calls of tools, plain text."""

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from convmem.limits import IMPORT_TOOL_TEXT_BYTES_MAX
from convmem.transfer.incoming import Findings

# What hosts put into a person's words. Only whole pairs are taken out.
_ENVELOPES = (
    "system-reminder",
    "command-name",
    "command-message",
    "command-args",
    "command-contents",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "task-notification",
    "user-prompt-submit-hook",
    "ide_opened_file",
    "ide_selection",
    "environment_context",
    "user_instructions",
    "INSTRUCTIONS",
    "permissions instructions",
    "turn_aborted",
)
_OPENING = re.compile("<({})>".format("|".join(map(re.escape, _ENVELOPES))))
_SURROGATE = re.compile("[\ud800-\udfff]")
_SECONDS_MAX = 1e11  # the year 5138; a greater number counts milliseconds

ENVELOPES = "texts that the host had put in, left out"
THINKING = "thinking"
OWN_TOOLS = "what this memory itself had answered"
MEDIA = "images, sounds and files, of which only a mark is kept"
TOOL_TEXT = "texts of tools cut, with a mark of how much is missing"


def milliseconds(value: object) -> int | None:
    """A time in any of the ways it is written, as UTC milliseconds; None for none.

    Seconds with a fraction, milliseconds, or ISO text, which is UTC where it has no offset.
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return round(value * 1000) if abs(value) < _SECONDS_MAX else round(value)


def without_envelopes(text: str, findings: Findings) -> str:
    """A person's words without what the host put in. Linear in the text."""
    if "<" not in text:
        return text
    kept: list[str] = []
    unclosed: set[str] = set()
    start = searched = 0
    while opening := _OPENING.search(text, searched):
        name = opening[1]
        closing = f"</{name}>"
        end = -1 if name in unclosed else text.find(closing, opening.end())
        if end < 0:
            unclosed.add(name)
            searched = opening.end()
            continue
        kept.append(text[start : opening.start()])
        start = searched = end + len(closing)
        findings.note(ENVELOPES)
    return "".join([*kept, text[start:]]).strip() if kept else text


def clean(text: str, findings: Findings) -> str:
    """Text that can be stored: halves of characters, which are none, become U+FFFD."""
    if text.isascii():
        return text
    cleaned, count = _SURROGATE.subn("\N{REPLACEMENT CHARACTER}", text)
    if count:
        findings.note("halves of characters, replaced by U+FFFD", count)
    return cleaned


def cut(text: str, bytes_max: int) -> str:
    """The beginning of a text, of at most so many bytes of UTF-8."""
    if len(text) * 4 <= bytes_max:
        return text
    return text[:bytes_max].encode()[:bytes_max].decode(errors="ignore")


def pieces(text: str, bytes_max: int) -> Iterator[str]:
    """A text in as few parts of at most so many bytes as there are. Joined they are the text."""
    data = text.encode()
    start = 0
    while len(data) - start > bytes_max:
        end = start + bytes_max
        while data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode()
        start = end
    yield data[start:].decode()


def bounded(text: str, findings: Findings) -> str:
    """The text of a tool: its beginning, and a mark of how much is missing."""
    text = clean(text, findings)
    kept = cut(text, IMPORT_TOOL_TEXT_BYTES_MAX)
    if len(kept) == len(text):
        return text
    findings.note(TOOL_TEXT)
    return f"{kept}\n[... {len(text.encode()) - len(kept.encode()):,} bytes left out]"


def tool_call(name: object, arguments: object, findings: Findings) -> str:
    """What a call of a tool is kept as."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return f"[call of {name}] {bounded(arguments, findings)}"


def tool_result(text: str, findings: Findings, *, is_error: bool = False) -> str:
    """What the result of a tool is kept as."""
    return f"[{'failure' if is_error else 'answer'} of a tool] {bounded(text, findings)}"


def is_own_tool(name: object) -> bool:
    """Whether a tool is one of this memory: what is in it need not come in again."""
    return isinstance(name, str) and name.startswith(("mcp__convmem__", "convmem__", "convmem."))


def marked(kind: str, name: object, findings: Findings) -> str:
    """What stands for what is no text."""
    findings.note(MEDIA)
    return f"[{kind}: {name}]" if isinstance(name, str) and name else f"[{kind}]"


def joined(value: object, findings: Findings) -> str:
    """The text of a list of parts such as many formats have, or of a plain string."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return "" if value is None else json.dumps(value, ensure_ascii=False)
    texts = [_part(part, findings) for part in value]
    return "\n\n".join(text for text in texts if text)


def _part(part: Any, findings: Findings) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    for name in ("text", "refusal", "transcript", "content", "output"):
        if isinstance(part.get(name), str):
            return str(part[name])
    kind = str(part.get("content_type") or part.get("type") or "object")
    return marked(kind.removesuffix("_asset_pointer"), part.get("name"), findings)
