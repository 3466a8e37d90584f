"""From what is asked to the record that grants it, or a refusal.

Pure: clock and new ids come in as arguments. A decision reads the state and changes nothing;
the caller makes the record durable, applies it, and gives the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import assert_never

from convmem import ids, operations, records
from convmem.errors import Code, Refusal
from convmem.limits import MESSAGE_ID_AHEAD_MS_MAX
from convmem.message import Message, Metadata, targets, without_links
from convmem.operations import JsonObject, MessageCommand, WriteCommand
from convmem.records import FactEvent, MessageRecord
from convmem.state import State


@dataclass(frozen=True, slots=True)
class Granted:
    """What to make durable, and what to answer then: a refusal too may be worth a record."""

    record: MessageRecord | FactEvent
    answer: JsonObject | Refusal

    @property
    def given_id(self) -> bytes:
        """The id that was given out for it, or one that was before."""
        match self.record:
            case records.SetFact() | records.DeleteFact() | records.RefuseFact() as record:
                return record.event_id
            case records.PutMessage(message):
                return message.message_id
            case record:
                return record.message_id


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing has to be written: the state is as asked already."""

    answer: JsonObject


def touched(command: WriteCommand) -> frozenset[bytes | str]:
    """The message ids and the keys of facts that a decision on the command depends on.

    Two commands that share one are never decided on the same state.
    """
    match command:
        case operations.WriteMessage():
            named = [command.message_id] if command.message_id else []
            return frozenset([*named, *targets(command.metadata)])
        case operations.UpdateMessage():
            linked = targets(_metadata_of(command.changes))
            return frozenset([command.message_id, *linked])
        case operations.DeleteMessage():
            return frozenset([command.message_id])
        case operations.SetFact() | operations.DeleteFact():
            return frozenset([command.key])
        case _:
            assert_never(command)


def decide(
    state: State, command: MessageCommand, now_ms: int, new_id: Callable[[], bytes]
) -> Granted | Settled:
    """What a command leads to.

    Raises Refusal: INVALID_ARGUMENT, NOT_FOUND (the message, or a link's target), CONFLICT.
    """
    match command:
        case operations.WriteMessage():
            return _write(state, command, now_ms, new_id)
        case operations.UpdateMessage():
            return _update(state, command, now_ms)
        case operations.DeleteMessage():
            return _delete(state, command, now_ms)
        case _:
            assert_never(command)


def _write(
    state: State, command: operations.WriteMessage, now_ms: int, new_id: Callable[[], bytes]
) -> Granted | Settled:
    if command.message_id is not None:
        row = state.messages.row(command.message_id)
        if row is not None:
            return _own(state, row) if command.assigned else _repeat(state, row, command)
        if not command.assigned:
            _check_brought_id(command.message_id, now_ms)
    _check_links(state, command.metadata)
    message = Message(
        message_id=command.message_id or new_id(),
        session_id=command.session_id,
        timestamp=now_ms,
        updated_at=now_ms,
        revision=1,
        role=command.role,
        content=command.content,
        metadata=command.metadata,
        written_by=command.client_id,
    )
    return Granted(records.PutMessage(message), _written(message, created=True))


def _own(state: State, row: int) -> Settled:
    """The answer that a write had when its message came to be, whatever became of it since."""
    return Settled(
        {
            "message_id": ids.to_text(state.messages.id(row)),
            "timestamp": int(state.messages.column("timestamp")[row]),
            "revision": 1,
            "created": True,
        }
    )


def _repeat(state: State, row: int, command: operations.WriteMessage) -> Settled:
    """Writing a message again settles it, if this is what it is, or was when it was written."""
    name = ids.to_text(state.messages.id(row))
    if state.messages.is_deleted(row):
        raise Refusal(Code.CONFLICT, f"message_id {name} was deleted", message_id=name)
    stored = state.message(row)
    if not (_asks_for(state, command, stored) or _asks_for(state, command, state.written(row))):
        raise Refusal(
            Code.CONFLICT,
            f"message_id {name} is taken by another message, or by this one as it was before a "
            "rebuild; read it, or leave the id out to have a new one",
            message_id=name,
            current_revision=stored.revision,
        )
    return Settled(_written(stored, created=False))


