"""The durable records: the closed union of what a log can say about a memory.

A record is a fact that has happened, with every clock reading and id already in it. Applying
the same records in the same order gives the same state, live or on replay.
"""

from dataclasses import dataclass
from typing import NamedTuple

from convmem.message import Message


class Place(NamedTuple):
    """Where a record stands in the log: its frame, and its first byte in the frame's payload."""

    frame_offset: int
    start: int


@dataclass(frozen=True, slots=True)
class PutMessage:
    """A message was written for the first time."""

    message: Message


Record = PutMessage
