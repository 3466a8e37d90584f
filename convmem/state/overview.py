"""What a session looks like from outside, derived from the columns when someone asks."""

from collections.abc import Iterator
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


def newest_first(
    messages: MessageTable, sessions: int, end: int, before: int
) -> Iterator[tuple[int, int]]:
    """Sessions, each with the row of its newest message that is there, the newest first.

    Only rows before ``end`` count; sessions whose newest row is not before ``before`` are left
    out, as are those that have none.
    """
    rows = messages.live(np.arange(end, dtype=np.uint32))
    newest = np.full(sessions, -1, dtype=np.int64)
    newest[messages.column("session")[rows]] = rows  # the last assignment stays
    listed = ((newest >= 0) & (newest < before)).nonzero()[0]
    ordered = listed[newest[listed].argsort()[::-1]]
    return ((int(session), int(newest[session])) for session in ordered)
