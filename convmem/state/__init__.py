"""All that is known about a memory, and the one function that changes it.

``State.apply`` is the only way in, for a live write (after its bytes are durable) and for
replay alike: folding it over the records of a log gives the state, whoever wrote them.
The state holds no text but session names; bodies are read back from the log. A snapshot
(``save``, ``restore``) is the same state as columns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from convmem.errors import InvalidRecord
from convmem.fact import Fact
from convmem.ids import ID_BYTES, NO_ID
from convmem.limits import RECORD_BYTES_BESIDE_CONTENT
from convmem.message import NO_METADATA, Message, Relation
from convmem.records import (
    ChangeEffect,
    DeleteFact,
    DeleteMessage,
    FactEvent,
    GreatestFactRevision,
    GreatestId,
    Place,
    PutMessage,
    Record,
    RefuseFact,
    SetFact,
    UpdateMessage,
    updated,
)
from convmem.state.effects import Effect, EffectTable
from convmem.state.facts import Event, FactTable
from convmem.state.links import LinkKind, LinkTable
from convmem.state.messages import DELETED, MessageTable
from convmem.state.patches import PatchTable
from convmem.state.sessions import SessionTable


class State:
    """Messages, sessions and links as the log tells them.

    ``read_record`` gives back the record at a place in the log; the state calls it for bodies.
    """

    def __init__(self, read_record: Callable[[Place], Record]) -> None:
        self._read_record = read_record
        self.messages = MessageTable()
        self.sessions = SessionTable()
        self.links = LinkTable()
        self.patches = PatchTable()
        self.effects = EffectTable()
        self.facts = FactTable()
        self.last_id = NO_ID

    def apply(self, record: Record, place: Place) -> None:
        """Take in one durable record. Raises InvalidRecord where it cannot follow the past."""
        match record:
            case PutMessage(message):
                self._put(message, place)
            case UpdateMessage():
                self._update(record, place)
            case DeleteMessage():
                self._delete(record)
            case GreatestId(message_id):
                self.last_id = max(self.last_id, message_id)
            case ChangeEffect(message_id, event, revision, time_ms):
                self.effects.add(message_id, event, Effect(revision, time_ms))
            case SetFact() | DeleteFact() | RefuseFact():
                self.facts.apply(record, place)
                self.last_id = max(self.last_id, record.event_id)
            case GreatestFactRevision(revision):
                self.facts.raise_floor(revision)
            case _:
                assert_never(record)

    def message(self, row: int) -> Message:
        """The message of a row as it stands, its body read from the log and verified.

        Raises InvalidRecord if the log holds something else at the places that belong to it.
        """
        message = self.written(row)
        for place in self.patches.places(row):
            update = self._read_record(place)
            if not isinstance(update, UpdateMessage):
                raise InvalidRecord("the log holds another record where an update should be")
            message = updated(message, update)
        return message

    def written(self, row: int) -> Message:
        """The message of a row as it was written, or as the last compaction left it.

        Raises InvalidRecord if the log holds something else at that place.
        """
        record = self._read_record(self.messages.place(row))
        if not isinstance(record, PutMessage):
            raise InvalidRecord("the log holds another record where a message should be")
        if record.message.message_id != self.messages.id(row):
            raise InvalidRecord("the log holds another message where this one should be")
        return record.message

    def fact(self, key: str) -> Fact | None:
        """The fact under a key, its value read from the log and verified; None if there is none.

        Raises InvalidRecord if the log holds something else at its place.
        """
        history = self.facts.get(key)
        place = history.value_place if history else None
        if place is None:
            return None
        match self._read_record(place):
            case SetFact(fact=fact) if fact.key == key:
                return fact
        raise InvalidRecord("the log holds another record where a fact should be")

    def fact_event(self, event: Event) -> FactEvent:
        """What happened, read from the log and verified. Raises InvalidRecord as ``fact`` does."""
        match self._read_record(event.place):
            case SetFact() | DeleteFact() | RefuseFact() as record:
                if record.event_id == event.event_id:
                    return record
        raise InvalidRecord("the log holds another record where that of a fact should be")

    def live_rows(self, first: int = 0) -> Iterator[int]:
        """The rows of all messages that are there, from ``first`` on, oldest first."""
        rows = np.arange(first, len(self.messages), dtype=np.uint32)
        return map(int, self.messages.live(rows))

    def live_rows_of(self, session_id: str) -> NDArray[np.uint32]:
        """The rows of the messages of a session that are there, oldest first: uint32."""
        return self.messages.live(self.sessions.rows(session_id))

    def session_of(self, row: int) -> str:
        """The session that a message belongs to."""
        return self.sessions.name(int(self.messages.column("session")[row]))

    def live_bytes(self) -> int:
        """About what a log of the messages that are there would take."""
        live = self.messages.column("flags") & DELETED == 0
        content_bytes = int(self.messages.column("content_bytes")[live].sum(dtype=np.int64))
        return content_bytes + int(np.count_nonzero(live)) * RECORD_BYTES_BESIDE_CONTENT

    def memory_bytes(self) -> int:
        """What the state occupies, as allocated."""
        tables = self._tables().values()
        return sum(table.memory_bytes() for table in tables)

    def save(self) -> dict[str, NDArray[Any]]:
        """The state as named columns, for a snapshot: copies, so that writes may go on."""
        saved: dict[str, NDArray[Any]] = {"last_id": np.frombuffer(self.last_id, np.uint8)}
        for table, columns in self._tables().items():
            saved |= {f"{table}.{name}": column for name, column in columns.save().items()}
        return saved

    def restore(self, saved: Mapping[str, memoryview]) -> None:
        """Take the columns of a snapshot. Raises InvalidRecord if they do not fit together."""
        for table, columns in self._tables().items():
            prefix = f"{table}."
            columns.restore(
                {
                    name.removeprefix(prefix): column
                    for name, column in saved.items()
                    if name.startswith(prefix)
                }
            )
        self.last_id = bytes(saved.get("last_id", b""))
        if len(self.last_id) != ID_BYTES:
            raise InvalidRecord("the greatest id is missing")

    def _tables(
        self,
    ) -> Mapping[
        str, MessageTable | SessionTable | LinkTable | PatchTable | EffectTable | FactTable
    ]:
        return {
            "messages": self.messages,
            "sessions": self.sessions,
            "links": self.links,
            "patches": self.patches,
            "effects": self.effects,
            "facts": self.facts,
        }

    def _put(self, message: Message, place: Place) -> None:
        # An id greater than all before is new for certain, and almost all are.
        is_new = message.message_id > self.last_id
        if not is_new and self.messages.row(message.message_id) is not None:
            raise InvalidRecord("a message id is written twice")
        session = self.sessions.append(message.session_id, len(self.messages))
        row = self.messages.append(message, session, place)
        if message.metadata is not NO_METADATA:
            self._link(row, message.metadata.relations)
            self.links.add(row, LinkKind.SOURCE, message.metadata.source_message_ids)
        self.last_id = max(self.last_id, message.message_id)

    def _update(self, update: UpdateMessage, place: Place) -> None:
        row = self._live_row(update.message_id)
        if update.revision != self.messages.revision(row) + 1:
            raise InvalidRecord(f"an update to revision {update.revision} skips or repeats one")
        self.messages.update(row, update)
        self.patches.add(row, update, place)
        effect = Effect(update.revision, update.updated_at)
        self.effects.add(update.message_id, update.event, effect)
        if "relations" in update.changes:
            self.links.drop(row, LinkKind.RELATION)
            self._link(row, update.changes["relations"])
        if "source_message_ids" in update.changes:
            self.links.drop(row, LinkKind.SOURCE)
            self.links.add(row, LinkKind.SOURCE, update.changes["source_message_ids"])

    def _link(self, row: int, relations: Sequence[Relation]) -> None:
        related = (relation.message_id for relation in relations)
        self.links.add(row, LinkKind.RELATION, related)

    def _delete(self, deletion: DeleteMessage) -> None:
        row = self._live_row(deletion.message_id)
        if deletion.revision != self.messages.revision(row):
            raise InvalidRecord(f"a deletion of revision {deletion.revision}, not the last one")
        self.messages.delete(row)
        self.patches.drop(row)
        effect = Effect(deletion.revision, deletion.deleted_at)
        self.effects.add(deletion.message_id, deletion.event, effect)
        for kind in LinkKind:
            self.links.drop(row, kind)

    def _live_row(self, message_id: bytes) -> int:
        row = self.messages.live_row(message_id)
        if row is None:
            raise InvalidRecord("a record about a message that is not there")
        return row
