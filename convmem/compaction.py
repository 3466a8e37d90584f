"""What a compaction keeps: every message that is there, as one PUT record each.

Updates are folded in, deleted messages left out, and links to messages that are gone removed.
What the latest changes came to is kept, for who may yet ask again.
Pure: it reads the state and makes records; the ledger has them written.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from convmem.limits import EFFECT_KEPT_MS
from convmem.message import Message, without_links
from convmem.records import (
    ChangeEffect,
    DeleteFact,
    FactEvent,
    GreatestFactRevision,
    GreatestId,
    PutMessage,
    Record,
)
from convmem.state import State


@dataclass(frozen=True, slots=True)
class Dead:
    """What in a log no longer counts: messages, their updates, links to nothing, purged facts."""

    deleted: int
    updated: int
    dangling: frozenset[bytes]
    purges: int

    def __bool__(self) -> bool:
        return bool(self.deleted or self.updated or self.dangling or self.purges)


def dead(state: State) -> Dead:
    """What a compaction of the state would drop or fold."""
    gone = (target for target in state.links.targets() if state.messages.live_row(target) is None)
    return Dead(
        state.messages.deleted, len(state.patches), frozenset(gone), len(state.facts.purged)
    )


def live_records(
    state: State,
    dangling: AbstractSet[bytes],
    now_ms: int,
    left_out: AbstractSet[bytes] = frozenset(),
) -> Iterator[Record]:
    """The records of a log that holds only what counts, in the order of writing.

    ``left_out`` are messages that count no more, because others take their place.
    """
    greatest = b""
    for row in state.live_rows():
        if left_out and state.messages.id(row) in left_out:
            continue
        message = state.message(row)
        greatest = max(greatest, message.message_id)
        yield PutMessage(_without(message, dangling, now_ms) if dangling else message)
    for record in fact_records(state):
        greatest = max(greatest, record.event_id)
        yield record
    if state.facts.revision_floor:
        yield GreatestFactRevision(state.facts.revision_floor)
    if greatest != state.last_id:
        yield GreatestId(state.last_id)
    for (message_id, event), effect in state.effects.since(now_ms - EFFECT_KEPT_MS):
        yield ChangeEffect(message_id, event, effect.revision, effect.time_ms)


def fact_records(state: State) -> Iterator[FactEvent]:
    """What happened to each key, in order. Of a purge nothing is kept, not even that it was."""
    for history in state.facts:
        for event in history.events:
            record = state.fact_event(event)
            if not (isinstance(record, DeleteFact) and record.purge):
                yield record


def _without(message: Message, dangling: AbstractSet[bytes], now_ms: int) -> Message:
    """The message without its links to nothing: changed, then, and of the next revision."""
    kept = without_links(message.metadata, dangling.__contains__)
    if kept == message.metadata:
        return message
    return replace(message, metadata=kept, revision=message.revision + 1, updated_at=now_ms)
