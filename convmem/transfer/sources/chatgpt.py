"""The data export of ChatGPT: ``conversations.json``, whole or in shards, or the zip of it.

Each conversation is a tree of messages. What the person sees is the path from the root to
``current_node``; the rest was edited away or answered again.
"""

import re
from collections.abc import Iterator
from typing import Any

from convmem.message import Relation
from convmem.records import PutMessage
from convmem.transfer.incoming import Incoming
from convmem.transfer.sources import text, trees
from convmem.transfer.sources.drafts import Draft, Maker, role_of
from convmem.transfer.sources.files import Part, conversations
from convmem.transfer.sources.source import ForeignSource

_CITATION = re.compile("\ue200[^\ue200\ue201]*\ue201")
_THINKING = {"thoughts", "reasoning_recap"}
_INSTRUCTIONS = {"user_editable_context", "model_editable_context"}
_OF_TOOLS = {"execution_output", "tether_quote", "tether_browsing_display", "sonic_webpage"}
_KNOWN = {"text", "multimodal_text", "code", "system_error"} | _OF_TOOLS


class ChatGPT(ForeignSource):
    """Conversations of ChatGPT."""

    name = "ChatGPT export"
    slug = "chatgpt"

    def _read(self, part: Part, maker: Maker) -> Iterator[Incoming]:
        for place, conversation in conversations(part):
            if not isinstance(conversation, dict) or not isinstance(
                conversation.get("mapping"), dict
            ):
                self.findings.skip("conversations without messages, or of another shape")
                continue
            yield from self._conversation(conversation, place, maker)

    def _conversation(
        self, conversation: dict[str, Any], place: str, maker: Maker
    ) -> Iterator[Incoming]:
        nodes = {
            key: node for key, node in conversation["mapping"].items() if isinstance(node, dict)
        }
        parents = {key: _name(node.get("parent")) for key, node in nodes.items()}
        path = self._path(conversation, nodes, parents)
        order = path + trees.off_path(path, parents)
        if left := trees.branches(path, parents):
            self.findings.note("branches beside what is shown", left)
        if not self._all_branches:
            if hidden := sum(_has_text(nodes[key]) for key in order[len(path) :]):
                self.findings.skip("messages of branches (--all-branches imports them)", hidden)
            order = path
        identity = _name(conversation.get("conversation_id")) or _name(conversation.get("id"))
        identity = identity or next(iter(nodes), "")
        began_ms = text.milliseconds(conversation.get("create_time"))
        title = _name(conversation.get("title"))
        times: dict[str, int | None] = {}
        emitted: dict[str, bytes | None] = {}  # the nearest message at or above a node
        visible = set(path)
        for key in order:
            parent = parents[key]
            above = emitted.get(parent) if parent is not None else None
            before_ms = times.get(parent, began_ms) if parent is not None else began_ms
            draft, time_ms = self._draft(nodes[key], before_ms, maker)
            times[key], emitted[key] = time_ms, above
            if draft is None:
                continue
            draft.key = (identity, draft.key[0] or key)
            draft.session = maker.session_id(identity)
            draft.place = place
            if key not in visible:
                draft.tags += ("branch",)
                if above is not None:
                    draft.relations = (
                        Relation("branch_of" if parent in visible else "reply_to", above),
                    )
            draft.title = title
            for incoming in maker.messages(draft):
                title = None
                if isinstance(incoming.record, PutMessage):
                    emitted[key] = incoming.record.message.message_id
                yield incoming

    def _path(
        self,
        conversation: dict[str, Any],
        nodes: dict[str, dict[str, Any]],
        parents: dict[str, str | None],
    ) -> list[str]:
        leaf = conversation.get("current_node")
        if not isinstance(leaf, str) or leaf not in nodes:
            inner = {parent for parent in parents.values() if parent is not None}
            leaves = [key for key in nodes if key not in inner and _has_text(nodes[key])]
            if leaves:
                self.findings.note("conversations that do not say what is shown: the last leaf is")
            leaf = leaves[-1] if leaves else next(reversed(nodes), None)
        return trees.path_to(leaf, parents)

    def _draft(
        self, node: dict[str, Any], before_ms: int | None, maker: Maker
    ) -> tuple[Draft | None, int | None]:
        """The message of a node, if it is to be kept, and the time at it."""
        message = node.get("message")
        if not isinstance(message, dict):
            return None, before_ms
        self.findings.read += 1
        time_ms = maker.checked_ms(text.milliseconds(message.get("create_time")))
        if time_ms is None:
            time_ms = before_ms
        author = message.get("author")
        author = author if isinstance(author, dict) else {}
        content = message.get("content")
        content = content if isinstance(content, dict) else {"parts": [content]}
        metadata = message.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        role = role_of(author.get("role"))
        reason = _reason_to_skip(role, content, metadata)
        if reason or role is None:
            self.findings.skip(reason or "of a role that is not known")
            return None, time_ms
        if time_ms is not None and message.get("create_time") is None:
            self.findings.note("without a time: that of the message before stands in")
        said = self._said(author, content, metadata, message)
        is_tool = author.get("role") in ("tool", "function") or said.startswith("[call of ")
        draft = Draft(
            key=(_name(message.get("id")),),
            session="",
            time_ms=time_ms,
            role=role,
            content=said,
            place="",
            tags=("tool",) if is_tool else (),
        )
        return draft, time_ms

    def _said(
        self,
        author: dict[str, Any],
        content: dict[str, Any],
        metadata: dict[str, Any],
        message: dict[str, Any],
    ) -> str:
        kind = content.get("content_type", "text")
        if kind not in _KNOWN:
            self.findings.note(f"contents of a kind that is not known: {str(kind)[:60]}")
        said = "\n\n".join(
            found
            for name in ("text", "parts", "result", "title", "url")
            if (found := text.joined(content.get(name), self.findings))
        )
        said, marks = _CITATION.subn("", said)
        if marks:
            self.findings.note("marks of citations, taken out", marks)
        if author.get("role") == "tool" or kind in _OF_TOOLS:
            return text.tool_result(said, self.findings) if said.strip() else ""
        recipient = message.get("recipient")
        if isinstance(recipient, str) and recipient not in ("all", "") and said.strip():
            return text.tool_call(recipient, said, self.findings)
        attached = metadata.get("attachments")
        for each in attached if isinstance(attached, list) else []:
            if isinstance(each, dict):
                mark = text.marked("attachment", each.get("name"), self.findings)
                said = f"{said}\n\n{mark}" if said else mark
        return said


def _reason_to_skip(
    role: str | None, content: dict[str, Any], metadata: dict[str, Any]
) -> str | None:
    kind = content.get("content_type")
    if kind in _THINKING:
        return text.THINKING
    if kind in _INSTRUCTIONS or metadata.get("is_user_system_message"):
        return "custom instructions"
    if metadata.get("is_visually_hidden_from_conversation"):
        return "hidden from the conversation"
    return None if role else "of a role that is not known"


def _has_text(node: dict[str, Any]) -> bool:
    return isinstance(node.get("message"), dict)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
