"""The data export of Claude.ai: ``conversations.json``, or the zip that holds it.

Newer exports name the parent of each message: then the messages are a tree and only the path to
the current one, or to the last, is what the person sees.
"""

from collections.abc import Iterator
from typing import Any

from convmem.message import Relation
from convmem.records import PutMessage
from convmem.transfer.incoming import Incoming
from convmem.transfer.sources import text, trees
from convmem.transfer.sources.drafts import Draft, Maker, digest, role_of
from convmem.transfer.sources.files import Part, conversations
from convmem.transfer.sources.source import ForeignSource

_NO_PARENT = "00000000-0000-4000-8000-000000000000"


class ClaudeAi(ForeignSource):
    """Conversations of Claude.ai."""

    name = "Claude.ai export"
    slug = "claude-ai"

    def _read(self, part: Part, maker: Maker) -> Iterator[Incoming]:
        for place, conversation in conversations(part):
            found = turns(conversation)
            if found is None:
                self.findings.skip("conversations without messages, or of another shape")
                continue
            yield from self._conversation(conversation, found, place, maker)

    def _conversation(
        self, conversation: dict[str, Any], found: list[Any], place: str, maker: Maker
    ) -> Iterator[Incoming]:
        nodes: dict[str, dict[str, Any]] = {}
        for number, each in enumerate(found):
            if isinstance(each, dict):
                name = _name(each.get("uuid")) or f"number {number}"
                if name in nodes:
                    self.findings.skip("repeated")
                nodes.setdefault(name, each)
            else:
                self.findings.skip("of another shape than a message")
        parents = self._parents(nodes)
        leaf = conversation.get("current_leaf_message_uuid")
        leaf = leaf if isinstance(leaf, str) and leaf in nodes else next(reversed(nodes), None)
        path = trees.path_to(leaf, parents)
        order = path + trees.off_path(path, parents)
        if left := trees.branches(path, parents):
            self.findings.note("branches beside what is shown", left)
        if not self._all_branches:
            if len(order) > len(path):
                hidden = len(order) - len(path)
                self.findings.skip("messages of branches (--all-branches imports them)", hidden)
            order = path
        identity = _name(conversation.get("uuid")) or digest(*nodes).hex()[:32]
        title = _name(conversation.get("name")) or _name(conversation.get("summary"))
        began_ms = text.milliseconds(conversation.get("created_at"))
        times: dict[str, int | None] = {}
        visible = set(path)
        emitted: dict[str, bytes | None] = {}
        for key in order:
            self.findings.read += 1
            parent = parents[key]
            above = emitted[key] = emitted.get(parent) if parent is not None else None
            time_ms = maker.checked_ms(text.milliseconds(nodes[key].get("created_at")))
            if time_ms is None:
                time_ms = times.get(parent, began_ms) if parent is not None else began_ms
                if time_ms is not None:
                    self.findings.note("without a time: that of the message before stands in")
            times[key] = time_ms
            role = role_of(nodes[key].get("sender") or nodes[key].get("role"))
            if role is None:
                self.findings.skip("of a role that is not known")
                continue
            draft = Draft(
                key=(identity, key),
                session=maker.session_id(identity),
                time_ms=time_ms,
                role=role,
                content=self._said(nodes[key]),
                place=place,
                title=title,
            )
            if key not in visible:
                draft.tags = ("branch",)
                if above is not None:
                    kind = "branch_of" if parent in visible else "reply_to"
                    draft.relations = (Relation(kind, above),)
            for incoming in maker.messages(draft):
                title = None
                if isinstance(incoming.record, PutMessage):
                    emitted[key] = incoming.record.message.message_id
                yield incoming

    def _parents(self, nodes: dict[str, dict[str, Any]]) -> dict[str, str | None]:
        """The parent of each; the one before where none is named, or one that is not there."""
        is_tree = any(_name(node.get("parent_message_uuid")) for node in nodes.values())
        parents: dict[str, str | None] = {}
        before: str | None = None
        for key, node in nodes.items():
            parent = _name(node.get("parent_message_uuid"))
            if is_tree and parent == _NO_PARENT:
                parents[key] = None
            elif is_tree and parent in nodes:
                parents[key] = parent
            else:
                if is_tree and parent:
                    self.findings.note("parents that are not there: the message before stands in")
                parents[key] = before
            before = key
        return parents

    def _said(self, message: dict[str, Any]) -> str:
        content = message.get("content")
        said: list[str] = []
        for block in content if isinstance(content, list) else []:
            if isinstance(block, dict):
                said.append(self._block(block))
        if not any(said):
            plain = message.get("text")
            said = [plain if isinstance(plain, str) else ""]
        attached = message.get("attachments")
        for each in attached if isinstance(attached, list) else []:
            if isinstance(each, dict):
                pasted = each.get("extracted_content")
                name = _name(each.get("file_name"))
                if isinstance(pasted, str) and pasted:
                    said.append(f"[attachment: {name}]\n{pasted}" if name else pasted)
                else:
                    said.append(text.marked("attachment", name, self.findings))
        files = message.get("files")
        for each in files if isinstance(files, list) else []:
            if isinstance(each, dict):
                said.append(text.marked("file", each.get("file_name"), self.findings))
        return "\n\n".join(part for part in said if part)

    def _block(self, block: dict[str, Any]) -> str:
        match block.get("type"):
            case "text" | "voice_note":
                found = block.get("text")
                return found if isinstance(found, str) else ""
            case "thinking" | "redacted_thinking":
                self.findings.note("thinking, left out")
                return ""
            case "tool_use":
                return text.tool_call(block.get("name"), block.get("input"), self.findings)
            case "tool_result":
                result = text.joined(block.get("content"), self.findings)
                is_error = bool(block.get("is_error"))
                return text.tool_result(result, self.findings, is_error=is_error)
            case kind:
                self.findings.note(f"contents of a kind that is not known: {str(kind)[:60]}")
                return text.joined([block], self.findings)


def turns(conversation: object) -> list[Any] | None:
    """The messages of a conversation, None for anything else."""
    if not isinstance(conversation, dict):
        return None
    for name in ("chat_messages", "messages"):
        found = conversation.get(name)
        if isinstance(found, list):
            return found
    return None


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
