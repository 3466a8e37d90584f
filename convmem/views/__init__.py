"""From what is asked to what is known: the answers to queries. Nothing here changes anything."""

from typing import assert_never

from convmem.operations import (
    JsonObject,
    ListFactKeys,
    ListFacts,
    ListSessionIds,
    MessageQuery,
    ReadContent,
    ReadContext,
    ReadExport,
    ReadFact,
    ReadHistory,
    ReadSessions,
)
from convmem.state import State
from convmem.views.context import context
from convmem.views.export import export
from convmem.views.fact_search import search_facts
from convmem.views.facts import fact, fact_history, fact_keys, facts
from convmem.views.messages import content, history
from convmem.views.search import search
from convmem.views.sessions import session_ids, sessions

__all__ = ["answer", "fact_history", "search", "search_facts"]


def answer(state: State, query: MessageQuery | ReadFact | ListFacts | ListFactKeys) -> JsonObject:
    """The reply to a query. Raises Refusal: NOT_FOUND, CONFLICT, INVALID_ARGUMENT, STALE_CURSOR."""
    match query:
        case ReadHistory():
            return history(state, query)
        case ReadContent():
            return content(state, query)
        case ReadContext():
            return context(state, query)
        case ReadSessions():
            return sessions(state, query)
        case ReadExport():
            return export(state, query)
        case ListSessionIds():
            return session_ids(state, query)
        case ReadFact():
            return fact(state, query)
        case ListFacts():
            return facts(state, query)
        case ListFactKeys():
            return fact_keys(state, query)
        case _:
            assert_never(query)