def _asks_for(state: State, command: operations.WriteMessage, message: Message) -> bool:
    """Whether a write leads to this message; a rebuild may have dropped links of it since."""

    def is_gone(message_id: bytes) -> bool:
        return state.messages.live_row(message_id) is None

    asked = (command.session_id, command.role, command.content)
    return asked == (message.session_id, message.role, message.content) and (
        without_links(command.metadata, is_gone) == without_links(message.metadata, is_gone)
    )


def _update(state: State, command: operations.UpdateMessage, now_ms: int) -> Granted | Settled:
    if (effect := state.effects.find(command.message_id, command.event)) is not None:
        return Settled(_updated(command.message_id, *effect, list(command.changes)))
    row = _expected_row(state, command.message_id, command.expected_revision)
    message = state.message(row)
    changes = {
        name: value for name, value in command.changes.items() if value != _field(message, name)
    }
    if not changes:
        return Settled(_updated(message.message_id, message.revision, message.updated_at, []))
    _check_links(state, _metadata_of(changes))
    revision = message.revision + 1
    update = records.UpdateMessage(message.message_id, now_ms, revision, changes, command.event)
    return Granted(update, _updated(message.message_id, revision, now_ms, list(changes)))


def _delete(state: State, command: operations.DeleteMessage, now_ms: int) -> Granted | Settled:
    if (effect := state.effects.find(command.message_id, command.event)) is not None:
        return Settled(_deleted(command.message_id, effect.revision))
    row = _expected_row(state, command.message_id, command.expected_revision)
    session_id = state.session_of(row)
    if command.session_id not in (None, session_id):
        raise Refusal(
            Code.CONFLICT,
            f"session_id: message {ids.to_text(command.message_id)} is not in session "
            f"{command.session_id!r}; nothing was deleted",
        )
    revision = state.messages.revision(row)
    deletion = records.DeleteMessage(command.message_id, now_ms, revision, command.event)
    return Granted(deletion, _deleted(command.message_id, revision))


def _expected_row(state: State, message_id: bytes, expected_revision: int | None) -> int:
    """The row of a message that is there, with the expected revision where one is given."""
    row = state.messages.live_row(message_id)
    if row is None:
        raise Refusal(
            Code.NOT_FOUND, f"message_id: the store holds no message {ids.to_text(message_id)}"
        )
    revision = state.messages.revision(row)
    if expected_revision not in (None, revision):
        raise Refusal(
            Code.CONFLICT,
            f"expected_revision {expected_revision} is not the message's revision {revision}; "
            "read it again and decide anew",
            current_revision=revision,
        )
    return row


def _check_brought_id(message_id: bytes, now_ms: int) -> None:
    """The id of zeros means no id; a far future one would drag every later id along with it."""
    if message_id == ids.NO_ID:
        raise Refusal(Code.INVALID_ARGUMENT, "message_id: the ULID of zeros is no message's")
    ahead_ms = ids.timestamp_ms(message_id) - now_ms
    if ahead_ms > MESSAGE_ID_AHEAD_MS_MAX:
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"message_id {ids.to_text(message_id)} lies {ahead_ms} ms in the future; "
            f"at most {MESSAGE_ID_AHEAD_MS_MAX} ms (a day) are accepted",
        )


def _check_links(state: State, metadata: Metadata) -> None:
    missing = [id_ for id_ in targets(metadata) if state.messages.live_row(id_) is None]
    if missing:
        names = [ids.to_text(target) for target in missing]
        raise Refusal(
            Code.NOT_FOUND,
            f"relations or source_message_ids name no stored message: {', '.join(names)}",
            message_ids=names,
        )


_METADATA_FIELDS = frozenset(field.name for field in fields(Metadata))


def _metadata_of(changes: operations.Changes) -> Metadata:
    """The changed fields of metadata, the others as if nothing were known."""
    return Metadata(**{name: changes[name] for name in changes if name in _METADATA_FIELDS})


def _field(message: Message, name: str) -> object:
    return message.content if name == "content" else getattr(message.metadata, name)


def _written(message: Message, *, created: bool) -> JsonObject:
    return {
        "message_id": ids.to_text(message.message_id),
        "timestamp": message.timestamp,
        "revision": message.revision,
        "created": created,
    }


def _updated(message_id: bytes, revision: int, updated_at: int, changed: list[str]) -> JsonObject:
    return {
        "message_id": ids.to_text(message_id),
        "revision": revision,
        "updated_at": updated_at,
        "changed": changed,
    }


def _deleted(message_id: bytes, revision: int) -> JsonObject:
    return {"message_id": ids.to_text(message_id), "revision": revision}
