"""What an import takes in: records, each with the place it stands at, from any source."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from convmem.transfer.lines import Exported


@dataclass(frozen=True, slots=True)
class Incoming:
    """A record, and where it stands for a person to find: ``line 17``."""

    record: Exported
    place: str


@dataclass(slots=True)
class Findings:
    """What the reading of a source came to, beside its records.

    ``read`` counts what could have become a record. ``skipped`` and ``notes`` count, by a
    sentence for a person, what did not, and what became one in another shape.
    """

    read: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    def skip(self, why: str, count: int = 1) -> None:
        """Something read did not become a record."""
        self.skipped[why] = self.skipped.get(why, 0) + count

    def note(self, what: str, count: int = 1) -> None:
        """Something is not as it was there."""
        self.notes[what] = self.notes.get(what, 0) + count


class Source(Protocol):
    """A file, or a folder of files."""

    @property
    def name(self) -> str:
        """What it is, for a person: ``convmem export``."""
        ...

    @property
    def size_bytes(self) -> int:
        """How much there is to read, roughly."""
        ...

    @property
    def findings(self) -> Findings:
        """Of the last reading, complete when that is."""
        ...

    def read(self) -> Iterator[Incoming]:
        """The records, from the start, in the order in which they are to be written.

        Every reading gives the same. Raises Refusal that names the place.
        """
        ...
