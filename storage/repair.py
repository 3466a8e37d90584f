"""A new generation from what verifies of a damaged log; nothing of the old one is destroyed.

    copy the log and its snapshots to quarantine, durably
    -> write the next generation from the records that are kept, sealed and durable
    -> remove the old log

The copy is whole before anything else is touched, and the new log is one like any other, so
a crash at any step leaves either the damaged store as it was or the repaired one. What to
give up is a person's choice, never a guess: everything from a place on, or only what does
not verify and what the application then calls impossible.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from .check import Finding, check
from .errors import CorruptLog, FormatTooNew, InvalidRecord, RepairRefused, refusals
from .format import (
    ALIGNMENT,
    BATCH,
    FILE_HEADER_BYTES,
    GENERATION,
    IGNORABLE,
    SEAL,
    Entry,
    FileHeader,
    Frame,
    Generation,
    Origin,
    Record,
    decode_batch,
)
from .generation import write_generation
from .layout import QUARANTINE, Listing, kept_name, log_name, parse
from .limits import COPY_BYTES
from .lineage import choose
from .log import Environment
from .medium import Disk, File
from .recovery import Application, remove_if_possible, remove_logs
from .scan import Position, Verdict, frames_after
from .survey import Range, Survey, Unreadable, salvaged_header, survey_all


@dataclass(frozen=True, slots=True)
class CutAt:
    """Give up everything from this byte of the log on."""

    offset: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Give up only what does not verify, and records that make no sense without it."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A record that verifies and was left out, and why."""

    seq: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done: the new generation, what it lacks, and where the old files are kept.

    `lost` are the sequences of which nothing was taken over.
    """

    generation: int
    records: int
    dropped: tuple[Dropped, ...]
    lost: tuple[Range, ...]
    kept: tuple[str, ...]


def repair(
    disk: Disk, environment: Environment, application: Application, giving_up: CutAt | Skip
) -> Repaired:
    """Put a new generation in the place of a damaged log.

    `application` is a fresh one; what it holds afterwards is of no use.

    Raises RepairRefused (nothing is damaged, or not in a way that giving up records would
    mend; or no frame begins at the place of the cut), FormatTooNew, StoreLocked, DiskFull,
    StoreUnavailable: the store is as it was then, but for copies in quarantine.
    """
    with refusals(disk.path):
        lock = disk.lock(environment.host_id.hex(), environment.now_ms())
        try:
            return _repair(disk, environment, application, giving_up)
        finally:
            lock.release()


def _repair(
    disk: Disk, environment: Environment, application: Application, giving_up: CutAt | Skip
) -> Repaired:
    report = check(disk, application)
    if report.finding is not Finding.DAMAGED:
        raise RepairRefused(report.reason or "nothing is damaged")
    application.reset()
    listing = parse(disk.names())
    damaged = _damaged(disk, listing, application.known_types)
    (verified_end,) = (file.offset for file in report.files if file.name == damaged.name)
    snapshots = [found for found in listing.snapshots if found.generation == damaged.generation]
    logs = [log_name(number) for number in listing.generations if number <= damaged.generation]
    with closing(disk.open(damaged.name, writable=False)) as file:
        header = damaged.header if isinstance(damaged, Survey) else salvaged_header(file)
        if header is None:
            raise RepairRefused(f"{damaged.name}: neither its header nor its first frame verifies")
        salvage = _Salvage(file, damaged.name, header, application, giving_up)
        salvage.survey(verified_end or 0)
        covered = [found.next_seq - 1 for found in snapshots]
        salvage.last_seq = max(salvage.last_seq, _damaged_seq(damaged), *covered)
        kept = tuple(_keep(disk, name) for name in [*logs, *(found.name for found in snapshots)])
        for unfinished in listing.generations:
            if damaged.generation < unfinished:
                disk.unlink(log_name(unfinished))
        origin = _origin(environment, damaged, salvage.last_seq + 1)
        new_header = FileHeader(
            salt=environment.salt(),
            generation=damaged.generation + 1,
            store_id=header.store_id,
            first_seq=origin.parent_next_seq,
            parent=damaged.generation,
        )
        write_generation(disk, new_header, origin, salvage.records()).close()
    remove_logs(disk, logs)
    for found in snapshots:
        remove_if_possible(disk, found.name)
    return Repaired(
        generation=new_header.generation,
        records=salvage.count,
        dropped=tuple(salvage.dropped),
        lost=tuple(salvage.lost),
        kept=kept,
    )


def _damaged_seq(damaged: Survey | Unreadable) -> int:
    """The sequence of the frame that does not verify: it was given once and is not given again."""
    if isinstance(damaged, Survey) and damaged.end.ending.verdict is Verdict.CORRUPT:
        return damaged.end.position.seq
    return 0


def _origin(environment: Environment, damaged: Survey | Unreadable, next_seq: int) -> Generation:
    """What the new log says of the old: that it is longer than all that verifies of it.

    Where the old one verifies as far as its end, with that end.
    """
    chain = 0
    if isinstance(damaged, Survey) and damaged.end.position.seq == next_seq:
        chain = damaged.end.position.chain
    return Generation(
        parent=damaged.generation,
        parent_next_seq=next_seq,
        parent_chain=chain,
        origin=Origin.REPAIRED,
        created_ms=environment.now_ms(),
        host_id=environment.host_id,
    )


def _damaged(disk: Disk, listing: Listing, known_types: frozenset[int]) -> Survey | Unreadable:
    """The log that opening refuses."""
    logs = survey_all(disk, listing.generations, known_types)
    try:
        name = log_name(choose(logs).live)
    except CorruptLog as error:
        name = error.name
    return next(log for log in logs if log.name == name)


def _keep(disk: Disk, name: str) -> str:
    """Copy a file to quarantine, durably; its name there."""
    copy = kept_name(name, disk.names(QUARANTINE))
    with closing(disk.open(name, writable=False)) as old, closing(disk.create(copy)) as new:
        try:
            size = old.size()
            for offset in range(0, size, COPY_BYTES):
                new.pwrite(offset, old.pread(offset, COPY_BYTES))
            new.sync()
        except BaseException:
            with suppress(OSError):
                disk.unlink(copy)
            raise
    disk.sync_directory(QUARANTINE)
    disk.sync_directory()
    return copy


class _Salvage:
    """The records of a damaged log that are kept, and what was left out."""

    def __init__(
        self,
        file: File,
        name: str,
        header: FileHeader,
        application: Application,
        giving_up: CutAt | Skip,
    ) -> None:
        self.last_seq = header.first_seq
        self.count = 0
        self.dropped: list[Dropped] = []
        self.lost: list[Range] = []
        self._file = file
        self._name = name
        self._header = header
        self._application = application
        self._cut = giving_up.offset if isinstance(giving_up, CutAt) else None

    def survey(self, verified_end: int) -> None:
        """Find the last sequence that verifies anywhere. Raises RepairRefused for a wrong cut."""
        fits = self._cut in (None, verified_end)
        for offset, frame in self._frames():
            self.last_seq = frame.seq
            fits = fits or (self._cut == offset and offset < verified_end)
        if not fits:
            raise RepairRefused(f"no frame of {self._name} that verifies begins at {self._cut}")

    def records(self) -> Iterator[Record]:
        """What is kept, in log order."""
        next_seq = self._header.first_seq
        for offset, frame in self._frames():
            if self._cut is not None and self._cut <= offset:
                break
            if next_seq < frame.seq:
                self.lost.append(Range(next_seq, frame.seq - 1))
            yield from self._records_of(offset, frame)
            next_seq = frame.seq + 1
        if next_seq <= self.last_seq:
            self.lost.append(Range(next_seq, self.last_seq))

    def _records_of(self, offset: int, frame: Frame) -> Iterator[Record]:
        if frame.type in (GENERATION, SEAL):
            return
        try:
            alone = [(0, Record(frame.type, frame.payload))]
            records = decode_batch(frame.payload) if frame.type == BATCH else alone
        except InvalidRecord as error:
            self._drop(offset, frame.seq, error)
            return
        for start, record in records:
            if record.type in self._application.known_types:
                try:
                    self._application.replay(Entry(frame.seq, offset, start, *record))
                except InvalidRecord as error:
                    self._drop(offset, frame.seq, error)
                    continue
            elif record.type < IGNORABLE:
                raise FormatTooNew(self._name, offset, f"a record of type {record.type}")
            self.count += 1
            yield record

    def _drop(self, offset: int, seq: int, error: InvalidRecord) -> None:
        if self._cut is not None:
            raise CorruptLog(self._name, offset, error.reason)
        self.dropped.append(Dropped(seq, offset, error.reason))

    def _frames(self) -> Iterator[tuple[int, Frame]]:
        """Every frame of the log that verifies, wherever it stands, sequences rising."""
        before_first = FILE_HEADER_BYTES - ALIGNMENT
        start = Position(before_first, self._header.first_seq, self._header.salt, before_first)
        return frames_after(self._file, start, self._header.salt)
