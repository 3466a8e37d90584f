"""Which messages pass the filters of a search, by the columns alone."""

import numpy as np
from numpy.typing import NDArray

from convmem.message import KINDS, ROLES
from convmem.operations import SearchMessages
from convmem.state.messages import DELETED, TIER_CODES, MessageTable
from convmem.state.sessions import SessionTable


def passing(
    messages: MessageTable, sessions: SessionTable, query: SearchMessages
) -> NDArray[np.bool_]:
    """The messages that are there and pass every filter but the tags: shape (rows,)."""
    passes: NDArray[np.bool_] = messages.column("flags") & DELETED == 0
    if query.session_id is not None:
        in_session = np.zeros(len(passes), bool)
        in_session[sessions.rows(query.session_id)] = True
        passes &= in_session
    if query.role is not None:
        passes &= messages.column("role") == ROLES.index(query.role)
    if query.memory_kind is not None:
        passes &= messages.column("kind") == KINDS.index(query.memory_kind)
    if query.memory_tier is not None:
        passes &= messages.column("tier") == TIER_CODES[query.memory_tier]
    if query.min_importance is not None:
        passes &= messages.column("importance") >= query.min_importance
    if query.since is not None:
        passes &= messages.column("timestamp") >= query.since
    if query.until is not None:
        passes &= messages.column("timestamp") <= query.until
    return passes
