"""From what is asked to the record that grants it, or a refusal.

Pure: clock and new ids come in as arguments. A decision reads the state and changes nothing;
the caller makes the record durable, then applies it.
"""

from collections.abc import Callable

from convmem import ids
from convmem.errors import Code, Refusal
from convmem.limits import MESSAGE_ID_AHEAD_MS_MAX
from convmem.message import Message, Metadata
from convmem.operations import Command
from convmem.records import PutMessage, Record
from convmem.state import State


def touched_ids(command: Command) -> frozenset[bytes]:
    """The message ids that a decision on the command depends on.

    Two commands that share one are never decided on the same state.
    """
    named = {command.message_id} if command.message_id else set()
    return frozenset(named | set(_targets(command.metadata)))


def decide(
    state: State, command: Command, now_ms: int, new_id: Callable[[], bytes]
) -> Record | Message:
    """The record to make durable, or the stored message if it says the same already.

    Raises Refusal: INVALID_ARGUMENT, NOT_FOUND (a link to nothing), CONFLICT.
    """
    if command.message_id is not None:
        row = state.messages.row(command.message_id)
        if row is not None:
            return _repeated(state.message(row), command)
        _check_not_ahead(command.message_id, now_ms)
    _check_links(state, command.metadata)
    return PutMessage(
        Message(
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
    )


def _repeated(stored: Message, command: Command) -> Message:
    """The stored message, if writing it again would change nothing."""
    asked = (command.session_id, command.role, command.content, command.metadata)
    if asked == (stored.session_id, stored.role, stored.content, stored.metadata):
        return stored
    raise Refusal(
        Code.CONFLICT,
        f"message_id {ids.to_text(stored.message_id)} is taken by another message; "
        "leave message_id out to have a new one assigned",
        message_id=ids.to_text(stored.message_id),
        current_revision=stored.revision,
    )


def _check_not_ahead(message_id: bytes, now_ms: int) -> None:
    """A far future id would drag every later id along with it."""
    ahead_ms = ids.timestamp_ms(message_id) - now_ms
    if ahead_ms > MESSAGE_ID_AHEAD_MS_MAX:
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"message_id {ids.to_text(message_id)} lies {ahead_ms} ms in the future; "
            f"at most {MESSAGE_ID_AHEAD_MS_MAX} ms (a day) are accepted",
        )


def _check_links(state: State, metadata: Metadata) -> None:
    missing = [target for target in _targets(metadata) if state.messages.row(target) is None]
    if missing:
        names = [ids.to_text(target) for target in missing]
        raise Refusal(
            Code.NOT_FOUND,
            f"relations or source_message_ids name no stored message: {', '.join(names)}",
            message_ids=names,
        )


def _targets(metadata: Metadata) -> list[bytes]:
    related = [relation.message_id for relation in metadata.relations]
    return [*related, *metadata.source_message_ids]
