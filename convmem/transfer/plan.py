"""What an import comes to, found out by a first reading and carried out by a second.

The first reading judges every record against the store and the rest of the source, and keeps of
it what is an exception: ids, not texts. Nothing is decided in the second. Pure.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from convmem import ids
from convmem.errors import Code, Refusal
from convmem.message import Message, targets
from convmem.records import DeleteFact, DeleteMessage, FactEvent, PutMessage, RefuseFact, SetFact
from convmem.state import State
from convmem.transfer.fields import refused
from convmem.transfer.incoming import Incoming

Policy = Literal["reject", "overwrite", "keep"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
"""What becomes of what is there already and differs: the import is refused, or the source's
counts, or what is there does."""


@dataclass(slots=True)
class Outcome:
    """What an import does, or has done. ``unchanged`` was there already, just so."""

    messages: int = 0
    fact_events: int = 0
    overwritten: int = 0
    deleted: int = 0
    unchanged: int = 0
    kept: int = 0


class Plan:
    """Judges the records of a source one by one; ``finish`` judges what only all of them tell."""

    def __init__(self, state: State, policy: Policy) -> None:
        self._state = state
        self._policy = policy
        self._seen: set[bytes] = set()  # message ids of the source
        self._passed: set[bytes] = set()  # ids of messages and events that are not written
        self._revisions: dict[bytes, int] = {}  # of messages that get another one than they have
        self._wanted: dict[bytes, str] = {}  # what is pointed to, and where first
        self._deleted: set[bytes] = set()  # by tombstones
        self._events: set[bytes] = set()
        self._keys: dict[str, _Key] = {}
        self.left_out: set[bytes] = set()
        """Messages of the store that the source replaces or deletes."""
        self.content_bytes = 0
        self.outcome = Outcome()

    def take(self, incoming: Incoming) -> None:
        """Judge a record. Raises Refusal that names its place."""
        record, place = incoming.record, incoming.place
        match record:
            case PutMessage(message):
                self._message(message, place)
            case DeleteMessage():
                self._tombstone(record, place)
            case _:
                self._event(record, place)

    def finish(self) -> None:
        """Judge what points to what. Raises Refusal."""
        for target, place in self._wanted.items():
            if self.is_gone(target):
                problem = f"points to message {ids.to_text(target)}, which is not there"
                raise refused(place, problem)

    @property
    def is_empty(self) -> bool:
        """Whether the store is as the source wants it already."""
        outcome = self.outcome
        return not (outcome.messages or outcome.fact_events or outcome.deleted)

    def is_gone(self, message_id: bytes) -> bool:
        """Whether a message is not there once this is carried out."""
        if message_id in self._seen:
            return False
        return message_id in self.left_out or self._state.messages.live_row(message_id) is None

    def records(self, incoming: Iterable[Incoming]) -> Iterator[PutMessage | FactEvent]:
        """What is to be written of a second reading."""
        begun: set[str] = set()
        for each in incoming:
            match each.record:
                case PutMessage(message) if message.message_id not in self._passed:
                    revision = self._revisions.get(message.message_id, message.revision)
                    yield PutMessage(replace(message, revision=revision))
                case SetFact(event_id, fact) as event if event_id not in self._passed:
                    begun.add(fact.key)
                    revision = fact.revision + self._keys[fact.key].shift
                    yield replace(event, fact=replace(fact, revision=revision))
                case DeleteFact() | RefuseFact() as event if event.event_id not in self._passed:
                    # Before the first new value it speaks of one that was there already.
                    is_raised = event.revision and event.key in begun
                    shift = self._keys[event.key].shift if is_raised else 0
                    yield replace(event, revision=event.revision + shift)

    def _message(self, message: Message, place: str) -> None:
        message_id = message.message_id
        if message_id in self._seen or message_id in self._deleted:
            raise refused(place, f"message {ids.to_text(message_id)} is in the file already")
        self._seen.add(message_id)
        for target in targets(message.metadata):
            self._wanted.setdefault(target, place)
        row = self._state.messages.row(message_id)
        if row is not None and self._is_there(row, message, place):
            self._passed.add(message_id)
            return
        self.outcome.messages += 1
        self.content_bytes += len(message.content.encode())

    def _is_there(self, row: int, message: Message, place: str) -> bool:
        """Whether a message is not to be written, because of what is or was there."""
        if self._state.messages.is_deleted(row):
            self.outcome.kept += self._policy == "keep"
            return self._policy == "keep"  # what was deleted here does not come back by itself
        stored = self._state.message(row)
        if stored == message:
            self.outcome.unchanged += 1
            return True
        if self._policy == "keep":
            self.outcome.kept += 1
            return True
        name = ids.to_text(message.message_id)
        if self._policy == "reject":
            raise _conflict(place, f"message {name} is there already, and differs")
        if _identity(stored) != _identity(message):
            raise _conflict(place, f"message {name} is another one in this memory", decided=True)
        self.left_out.add(message.message_id)
        self._revisions[message.message_id] = max(message.revision, stored.revision + 1)
        self.outcome.overwritten += 1
        return False

    def _tombstone(self, deletion: DeleteMessage, place: str) -> None:
        if deletion.message_id in self._seen or deletion.message_id in self._deleted:
            name = ids.to_text(deletion.message_id)
            raise refused(place, f"message {name} is in the file already")
        self._deleted.add(deletion.message_id)
        if self._state.messages.live_row(deletion.message_id) is None:
            self.outcome.unchanged += 1
        elif self._policy == "keep":
            self.outcome.kept += 1
        elif self._policy == "reject":
            name = ids.to_text(deletion.message_id)
            raise _conflict(place, f"message {name} is there, and the file deletes it")
        else:
            self.left_out.add(deletion.message_id)
            self.outcome.deleted += 1

    def _event(self, event: FactEvent, place: str) -> None:
        if event.event_id in self._events:
            raise refused(place, f"event {ids.to_text(event.event_id)} is there twice")
        self._events.add(event.event_id)
        key = event.fact.key if isinstance(event, SetFact) else event.key
        known = self._keys.get(key)
        if known is None:
            known = self._keys[key] = _Key(self._state, key)
        try:
            known.follow(event)
        except ValueError as error:
            raise refused(place, error) from None
        if event.event_id in known.present:
            self.outcome.unchanged += 1
        elif known.present and self._policy == "keep":
            self.outcome.kept += 1
        elif known.present and self._policy == "reject":
            raise _conflict(place, f"key {key!r} is there already, with another history")
        else:
            known.begin(event)
            self.outcome.fact_events += 1
            self.outcome.overwritten += bool(known.present)
            return
        self._passed.add(event.event_id)


class _Key:
    """What happens to one key in a source: ``shift`` is added to revisions that are written."""

    def __init__(self, state: State, key: str) -> None:
        history = state.facts.get(key)
        self.present = frozenset(event.event_id for event in history.events) if history else ()
        self._next_revision = state.facts.next_revision(key)
        self._revision = 0  # the last that was given out in the source
        self._has_value = False
        self.shift: int = 0
        self._is_begun = False

    def follow(self, event: FactEvent) -> None:
        """Check that an event follows those before it in the source. Raises ValueError."""
        current = self._revision if self._has_value else 0
        match event:
            case SetFact(fact=fact):
                if fact.revision <= self._revision:
                    raise ValueError(f"revision: {fact.revision} does not rise")
                self._revision, self._has_value = fact.revision, True
            case DeleteFact() | RefuseFact():
                if event.revision != current:
                    raise ValueError(f"revision: {event.revision}, where the key had {current}")
                self._has_value = self._has_value and isinstance(event, RefuseFact)

    def begin(self, event: FactEvent) -> None:
        """Note the first event that is written: from there on revisions must not repeat any."""
        if not self._is_begun and isinstance(event, SetFact):
            self._is_begun = True
            self.shift = max(0, self._next_revision - event.fact.revision)


def judged(
    state: State, policy: Policy, incoming: Iterable[Incoming], on_record: Callable[[], None]
) -> Plan:
    """The plan for a source, read to its end. Raises Refusal."""
    plan = Plan(state, policy)
    for each in incoming:
        plan.take(each)
        on_record()
    plan.finish()
    return plan


def _identity(message: Message) -> tuple[object, ...]:
    return message.session_id, message.role, message.timestamp


def _conflict(place: str, problem: str, *, decided: bool = False) -> Refusal:
    advice = "" if decided else " (--policy overwrite lets the file count)"
    return Refusal(Code.CONFLICT, f"{place}: {problem}{advice}; nothing was imported")
