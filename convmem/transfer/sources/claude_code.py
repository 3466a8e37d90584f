"""The sessions of Claude Code: a file each, a JSON object a line, one content block a line.

A first look over a file finds what only all of it tells: which prompts were rewound, and which
typed-ahead prompts never became a line of their own. The second gives the messages, a line after
the other: a line may come, but none that was given changes, so a live file can be imported again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from convmem.message import Relation, Role
from convmem.records import PutMessage
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources import text, trees
from convmem.transfer.sources.drafts import Draft, Maker, digest
from convmem.transfer.sources.files import Part, lines
from convmem.transfer.sources.source import ForeignSource

Json = dict[str, Any]

_SPOKEN = {"user", "assistant"}
_NO_TEXT = {"thinking", "redacted_thinking"}
_SILENT = "lines of the host's own keeping"
_BRANCHES = "messages of branches (--all-branches imports them)"


@dataclass(slots=True)
class _Outline:
    """What a file is as a whole. Lines are told apart by their uuid."""

    parents: dict[str, str | None] = field(default_factory=dict)
    prompts: dict[str, list[str]] = field(default_factory=dict)  # by the line they follow
    last: str | None = None
    said: set[bytes] = field(default_factory=set)  # hashes of what users said
    taken: int = 0  # typed-ahead prompts that were taken from the queue
    queued_at_last: int = 0  # those that were put into it before the last line that was said
    rewound: set[str] = field(default_factory=set)  # the first lines of branches


@dataclass(slots=True)
class _Course:
    """How far the reading of a file is."""

    outline: _Outline
    session: str
    time_ms: int | None = None
    queued: int = 0
    branch: set[str] = field(default_factory=set)  # lines of branches
    emitted: dict[str, bytes] = field(default_factory=dict)  # with all branches: ids by line
    last_of: dict[str, bytes] = field(default_factory=dict)  # ids by the message of the model
    own_calls: set[str] = field(default_factory=set)  # calls of tools of this memory


class ClaudeCode(ForeignSource):
    """Sessions of Claude Code, those of its sub-agents included."""

    name = "Claude Code sessions"
    slug = "claude-code"

    def _read(self, part: Part, maker: Maker) -> Iterator[Incoming]:
        outline = _outline(part)
        if outline.rewound:
            self.findings.note("branches beside what is shown", len(outline.rewound))
        course = _Course(outline, part.path.stem)
        for place, line in lines(part, self.findings):
            if not isinstance(line, dict):
                self.findings.skip("lines that are no objects")
                continue
            self.findings.read += 1
            own_ms = maker.checked_ms(text.milliseconds(line.get("timestamp")))
            course.time_ms = course.time_ms if own_ms is None else own_ms
            for draft in self._drafts(line, place, course, maker):
                yield from self._messages(draft, line, course, maker)

    def _messages(
        self, draft: Draft, line: Json, course: _Course, maker: Maker
    ) -> Iterator[Incoming]:
        uuid, model_message = line.get("uuid"), _model_message(line)
        if model_message in course.last_of and not draft.relations:
            draft.relations = (Relation("continues", course.last_of[model_message]),)
        for incoming in maker.messages(draft):
            if isinstance(incoming.record, PutMessage):
                message_id = incoming.record.message.message_id
                if model_message:
                    course.last_of = {model_message: message_id}
                if self._all_branches and isinstance(uuid, str):
                    course.emitted[uuid] = message_id
            yield incoming

    def _drafts(self, line: Json, place: str, course: _Course, maker: Maker) -> Iterator[Draft]:
        kind = line.get("type")
        title = line.get("summary") or line.get("customTitle") or line.get("aiTitle")
        if kind in _SPOKEN:
            yield from self._spoken(line, place, course, maker)
        elif isinstance(kind, str) and isinstance(title, str) and kind.endswith(_TITLES):
            yield from self._title(line, title, place, course, maker)
        elif kind == "queue-operation":
            yield from self._queued(line, place, course, maker)
        elif kind in _OTHERS:
            self.findings.skip(_SILENT)
        else:
            self.findings.skip(f"lines of a type that is not known: {str(kind)[:60]}")

    def _spoken(self, line: Json, place: str, course: _Course, maker: Maker) -> Iterator[Draft]:
        tags = self._branch_tags(line, course)
        message = line.get("message")
        if tags is None:
            self.findings.skip(_BRANCHES)
            return
        if line.get("isMeta") or not isinstance(message, dict):
            self.findings.skip("put in by the host")
            return
        role: Role = "assistant" if line["type"] == "assistant" else "user"
        if line.get("isCompactSummary"):
            role, tags = "system", (*tags, "compact-summary")
        if line.get("isSidechain"):
            tags = (*tags, "sidechain")
        uuid = _origin(line) or f"{course.session} {place.rpartition(' ')[2]}"
        relations = self._to_parent(line, course)
        for number, said in enumerate(self._said(message.get("content"), role, course)):
            yield Draft(
                key=(uuid, number) if number else (uuid,),
                session=self._session(line, course, maker),
                time_ms=course.time_ms,
                role=said.role,
                content=said.content,
                place=place,
                tags=(*tags, "tool") if said.is_tool else tags,
                tool_call_id=said.call_id,
                relations=relations,
            )

    def _branch_tags(self, line: Json, course: _Course) -> tuple[str, ...] | None:
        """The tags of a line for where it stands; None where it is of a branch and not wanted."""
        uuid, parent = line.get("uuid"), line.get("parentUuid")
        outline = course.outline
        if isinstance(uuid, str) and (uuid in outline.rewound or parent in course.branch):
            course.branch.add(uuid)
            return ("branch",) if self._all_branches else None
        return ()

    def _to_parent(self, line: Json, course: _Course) -> tuple[Relation, ...]:
        if line.get("uuid") not in course.branch:
            return ()
        parent = _parent(line)
        seen: set[str] = set()
        while parent is not None and parent not in course.emitted and parent not in seen:
            seen.add(parent)
            parent = course.outline.parents.get(parent)
        if parent is None or parent not in course.emitted:
            return ()
        kind = "branch_of" if line.get("uuid") in course.outline.rewound else "reply_to"
        return (Relation(kind, course.emitted[parent]),)

    def _said(self, content: object, role: Role, course: _Course) -> Iterator["_Said"]:
        """What a line says: its text as one, and each call and result of a tool."""
        blocks = content if isinstance(content, list) else [content]
        texts: list[str] = []
        tools: list[_Said] = []
        left_out = 0
        for block in blocks:
            fields: Json = block if isinstance(block, dict) else {}
            kind = fields.get("type")
            if kind in _NO_TEXT:
                left_out += 1
            elif kind in ("tool_use", "server_tool_use"):
                tools += self._call(fields, course)
            elif isinstance(kind, str) and kind.endswith("tool_result"):
                tools += self._result(fields, course)
            else:
                found = text.joined([block], self.findings)
                texts.append(text.without_envelopes(found, self.findings))
        whole = "\n\n".join(each for each in texts if each)
        if whole or not (tools or left_out):
            yield _Said(role, whole)
        elif left_out and not tools:
            self.findings.skip(text.THINKING, left_out)
        yield from tools

    def _call(self, block: Json, course: _Course) -> list["_Said"]:
        name, call_id = block.get("name"), _name(block.get("id"))
        if text.is_own_tool(name):
            course.own_calls.add(call_id or "")
            self.findings.skip(text.OWN_TOOLS)
            return []
        said = text.tool_call(name, block.get("input"), self.findings)
        return [_Said("assistant", said, call_id, is_tool=True)]

    def _result(self, block: Json, course: _Course) -> list["_Said"]:
        call_id = _name(block.get("tool_use_id"))
        if call_id in course.own_calls:
            self.findings.skip(text.OWN_TOOLS)
            return []
        result = text.joined(block.get("content"), self.findings)
        result = text.without_envelopes(result, self.findings)
        said = text.tool_result(result, self.findings, is_error=bool(block.get("is_error")))
        return [_Said("assistant", said, call_id, is_tool=True)]

    def _title(
        self, line: Json, title: str, place: str, course: _Course, maker: Maker
    ) -> Iterator[Draft]:
        leaf = line.get("leafUuid")
        if leaf is not None and leaf not in course.outline.parents:
            self.findings.skip("titles of sessions in other files")
            return
        session = self._session(line, course, maker)
        # Not every title has a time, and one that is repeated is one: it has none in its id.
        yield Draft(
            key=("title", session, title),
            session=session,
            time_ms=None,
            role="system",
            content=title,
            place=place,
            tags=("title",),
            kind="summary",
        )

    def _queued(self, line: Json, place: str, course: _Course, maker: Maker) -> Iterator[Draft]:
        content = line.get("content")
        if line.get("operation") != "enqueue" or not isinstance(content, str):
            self.findings.skip(_SILENT)
            return
        course.queued += 1
        # One that is still waiting may become a line yet.
        settled = max(course.outline.taken, course.outline.queued_at_last)
        is_waiting = course.queued > settled
        said = text.without_envelopes(content, self.findings).strip()
        if is_waiting or digest(said) in course.outline.said or not said:
            self.findings.skip("prompts in the queue that are a message of their own, or wait")
            return
        self.findings.note("prompts that were only in the queue")
        yield Draft(
            key=("queue", course.session, line.get("timestamp"), said),
            session=self._session(line, course, maker),
            time_ms=course.time_ms,
            role="user",
            content=said,
            place=place,
            tags=("queued",),
        )

    def _session(self, line: Json, course: _Course, maker: Maker) -> str:
        session = _name(line.get("sessionId")) or course.session
        if not line.get("isSidechain"):
            return maker.session_id(session)
        agent = _name(line.get("agentId"))
        if agent is None and course.session.startswith("agent-"):
            return maker.session_id(session, course.session)
        return maker.session_id(session, f"agent-{agent}" if agent else "sidechain")


@dataclass(frozen=True, slots=True)
class _Said:
    role: Role
    content: str
    call_id: str | None = None
    is_tool: bool = False


_TITLES = ("summary", "title")
_OTHERS = {
    "system",
    "file-history-snapshot",
    "attachment",
    "progress",
    "permission-mode",
    "last-prompt",
    "mode",
    "agent-name",
    "pr-link",
    "tag",
}


def _outline(part: Part) -> _Outline:
    """A first look over a file. What is wrong with it is told by the second."""
    outline = _Outline()
    untold = Findings()
    queued = 0
    for _, line in lines(part, untold):
        if not isinstance(line, dict):
            continue
        if line.get("type") == "queue-operation":
            outline.taken += line.get("operation") in ("dequeue", "remove", "popAll")
            queued += line.get("operation") == "enqueue" and isinstance(line.get("content"), str)
        elif line.get("type") in _SPOKEN:
            outline.queued_at_last = queued
        uuid = line.get("uuid")
        if not isinstance(uuid, str) or uuid in outline.parents:
            continue
        outline.parents[uuid] = parent = _parent(line)
        if line.get("type") in _SPOKEN and not line.get("isSidechain"):
            outline.last = uuid
        if prompt := _prompt(line):
            said = text.without_envelopes(prompt, untold).strip()
            outline.said.add(digest(said))
            if parent is not None:
                outline.prompts.setdefault(parent, []).append(uuid)
    shown = set(trees.path_to(outline.last, outline.parents))
    for siblings in outline.prompts.values():
        # A person that goes back and asks anew leaves two prompts behind one line. Anything else
        # with two followers (calls of tools side by side) is no branch.
        kept = next((each for each in siblings if each in shown), siblings[-1])
        outline.rewound.update(each for each in siblings if each != kept)
    return outline


def _prompt(line: Json) -> str:
    """What a person typed; empty for all else that stands in a user's line."""
    message = line.get("message")
    if line.get("type") != "user" or line.get("isMeta") or not isinstance(message, dict):
        return ""
    content = message.get("content")
    if isinstance(content, list):
        texts = [
            block["text"]
            for block in content
            if isinstance(block, dict)
            and block.get("type") == "text"
            and isinstance(block.get("text"), str)
        ]
        return "\n\n".join(texts)
    return content if isinstance(content, str) else ""


def _parent(line: Json) -> str | None:
    return _name(line.get("parentUuid")) or _name(line.get("logicalParentUuid"))


def _origin(line: Json) -> str | None:
    """The uuid of a line, or of the line that it is a fork's copy of."""
    forked = line.get("forkedFrom")
    copied = _name(forked.get("messageUuid")) if isinstance(forked, dict) else None
    return copied or _name(line.get("uuid"))


def _model_message(line: Json) -> str:
    """The id of the model's message that a line is a block of; empty where there is none."""
    message = line.get("message")
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str) and line.get("type") == "assistant" else ""


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
