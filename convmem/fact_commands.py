"""From what is asked of a fact to the record of what happened: done, or refused for a guard.

Pure, as ``commands`` is. A refusal for a guard is recorded like a change: whoever reads the
history of a key sees who wanted what, and why it did not happen.
"""

from collections.abc import Callable, Sequence

from convmem import operations, records
from convmem.commands import Granted, Settled
from convmem.errors import Code, Refusal
from convmem.fact import Action, Fact, Reason
from convmem.limits import EXCERPT_BYTES, KEY_EFFECTS_MAX
from convmem.operations import FactCommand, JsonObject
from convmem.state import State
from convmem.state.facts import Event

_CODES: dict[Reason, Code] = {
    "value_differs": Code.CONFLICT,
    "revision_differs": Code.CONFLICT,
    "already_exists": Code.ALREADY_EXISTS,
    "not_there": Code.CONFLICT,
}
_TEXTS: dict[Reason, str] = {
    "value_differs": "expected_value is not the present value; read it again and decide anew",
    "revision_differs": "expected_revision {expected} is not the present revision {revision}; "
    "read it again and decide anew",
    "already_exists": "there is a value already, of revision {revision}, and require_absent "
    "was asked for",
    "not_there": "there is no value now, so it cannot be the one expected",
}


def decide_fact(
    state: State, command: FactCommand, now_ms: int, new_id: Callable[[], bytes]
) -> Granted | Settled:
    """What a command leads to. Raises Refusal (NOT_FOUND) for a key that was never named."""
    if (known := _known(state, command)) is not None:
        return Settled(known)
    present = state.fact(command.key)
    action: Action = "set" if isinstance(command, operations.SetFact) else "delete"
    if action == "delete" and present is None and not _may_be_purged(state, command):
        raise Refusal(Code.NOT_FOUND, f"key: there is no fact {command.key!r}; memory_list tells")
    event_id = command.event_id or new_id()
    if (reason := _guarded(command, present)) is not None:
        refused = records.RefuseFact(
            event_id=event_id,
            key=command.key,
            at=now_ms,
            revision=present.revision if present else 0,
            action=action,
            reason=reason,
            value=command.value if isinstance(command, operations.SetFact) else None,
            client_id=command.client_id,
        )
        value = present.value if present else None
        return Granted(refused, _refusal(command, refused.revision, value, reason))
    if isinstance(command, operations.SetFact):
        fact = Fact(
            key=command.key,
            value=command.value,
            revision=state.facts.next_revision(command.key),
            set_at=now_ms,
            client_id=command.client_id,
        )
        return Granted(records.SetFact(event_id, fact), _set(fact, present))
    deleted = records.DeleteFact(
        event_id=event_id,
        key=command.key,
        at=now_ms,
        revision=present.revision if present else 0,
        client_id=command.client_id,
        purge=command.purge,
    )
    return Granted(deleted, _deleted(deleted))


def _known(state: State, command: FactCommand) -> JsonObject | None:
    """What a command came to that was asked before. Raises Refusal if it was refused then."""
    history = state.facts.get(command.key)
    if command.event_id is None or history is None:
        return None
    latest = history.events[-KEY_EFFECTS_MAX:]  # who asks again does so within seconds
    places = [place for place, event in enumerate(latest) if event.event_id == command.event_id]
    if not places:
        return None
    match state.fact_event(latest[places[0]]):
        case records.SetFact(fact=fact):
            return _set(fact, _value_before(state, latest[: places[0]]))
        case records.DeleteFact() as deleted:
            return _deleted(deleted)
        case records.RefuseFact() as refused:
            raise _refusal(command, refused.revision, None, refused.reason)


def _value_before(state: State, events: Sequence[Event]) -> Fact | None:
    """The value that these events led to."""
    for event in reversed(events):
        match state.fact_event(event):
            case records.SetFact(fact=fact):
                return fact
            case records.DeleteFact():
                return None
    return None


def _may_be_purged(state: State, command: FactCommand) -> bool:
    """Whether there is a history to purge, though there is no value."""
    purge = isinstance(command, operations.DeleteFact) and command.purge
    return purge and state.facts.get(command.key) is not None


def _guarded(command: FactCommand, present: Fact | None) -> Reason | None:
    """Which guard of a command does not let it pass, if any."""
    if isinstance(command, operations.SetFact) and command.require_absent and present:
        return "already_exists"
    if command.expected_value is None and command.expected_revision is None:
        return None
    if present is None:
        return "not_there"
    if command.expected_revision not in (None, present.revision):
        return "revision_differs"
    if command.expected_value not in (None, present.value):
        return "value_differs"
    return None


def _refusal(command: FactCommand, revision: int, value: str | None, reason: Reason) -> Refusal:
    """``revision`` is that of the value that is there, 0 if none is; a short one is told."""
    text = _TEXTS[reason].format(expected=command.expected_revision, revision=revision)
    details: JsonObject = {"reason": reason}
    if revision:
        details["current_revision"] = revision
    if value is not None and len(value.encode()) <= EXCERPT_BYTES:
        details["current_value"] = value
    return Refusal(_CODES[reason], f"key {command.key!r}: {text}", **details)


def _set(fact: Fact, previous: Fact | None) -> JsonObject:
    told: JsonObject = {"key": fact.key, "revision": fact.revision, "set_at": fact.set_at}
    if previous is not None:
        told["previous"] = {"value": previous.value, "revision": previous.revision}
    return told


def _deleted(record: records.DeleteFact) -> JsonObject:
    return {"key": record.key, "revision": record.revision, "purged": record.purge}
