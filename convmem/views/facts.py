"""The answers about facts: a value, a list by key, what happened to a key."""

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from convmem import cursors, ids
from convmem.errors import Code, Refusal
from convmem.fact import Fact
from convmem.limits import FACT_EVENTS_SHOWN
from convmem.operations import JsonObject, ListFactKeys, ListFacts, ReadFact, ReadFactHistory
from convmem.pages import Detail, Page, excerpt
from convmem.records import DeleteFact, FactEvent, RefuseFact, SetFact
from convmem.state import State
from convmem.state.facts import Event, KeyHistory


def fact(state: State, query: ReadFact) -> JsonObject:
    """The value of a key, whole, whatever the budget; of its events what fits beside it."""
    found = state.fact(query.key)
    if found is None:
        raise not_there(state, query.key)
    page: Page[JsonObject] = Page(query.max_bytes)
    told = fact_item(found)
    if query.include_events:
        events = _history(state, query.key).events
        _fill(page, state, events[-FACT_EVENTS_SHOWN:])
        told["events"] = page.items
        if len(page.items) < len(events):
            told["events_left_out"] = len(events) - len(page.items)
    return told


def facts(state: State, query: ListFacts) -> JsonObject:
    """The facts by key, after the cursor."""
    scope = f"facts {query.prefix}"
    after = None
    if query.cursor is not None:
        anchor, _ = cursors.decode(query.cursor, scope)
        known = state.facts.with_id(anchor)
        if known is None:
            raise cursors.stale()
        after = known.key
    page: Page[JsonObject] = Page(query.max_bytes, query.limit)
    reply: JsonObject = {"facts": page.items, "total": state.facts.count(query.prefix)}
    last: KeyHistory | None = None
    for history in state.facts.listed(query.prefix, after):
        found = state.fact(history.key)
        if found is None:
            continue
        if page.full or not page.add_detailed(lambda detail, it=found: fact_item(it, detail)):  # type: ignore[misc]
            assert last is not None
            reply["next_cursor"] = cursors.encode(scope, last.fact_id)
            break
        last = history
    return reply


def fact_keys(state: State, query: ListFactKeys) -> JsonObject:
    """The keys of facts, without reading any."""
    listed = state.facts.listed(query.prefix, None)
    return {"keys": [history.key for history in islice(listed, query.limit)]}


def fact_history(
    state: State, query: ReadFactHistory, reads: Iterable[JsonObject] | None
) -> JsonObject:
    """What happened to a key, the newest first, after the cursor.

    ``reads`` are who read it, newest first; None where that is not noted.
    """
    events = _history(state, query.key).events
    scope = f"fact history {query.key}"
    if query.cursor is not None:
        anchor, _ = cursors.decode(query.cursor, scope)
        places = [place for place, event in enumerate(events) if event.event_id == anchor]
        if not places:
            raise cursors.stale()
        events = events[: places[0]]
    page: Page[JsonObject] = Page(query.max_bytes, query.limit)
    _fill(page, state, events)
    reply: JsonObject = {"key": query.key, "events": page.items}
    if len(page.items) < len(events):
        reply["next_cursor"] = cursors.encode(scope, events[-len(page.items)].event_id)
    if query.include_reads:
        newest = islice(reads or (), query.limit)
        reply["reads"] = None if reads is None else list(takewhile(page.reserve, newest))
    return reply


def fact_item(found: Fact, detail: Detail = Detail.WHOLE) -> JsonObject:
    """A fact as a reply shows it. A value that is cut is marked, with the size of the whole."""
    item: JsonObject = {"key": found.key}
    item |= _value(found.value, detail)
    item |= {"revision": found.revision, "set_at": found.set_at}
    if found.client_id is not None:
        item["client_id"] = found.client_id
    return item


def not_there(state: State, key: str) -> Refusal:
    """The refusal for a key without a value."""
    was = "was deleted" if state.facts.get(key) is not None else "was never set"
    return Refusal(Code.NOT_FOUND, f"key: {key!r} {was}; memory_list shows the keys there are")


def _history(state: State, key: str) -> KeyHistory:
    history = state.facts.get(key)
    if history is None:
        raise not_there(state, key)
    return history


def _fill(page: Page[JsonObject], state: State, events: Sequence[Event]) -> None:
    """Take events in, the newest first, as many as the page takes."""
    for event in reversed(events):
        record = state.fact_event(event)
        if page.full or not page.add_detailed(lambda detail, it=record: event_item(it, detail)):  # type: ignore[misc]
            break


def event_item(record: FactEvent, detail: Detail = Detail.WHOLE) -> JsonObject:
    """What happened, when, by whom; of a refusal what was tried and why it was not done."""
    match record:
        case SetFact(event_id, done):
            item = _event(event_id, done.set_at, "set", done.client_id)
            return item | {"revision": done.revision} | _value(done.value, detail)
        case DeleteFact():
            item = _event(record.event_id, record.at, "delete", record.client_id)
            item |= {"revision": record.revision}
            return item | ({"purged": True} if record.purge else {})
        case RefuseFact():
            item = _event(record.event_id, record.at, "refused", record.client_id)
            item |= {"tried": record.action, "reason": record.reason}
            item |= {"current_revision": record.revision} if record.revision else {}
            return item | ({} if record.value is None else _value(record.value, detail))


def _event(event_id: bytes, at: int, action: str, client_id: str | None) -> JsonObject:
    item: JsonObject = {"event_id": ids.to_text(event_id), "at": at, "action": action}
    return item if client_id is None else item | {"client_id": client_id}


def _value(value: str, detail: Detail) -> JsonObject:
    if detail is Detail.WHOLE:
        return {"value": value}
    return {
        "value": excerpt(value),
        "value_bytes": len(value.encode()),
        "value_truncated": True,
    }
