"""What a compaction keeps: every message that is there, as one PUT record each.

Updates are folded in, deleted messages left out, and links to messages that are gone removed.
What the latest changes came to is kept, for who may yet ask again.
Pure: it reads the state and makes records; the ledger has them written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from convmem.limits import EFFECT_KEPT_MS
from convmem.message import Message
from convmem.records import ChangeEffect, GreatestId, PutMessage, Record
from convmem.state import State


@dataclass(frozen=True, slots=True)
class Dead:
    """What in a log no longer counts: messages, updates of messages, links to nothing."""

    deleted: int
    updated: int
    dangling: frozenset[bytes]

    def __bool__(self) -> bool:
        return bool(self.deleted or self.updated or self.dangling)


def dead(state: State) -> Dead:
    """What a compaction of the state would drop or fold."""
    gone = (target for target in state.links.targets() if state.messages.live_row(target) is None)
    return Dead(state.messages.deleted, len(state.patches), frozenset(gone))


def live_records(state: State, dangling: frozenset[bytes], now_ms: int) -> Iterator[Record]:
    """The records of a log that holds only what counts, in the order of writing."""
    greatest = b""
    for row in state.live_rows():
        message = state.message(row)
        greatest = max(greatest, message.message_id)
        yield PutMessage(_without(message, dangling) if dangling else message)
    if greatest != state.last_id:
        yield GreatestId(state.last_id)
    for (message_id, event), effect in state.effects.since(now_ms - EFFECT_KEPT_MS):
        yield ChangeEffect(message_id, event, effect.revision, effect.time_ms)


def _without(message: Message, dangling: frozenset[bytes]) -> Message:
    """The message without its links to nothing."""
    metadata = message.metadata
    relations = tuple(link for link in metadata.relations if link.message_id not in dangling)
    sources = tuple(source for source in metadata.source_message_ids if source not in dangling)
    if (relations, sources) == (metadata.relations, metadata.source_message_ids):
        return message
    kept = replace(metadata, relations=relations, source_message_ids=sources)
    return replace(message, metadata=kept)
