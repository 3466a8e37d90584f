"""The rollouts of Codex CLI: JSON lines, or a single JSON file in the oldest versions.

What was said stands there twice, as response items and as events. The items are taken, and the
events only of a role that has no items in the file.
"""

from collections.abc import Iterator
from typing import Any

from convmem.message import Role
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources import text
from convmem.transfer.sources.drafts import Draft, Maker, role_of
from convmem.transfer.sources.files import Part, conversations, lines
from convmem.transfer.sources.source import ForeignSource

Json = dict[str, Any]

_CALLS = {"function_call", "custom_tool_call", "local_shell_call", "web_search_call"}
_RESULTS = {"function_call_output", "custom_tool_call_output"}
_EVENTS: dict[str, Role] = {"user_message": "user", "agent_message": "assistant"}
_INJECTED = ("# AGENTS.md instructions", "<environment_context>", "<user_instructions>")
_SILENT = "lines of the host's own keeping"


class Codex(ForeignSource):
    """Sessions of Codex CLI."""

    name = "Codex CLI sessions"
    slug = "codex"

    def _read(self, part: Part, maker: Maker) -> Iterator[Incoming]:
        said_in_items, session = _outline(part)
        session_id = maker.session_id(session)
        time_ms: int | None = None
        own_calls: set[str] = set()
        for number, (place, line) in enumerate(_values(part, self.findings)):
            if not isinstance(line, dict):
                self.findings.skip("lines that are no objects")
                continue
            self.findings.read += 1
            own_ms = maker.checked_ms(text.milliseconds(line.get("timestamp")))
            time_ms = time_ms if own_ms is None else own_ms
            draft = self._draft(line, said_in_items, own_calls)
            if draft is None:
                continue
            # A rollout only grows: a line's number is as good a name as any. Lines do have none.
            draft.key = (session, _number(place, number))
            draft.session, draft.place, draft.time_ms = session_id, place, time_ms
            yield from maker.messages(draft)

    def _draft(
        self, line: Json, said_in_items: frozenset[Role], own_calls: set[str]
    ) -> Draft | None:
        """The message of a line, without place and time; None where there is none."""
        kind, payload = _unwrapped(line)
        if kind == "event_msg":
            return self._event(payload, said_in_items)
        item = payload.get("type")
        if kind != "response_item":
            self.findings.skip(_SILENT)
        elif item == "message":
            return self._message(payload)
        elif item in _CALLS or item in _RESULTS:
            return self._tool(payload, own_calls)
        elif item == "reasoning":
            self.findings.skip(text.THINKING)
        else:
            self.findings.skip(f"items of a type that is not known: {str(item)[:60]}")
        return None

    def _message(self, payload: Json) -> Draft | None:
        role = role_of(payload.get("role"))
        if role is None or role == "system":
            self.findings.skip("instructions of the host")
            return None
        content = payload.get("content")
        blocks = content if isinstance(content, list) else [content]
        texts = [text.joined([block], self.findings) for block in blocks]
        if role == "user":
            injected = [each for each in texts if each.lstrip().startswith(_INJECTED)]
            texts = [text.without_envelopes(t, self.findings) for t in texts if t not in injected]
            if injected and not any(texts):
                self.findings.skip("instructions of the host")
                return None
            if injected:
                self.findings.note(text.ENVELOPES, len(injected))
        return _draft(role, "\n\n".join(each for each in texts if each))

    def _event(self, payload: Json, said_in_items: frozenset[Role]) -> Draft | None:
        role = _EVENTS.get(str(payload.get("type")))
        said = payload.get("message")
        if role is None or not isinstance(said, str):
            self.findings.skip(_SILENT)
            return None
        if role in said_in_items:
            self.findings.skip("events that tell of messages once more")
            return None
        self.findings.note("messages that only an event tells of")
        return _draft(role, text.without_envelopes(said, self.findings))

    def _tool(self, payload: Json, own_calls: set[str]) -> Draft | None:
        call_id = payload.get("call_id") or payload.get("id")
        call_id = call_id if isinstance(call_id, str) else None
        name = payload.get("name")
        if text.is_own_tool(name) or (call_id is not None and call_id in own_calls):
            own_calls.add(call_id or "")
            self.findings.skip(text.OWN_TOOLS)
            return None
        if payload["type"] in _CALLS:
            arguments: object = next(
                (payload[key] for key in ("arguments", "input", "action") if key in payload), {}
            )
            said = text.tool_call(name or payload["type"], arguments, self.findings)
        else:
            output = text.joined(payload.get("output"), self.findings)
            said = text.tool_result(output, self.findings)
        draft = _draft("assistant", said)
        draft.tags, draft.tool_call_id = ("tool",), call_id
        return draft


def _draft(role: Role, content: str) -> Draft:
    return Draft(key=(), session="", time_ms=None, role=role, content=content, place="")


def _number(place: str, number: int) -> str:
    """The number of a line, whatever was damaged before it; of an item in a file, its own."""
    return place.rpartition("line ")[2] if "line " in place else str(number)


def _values(part: Part, findings: Findings) -> Iterator[tuple[str, Any]]:
    """The lines of a rollout; of a single file, its session's line and its items."""
    if not part.path.name.endswith(".json"):
        yield from lines(part, findings)
        return
    for place, whole in conversations(part):
        if isinstance(whole, dict):
            session = whole.get("session")
            yield place, session if isinstance(session, dict) else {}
            items = whole.get("items")
            for number, item in enumerate(items if isinstance(items, list) else [], 1):
                yield f"{place}, item {number}", item


def _unwrapped(line: Json) -> tuple[str, Json]:
    """Type and payload of a line. In the oldest versions, items stand there as they are."""
    payload = line.get("payload")
    if isinstance(payload, dict):
        return str(line.get("type")), payload
    return ("response_item" if "type" in line else "session_meta"), line


def _outline(part: Part) -> tuple[frozenset[Role], str]:
    """Whose messages the file has as items, and the session's name: the first that it tells."""
    roles: set[Role] = set()
    session: str | None = None
    for _, line in _values(part, Findings()):
        if not isinstance(line, dict):
            continue
        kind, payload = _unwrapped(line)
        if kind == "session_meta" and session is None and isinstance(payload.get("id"), str):
            session = payload["id"]
        role = role_of(payload.get("role"))
        if kind == "response_item" and payload.get("type") == "message" and role:
            is_said = role != "user" or not _is_injected(payload)
            roles |= {role} if is_said else set()
    return frozenset(roles), session or part.path.stem


def _is_injected(payload: Json) -> bool:
    said = text.joined(payload.get("content"), Findings()).lstrip()
    return said.startswith(_INJECTED)
