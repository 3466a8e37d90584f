"""From what another program wrote down of a message to the record of it.

An id is made of its time and of a hash of where it comes from, so that the same message comes to
the same id however often it is read, and a source that has grown adds what is new.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from convmem import ids, limits
from convmem.fact import Fact
from convmem.message import MemoryKind, Message, Metadata, Relation, Role
from convmem.records import PutMessage, SetFact
from convmem.transfer.fields import refused
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources.text import clean, cut, pieces

EMPTY = "without any text"
REPEATED = "repeated"
_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "tool": "assistant",
    "function": "assistant",
    "function_call": "assistant",
    "observation": "assistant",
    "system": "system",
    "developer": "system",
}


def role_of(name: object) -> Role | None:
    """Ours for a role of theirs: who instructs is the system, and a tool is the assistant's."""
    return _ROLES.get(name.lower()) if isinstance(name, str) else None


@dataclass(slots=True, kw_only=True)
class Draft:
    """A message as read. ``key`` says which of its source it is, ``time_ms`` None is unknown."""

    key: tuple[object, ...]
    session: str
    time_ms: int | None
    role: Role
    content: str
    place: str
    tags: tuple[str, ...] = ()
    kind: MemoryKind = "conversation"
    tool_call_id: str | None = None
    title: str | None = None
    relations: tuple[Relation, ...] = ()


class Maker:
    """Makes records of drafts, each message once. ``latest_ms`` is when a time is wrong."""

    def __init__(self, source: str, findings: Findings, latest_ms: int) -> None:
        self._source = source
        self.findings = findings
        self._latest_ms = latest_ms
        self._seen: set[bytes] = set()
        self.stand_in_ms = 0
        """The time of messages that nothing tells of: when their file was written."""
        self.count = 0

    def checked_ms(self, time_ms: int | None) -> int | None:
        """A time, where it is possible."""
        if time_ms is None or 0 <= time_ms <= self._latest_ms:
            return time_ms
        self.findings.note("times before 1970 or in the future, not used")
        return None

    def messages(self, draft: Draft) -> Iterator[Incoming]:
        """The message of a draft, or several where it is too long for one; none for a repetition.

        Raises Refusal where a source is too large.
        """
        draft.content = clean(draft.content, self.findings)
        if not draft.content.strip():
            self.findings.skip(EMPTY)
            return
        if not self._is_new(draft.key):
            self.findings.skip(REPEATED)
            return
        metadata = self._metadata(draft)
        previous = b""
        for number, part in enumerate(pieces(draft.content, limits.CONTENT_BYTES_MAX)):
            key = (*draft.key, "part", number) if number else draft.key
            message_id = self.id(key, draft.time_ms)
            if number:
                metadata = Metadata(
                    tags=metadata.tags,
                    memory_kind=metadata.memory_kind,
                    tool_call_id=metadata.tool_call_id,
                    relations=(Relation("continues", previous),),
                )
                self.findings.note("further messages of texts too long for one")
            previous = message_id
            yield self._put(draft, message_id, part, metadata)

    def id(self, key: tuple[object, ...], time_ms: int | None) -> bytes:
        """The id of what has this key and time."""
        time = self.time_of(time_ms).to_bytes(ids.ID_BYTES - ids.RANDOM_BYTES, "big")
        return time + self._hash(key)

    def time_of(self, time_ms: int | None) -> int:
        """What stands in an id: 0 for an unknown time, since a stand-in may be another tomorrow."""
        return self.checked_ms(time_ms) or 0

    def fact(self, key: str, value: str, place: str) -> Iterator[Incoming]:
        """The event of a fact's first value."""
        if not self._is_new(("fact", key)):
            self.findings.skip(REPEATED)
            return
        fact = Fact(
            key=key, value=value, revision=1, set_at=self.stand_in_ms, client_id=self._source
        )
        self._count(place)
        yield Incoming(SetFact(self.id(("fact", key, value), None), fact), place)

    def session_id(self, *parts: str) -> str:
        """The name of a session, within its limit and without what none may hold."""
        name = clean("/".join((self._source, *parts)), self.findings).replace("\0", "\ufffd")
        return shortened(name, limits.SESSION_ID_BYTES_MAX)

    def _metadata(self, draft: Draft) -> Metadata:
        call_id = draft.tool_call_id
        if call_id:
            call_id = clean(call_id, self.findings).replace("\0", "\ufffd")
            call_id = shortened(call_id, limits.TOOL_CALL_ID_BYTES_MAX)
        title = clean(draft.title, self.findings) if draft.title else ""
        if len(title.encode()) > limits.SUMMARY_BYTES_MAX:
            self.findings.note("titles cut")
            title = cut(title, limits.SUMMARY_BYTES_MAX)
        return Metadata(
            tool_call_id=call_id or None,
            tags=("imported", self._source, *draft.tags),
            memory_kind=draft.kind,
            summary=title or None,
            relations=draft.relations[: limits.RELATIONS_MAX],
        )

    def _put(self, draft: Draft, message_id: bytes, content: str, metadata: Metadata) -> Incoming:
        time_ms = self.checked_ms(draft.time_ms)
        if time_ms is None:
            self.findings.note("without a time: that of their file stands in")
            time_ms = self.stand_in_ms
        self._count(draft.place)
        message = Message(
            message_id=message_id,
            session_id=draft.session,
            timestamp=time_ms,
            updated_at=time_ms,
            revision=1,
            role=draft.role,
            content=content,
            metadata=metadata,
            written_by=self._source,
        )
        return Incoming(PutMessage(message), draft.place)

    def _is_new(self, key: tuple[object, ...]) -> bool:
        hashed = self._hash(key)
        if hashed in self._seen:
            return False
        self._seen.add(hashed)
        return True

    def _hash(self, key: tuple[object, ...]) -> bytes:
        return digest(self._source, *key)[: ids.RANDOM_BYTES]

    def _count(self, place: str) -> None:
        if self.count == limits.IMPORT_RECORDS_MAX:
            raise refused(
                place, f"more than {limits.IMPORT_RECORDS_MAX:,} records; import in parts"
            )
        self.count += 1


def digest(*parts: object) -> bytes:
    """A hash of some values, told apart wherever one ends."""
    hashed = hashlib.sha256()
    for part in parts:
        data = str(part).encode(errors="surrogatepass")
        hashed.update(len(data).to_bytes(8, "big") + data)
    return hashed.digest()


def shortened(name: str, bytes_max: int) -> str:
    """A name within a limit: its beginning and a hash of all of it where it is longer."""
    if len(name.encode()) <= bytes_max:
        return name
    return f"{cut(name, bytes_max - 33)}-{digest(name).hex()[:32]}"
