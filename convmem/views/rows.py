"""From the ids in a question to rows of the state, or the refusal that says there is none."""

from convmem import cursors, ids
from convmem.errors import Code, Refusal
from convmem.state import State


def found_row(state: State, message_id: bytes) -> int:
    """The row of a message that is there. Raises Refusal (NOT_FOUND)."""
    row = state.messages.live_row(message_id)
    if row is None:
        raise Refusal(
            Code.NOT_FOUND, f"message_id: the store holds no message {ids.to_text(message_id)}"
        )
    return row


def anchor_row(state: State, anchor: bytes) -> int:
    """The row where a cursor stands; its message may be deleted. Raises Refusal (STALE_CURSOR)."""
    row = state.messages.row(anchor)
    if row is None:
        raise cursors.stale()
    return row
