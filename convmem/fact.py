"""The fact: a value under a key that many clients share, and what happened to it.

The tuples of words double as the stored codes: a word's place is its code in the log. Add
at the end, never reorder, never remove.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Action = Literal["set", "delete"]
Reason = Literal["value_differs", "revision_differs", "already_exists", "not_there"]

ACTIONS: tuple[Action, ...] = get_args(Action)
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The present value of a key. Times are UTC milliseconds since 1970.

    ``revision`` rises with every set of the key and is never used again, also after a deletion.
    ``client_id`` is who set it, where known.
    """

    key: str
    value: str
    revision: int
    set_at: int
    client_id: str | None = None
