"""What a session looks like from outside, derived from the columns when someone asks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmem.message import KINDS, ROLES, MemoryKind
from convmem.state.messages import DELETED, HAS_SUMMARY, MessageTable

_SUMMARY_KIND = KINDS.index("summary")
_USER = ROLES.index("user")


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """Counts, times (UTC milliseconds) and the rows that could speak for a session."""

    messages: int
    kinds: dict[MemoryKind, int]
    first_timestamp: int
    last_timestamp: int
    newest_summary: int | None
    newest_with_summary: int | None
    first_user: int | None


def overview(messages: MessageTable, rows: NDArray[np.uint32]) -> SessionOverview:
    """The overview of the session that has these rows (at least one, oldest first)."""
    kinds = messages.column("kind")[rows]
    counts = np.bincount(kinds, minlength=len(KINDS)).tolist()
    timestamps = messages.column("timestamp")[rows]
    summaries = rows[kinds == _SUMMARY_KIND]
    summarised = rows[messages.column("flags")[rows] & HAS_SUMMARY != 0]
    from_user = rows[messages.column("role")[rows] == _USER]
    return SessionOverview(
        messages=len(rows),
        kinds={kind: count for kind, count in zip(KINDS, counts, strict=True) if count},
        first_timestamp=int(timestamps.min()),
        last_timestamp=int(timestamps.max()),
        newest_summary=int(summaries[-1]) if len(summaries) else None,
        newest_with_summary=int(summarised[-1]) if len(summarised) else None,
        first_user=int(from_user[0]) if len(from_user) else None,
    )


def live_messages(messages: MessageTable, sessions: int) -> NDArray[np.int64]:
    """How many messages of each session are there, shape (sessions,), int64."""
    live = messages.column("flags") & DELETED == 0
    return np.bincount(messages.column("session")[live], minlength=sessions)


def newest_rows(messages: MessageTable, sessions: int, end: int) -> NDArray[np.int64]:
    """The last row of each session among the rows before ``end``, -1 where it has none.

    Shape (sessions,), int64. Where sessions repeat in the column, the last assignment stays.
    """
    newest = np.full(sessions, -1, dtype=np.int64)
    newest[messages.column("session")[:end]] = np.arange(end)
    return newest
