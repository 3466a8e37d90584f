"""Conversations in OpenAI's chat format, as files for fine-tuning and logs have them; ShareGPT too.

A line is a conversation, or one message of the file's only conversation. Nothing there has an id
that others do not have as well, and most have no time: what is said identifies a conversation, so
that the same file at another place, or with more lines, comes to the same.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from convmem.transfer.incoming import Incoming
from convmem.transfer.sources import text
from convmem.transfer.sources.drafts import Draft, Maker, digest, role_of
from convmem.transfer.sources.files import Part, conversations, head, lines
from convmem.transfer.sources.source import ForeignSource

Json = dict[str, Any]

_TIMES = ("timestamp", "create_time", "created_at", "created")


class ChatJsonl(ForeignSource):
    """Conversations in the chat format of OpenAI, or that of ShareGPT."""

    name = "chat messages"
    slug = "chat"

    def _read(self, part: Part, maker: Maker) -> Iterator[Incoming]:
        times_seen: Counter[bytes] = Counter()
        flat: bytes | None = None  # of messages on lines of their own: what names them all
        for place, value in self._values(part):
            found = turns(value)
            if found is None:
                self.findings.read += 1
                self.findings.skip("lines of another shape")
                continue
            if isinstance(value, dict) and "role" in value:
                flat = flat or digest(_canonical(value))
                name = (flat, place.rpartition(" ")[2])
                session = flat
            else:
                session = digest(_canonical(found))
                times_seen[session] += 1
                name = (session, str(times_seen[session]))
                if times_seen[session] > 1:
                    session = digest(*name)
            session_id = maker.session_id(part.path.stem, session.hex()[:12])
            began_ms = _time(value) if isinstance(value, dict) else None
            yield from self._conversation(found, name, session_id, began_ms, place, maker)

    def _values(self, part: Part) -> Iterator[tuple[str, Any]]:
        if is_document(part):
            return conversations(part)
        return lines(part, self.findings)

    def _conversation(
        self,
        found: list[Any],
        name: tuple[bytes, str],
        session: str,
        time_ms: int | None,
        place: str,
        maker: Maker,
    ) -> Iterator[Incoming]:
        for number, message in enumerate(found):
            self.findings.read += 1
            where = f"{place}, message {number + 1}" if len(found) > 1 else place
            if not isinstance(message, dict):
                self.findings.skip("of another shape than a message")
                continue
            theirs = message.get("role", message.get("from"))
            role = role_of(theirs)
            if role is None:
                self.findings.skip(f"of a role that is not known: {str(theirs)[:60]}")
                continue
            own_ms = maker.checked_ms(_time(message))
            time_ms = time_ms if own_ms is None else own_ms
            said = text.joined(message.get("content", message.get("value")), self.findings)
            calls = list(self._calls(message))
            is_tool = theirs in ("tool", "function", "observation", "function_call")
            if is_tool and said:
                said = text.tool_result(said, self.findings)
            if not said and isinstance(message.get("refusal"), str):
                said = message["refusal"]
            call_id = message.get("tool_call_id")
            each = [(said, call_id if isinstance(call_id, str) else None, is_tool)]
            if calls:
                each = [one for one in each if one[0]]
            for index, (content, call, of_tool) in enumerate([*each, *calls]):
                yield from maker.messages(
                    Draft(
                        key=(name[0].hex(), name[1], number, index),
                        session=session,
                        time_ms=time_ms,
                        role=role,
                        content=content,
                        place=where,
                        tags=("tool",) if of_tool else (),
                        tool_call_id=call,
                    )
                )

    def _calls(self, message: Json) -> Iterator[tuple[str, str | None, bool]]:
        calls = message.get("tool_calls")
        calls = list(calls) if isinstance(calls, list) else []
        if isinstance(message.get("function_call"), dict):  # before there were several
            calls.append({"function": message["function_call"]})
        for call in calls:
            if not isinstance(call, dict):
                self.findings.skip("calls of tools of another shape")
                continue
            function = call.get("function")
            function = function if isinstance(function, dict) else {}
            name, arguments = function.get("name"), function.get("arguments", "")
            call_id = call.get("id")
            yield (
                text.tool_call(name, arguments, self.findings),
                call_id if isinstance(call_id, str) else None,
                True,
            )


def turns(value: object) -> list[Any] | None:
    """The messages of a conversation in any of its shapes, None for anything else."""
    if isinstance(value, list):
        return value if any(map(_is_turn, value)) else None
    if not isinstance(value, dict):
        return None
    for name in ("messages", "conversations", "conversation"):
        found = value.get(name)
        if isinstance(found, list) and (not found or any(map(_is_turn, found))):
            return found
    if isinstance(value.get("role"), str) and ("content" in value or "tool_calls" in value):
        return [value]
    if isinstance(value.get("prompt"), str) and isinstance(value.get("completion"), str):
        return [
            {"role": "user", "content": value["prompt"]},
            {"role": "assistant", "content": value["completion"]},
        ]
    return None


def _is_turn(value: object) -> bool:
    return isinstance(value, dict) and bool({"role", "from"} & value.keys())


def is_document(part: Part) -> bool:
    """Whether a file is one JSON array, and not a value a line."""
    beginning = head(part, 1 << 16).lstrip()
    if not beginning.startswith(b"["):
        return False
    first = beginning.partition(b"\n")[0]
    try:
        # A whole array of messages on the first line is a conversation, the next line another.
        return turns(json.loads(first, strict=False)) is None or len(beginning) <= len(first) + 1
    except (ValueError, RecursionError):
        return True


def _time(value: Json) -> int | None:
    return next(
        (ms for name in _TIMES if (ms := text.milliseconds(value.get(name))) is not None), None
    )


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
