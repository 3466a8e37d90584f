"""What the sources of other programs have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from convmem.errors import Code, Refusal
from convmem.limits import MESSAGE_ID_AHEAD_MS_MAX
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources.drafts import Maker
from convmem.transfer.sources.files import Part


class ForeignSource(ABC):
    """Some files of one format. A reading that comes to nothing is refused, with the reasons."""

    name: str
    slug: str
    """The tag of what it gives, its client, and the beginning of its sessions' names."""

    def __init__(self, parts: Sequence[Part], *, all_branches: bool = False) -> None:
        self._parts = parts
        self._all_branches = all_branches
        self._latest_ms = round(datetime.now(UTC).timestamp() * 1000) + MESSAGE_ID_AHEAD_MS_MAX
        self.findings = Findings()
        self.passed_over = 0  # files beside these that are of no known kind
        self.size_bytes = sum(part.size_bytes for part in parts)

    def read(self) -> Iterator[Incoming]:
        """The records of all files. Raises Refusal, OSError."""
        self.findings = Findings()
        if self.passed_over:
            self.findings.note("files of no kind that is known, passed over", self.passed_over)
        maker = Maker(self.slug, self.findings, self._latest_ms)
        for part in self._parts:
            maker.stand_in_ms = min(max(part.modified_ms, 0), self._latest_ms)
            yield from self._read(part, maker)
        if not maker.count:
            reasons = "; ".join(f"{count:,} {why}" for why, count in self.findings.skipped.items())
            text = f"{self.name}: nothing was found to import ({reasons or 'no message is there'})"
            raise Refusal(Code.INVALID_ARGUMENT, text)

    @abstractmethod
    def _read(self, part: Part, maker: Maker) -> Iterator[Incoming]:
        """The records of a file."""
