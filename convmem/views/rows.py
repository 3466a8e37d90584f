"""From the ids in a question to rows of the state, or the refusal that says there is none."""

from convmem import cursors, ids
from convmem.errors import Code, Refusal
from convmem.operations import JsonObject
from convmem.search import Hit
from convmem.state import State

COSINE_DECIMALS = 4


def found_row(state: State, message_id: bytes) -> int:
    """The row of a message that is there. Raises Refusal (NOT_FOUND)."""
    row = state.messages.live_row(message_id)
    if row is None:
        raise Refusal(
            Code.NOT_FOUND, f"message_id: the store holds no message {ids.to_text(message_id)}"
        )
    return row


def neighbour_rows(state: State, row: int, before: int, after: int) -> tuple[list[int], list[int]]:
    """The rows right before and after one in its session, each side in the order of writing."""
    rows = state.live_rows_of(state.session_of(row))
    place = int(rows.searchsorted(row))
    earlier = rows[max(0, place - before) : place]
    return earlier.tolist(), rows[place + 1 : place + 1 + after].tolist()


def anchor_row(state: State, anchor: bytes) -> int:
    """The row where a cursor stands; its message may be deleted. Raises Refusal (STALE_CURSOR)."""
    row = state.messages.row(anchor)
    if row is None:
        raise cursors.stale()
    return row


def matched_by(hit: Hit) -> JsonObject:
    """Whether it was words or meaning, where both were looked at, and how near it is."""
    if hit.cosine is None:
        return {}
    by = "both" if hit.fields else "semantic"
    return {"matched_by": by, "cosine": round(hit.cosine, COSINE_DECIMALS)}
