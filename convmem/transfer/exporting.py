"""The lines of an export, out of a state."""

from collections.abc import Iterator
from dataclasses import replace

from convmem.compaction import fact_records
from convmem.message import targets, without_links
from convmem.records import DeleteMessage, PutMessage
from convmem.state import State
from convmem.transfer.lines import Exported, Manifest, manifest_line, record_line


def manifest_of(state: State, *, tombstones: bool) -> Manifest:
    """What an export of the state will hold."""
    return Manifest(
        messages=len(state.messages) - state.messages.deleted,
        fact_events=state.facts.events - len(state.facts.purged),  # a purge is an event itself
        tombstones=state.messages.deleted if tombstones else 0,
    )


def exported_lines(state: State, *, tombstones: bool) -> Iterator[str]:
    """The file's lines, without their ends, the manifest first.

    ``tombstones``: with the ids of messages that were deleted since the last compaction. Links to
    messages that are gone are left out, as a compaction does. Raises InvalidRecord, StorageError.
    """
    yield manifest_line(manifest_of(state, tombstones=tombstones))
    for record in _records(state, tombstones):
        yield record_line(record)


def _records(state: State, tombstones: bool) -> Iterator[Exported]:
    def is_gone(message_id: bytes) -> bool:
        return state.messages.live_row(message_id) is None

    for row in state.live_rows():
        message = state.message(row)
        if targets(message.metadata):
            message = replace(message, metadata=without_links(message.metadata, is_gone))
        yield PutMessage(message)
    yield from fact_records(state)
    if tombstones:
        for row in range(len(state.messages)):
            if state.messages.is_deleted(row):
                yield DeleteMessage(state.messages.id(row), 0, state.messages.revision(row))
