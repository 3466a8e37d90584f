"""What lets a command be asked twice and done once, and what is said where that is not known."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from convmem import ids
from convmem.errors import Code, Refusal
from convmem.operations import (
    Command,
    DeleteFact,
    DeleteMessage,
    Query,
    SetFact,
    UpdateMessage,
    WriteMessage,
)

Operation = TypeVar("Operation", bound=Command | Query)

EVENT_BYTES = 4
"""Of the number of a change: what its record has room for."""


def repeatable(
    operation: Operation, new_id: Callable[[], bytes], random_bytes: Callable[[int], bytes]
) -> Operation:
    """The operation with what tells it from any other, so that it may be asked twice."""
    match operation:
        case WriteMessage(message_id=None):
            return replace(operation, message_id=new_id(), assigned=True)
        case SetFact(event_id=None) | DeleteFact(event_id=None):
            return replace(operation, event_id=new_id())
        case UpdateMessage(event=0) | DeleteMessage(event=0):
            return replace(operation, event=int.from_bytes(random_bytes(EVENT_BYTES)) or 1)
        case _:
            return operation


def unknown(what: str, operation: Command | Query) -> Refusal:
    """A refusal after something was sent: whether it came to be is not known."""
    if isinstance(operation, Query):
        return Refusal(Code.BUSY, what)
    text = f"{what}; what was asked may have come to be"
    if isinstance(operation, WriteMessage) and operation.message_id is not None:
        message_id = ids.to_text(operation.message_id)
        text += f". Write it again with message_id {message_id}: that changes nothing if it did"
        return Refusal(Code.BUSY, text, message_id=message_id)
    return Refusal(Code.BUSY, text)
