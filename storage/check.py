"""A verdict on a directory, without changing a byte of it: what opening would do, and why.

Every file is named with its verdict; a log also with the place where it stops to verify, the
sequences before that place, and those that verify behind it. Every record is replayed, every
snapshot verified, so this sees what opening from a snapshot does not look at. No lock is
taken: while somebody holds the store, a torn end may be a write under way.
"""

from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum

from . import snapshot
from .errors import (
    CorruptLog,
    ForkedLogs,
    FormatTooNew,
    Holder,
    MissingLog,
    StoreLocked,
    refusals,
)
from .format import GENERATION, SEAL, FileHeader, HeaderFault
from .layout import Listing, log_name, parse
from .lineage import choose
from .medium import Disk
from .place import Hazard
from .recovery import Application, is_unfinished_creation, lost_tail, refuse_orphans
from .scan import Ending, Verdict, agrees, scan, start_of
from .snapshot import Unusable
from .survey import OwnRecords, Range, Survey, Unreadable, ranges_after, survey_all


class Finding(StrEnum):
    """The verdict on a file, or on the store as a whole."""

    SOUND = "sound"
    TORN = "torn"  # an interrupted write: opening cuts it
    DAMAGED = "damaged"  # opening refuses
    TOO_NEW = "too new"  # opening refuses
    FORKED = "forked"  # opening refuses: two histories of one store
    MISSING = "missing"  # opening refuses: parts of a store without their log
    LEFTOVER = "leftover"  # opening removes it
    STRANGE = "strange"  # not the store's: opening leaves it alone
    NONE = "none"  # no store is here: opening makes one


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file. `offset` is where a log stops to verify; None elsewhere.

    `before` and `after` are the sequences that verify before that place and behind it, `lost`
    those between; without anything behind, nobody can tell what is lost.
    """

    name: str
    file_bytes: int
    finding: Finding
    reason: str
    offset: int | None = None
    before: Range | None = None
    after: Range | None = None
    lost: Range | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict. `reason` is empty for a sound store; `asdict` makes it JSON.

    `in_use`: somebody holds the store now, `holder` where their name can be read.
    """

    path: str
    finding: Finding
    reason: str
    files: tuple[FileReport, ...]
    hazards: tuple[Hazard, ...]
    in_use: bool
    holder: Holder | None


def check(disk: Disk, application: Application) -> Report:
    """Judge the store on `disk`, replaying it to a fresh application.

    Raises StoreUnavailable, which beside a store in use may be a file that just went.
    """
    with refusals(disk.path):
        names = disk.names()
        listing = parse(names)
        reports = {
            name: FileReport(name, names[name], Finding.STRANGE, "") for name in listing.strange
        }
        finding, reason = _judge(disk, listing, names, application, reports)
        in_use, holder = _holder(disk)
        files = tuple(reports[name] for name in sorted(reports))
        return Report(disk.path, finding, reason, files, disk.hazards(), in_use, holder)


def _holder(disk: Disk) -> tuple[bool, Holder | None]:
    try:
        disk.refuse_locked()
    except StoreLocked as locked:
        return True, locked.holder
    return False, None


def _judge(
    disk: Disk,
    listing: Listing,
    names: dict[str, int],
    application: Application,
    reports: dict[str, FileReport],
) -> tuple[Finding, str]:
    """The verdict on the whole, and its reason; a report is added for every file."""
    if not listing.generations:
        for found in listing.snapshots:
            reports[found.name] = _leftover(found.name, names[found.name], "its log is missing")
        parts = bool(listing.snapshots) or listing.has_quarantine
        return (Finding.MISSING, "parts of a store, but no log") if parts else (Finding.NONE, "")
    logs = survey_all(disk, listing.generations, application.known_types)
    reports |= {log.name: _report(log) for log in logs}
    if is_unfinished_creation(disk, listing):
        (log,) = logs
        reports[log.name] = _leftover(log.name, log.file_bytes, "its creation was interrupted")
        return Finding.NONE, ""
    try:
        lineage = choose(logs)
        refuse_orphans(disk, listing, lineage)
    except ForkedLogs as error:
        return Finding.FORKED, str(error)
    except FormatTooNew as error:
        return Finding.TOO_NEW, str(error)
    except CorruptLog as error:
        return Finding.DAMAGED, str(error)
    except MissingLog as error:
        return Finding.MISSING, str(error)
    for log in logs:
        if log.generation in (*lineage.superseded, *lineage.discarded):
            reports[log.name] = _leftover(log.name, log.file_bytes, "of no account any more")
    (live,) = (log for log in logs if log.generation == lineage.live)
    if isinstance(live, Survey):
        reports[live.name] = _replayed(disk, live, application)
        lost = _snapshots(disk, listing, names, live.header, reports)
        if lost is not None and reports[live.name].finding in (Finding.SOUND, Finding.TORN):
            shorter = reports[live.name]
            reports[live.name] = replace(shorter, finding=Finding.DAMAGED, reason=lost.reason)
    return reports[live.name].finding, reports[live.name].reason


def _leftover(name: str, file_bytes: int, reason: str) -> FileReport:
    return FileReport(name, file_bytes, Finding.LEFTOVER, reason)


_FINDINGS = {
    Verdict.CLEAN: Finding.SOUND,
    Verdict.TORN: Finding.TORN,
    Verdict.CORRUPT: Finding.DAMAGED,
    Verdict.TOO_NEW: Finding.TOO_NEW,
}


def _report(log: Survey | Unreadable) -> FileReport:
    """What a log is by itself, its records not understood."""
    if isinstance(log, Unreadable):
        too_new = log.fault is HeaderFault.TOO_NEW
        finding = Finding.TOO_NEW if too_new else Finding.DAMAGED
        return FileReport(log.name, log.file_bytes, finding, log.fault.value, offset=0)
    next_seq, first_seq = log.end.position.seq, log.header.first_seq
    finding = _FINDINGS[log.end.ending.verdict]
    reason = "" if finding is Finding.SOUND else log.end.reason
    if finding in (Finding.SOUND, Finding.TORN) and not log.sealed:
        finding, reason = Finding.DAMAGED, "the log is not sealed"
    return FileReport(
        name=log.name,
        file_bytes=log.file_bytes,
        finding=finding,
        reason=reason,
        offset=log.end.position.offset,
        before=Range(first_seq, next_seq - 1) if first_seq < next_seq else None,
        after=log.after,
        lost=Range(next_seq, log.after.first - 1) if log.after else None,
    )


def _replayed(disk: Disk, live: Survey, application: Application) -> FileReport:
    """The report on the live log after the application has seen every record."""
    own = OwnRecords(live.header)
    handlers = dict.fromkeys(application.known_types, application.replay)
    handlers |= {GENERATION: own.take_generation, SEAL: own.take_seal}
    with closing(disk.open(live.name, writable=False)) as file:
        end = scan(file, start_of(live.header), live.header.salt, handlers)
        if end.ending is not Ending.IMPOSSIBLE:
            return _report(live)
        after, after_seal = ranges_after(file, end.position, live.header.salt)
    return _report(replace(live, end=end, after=after, after_seal=after_seal))


def _snapshots(
    disk: Disk,
    listing: Listing,
    names: dict[str, int],
    header: FileHeader,
    reports: dict[str, FileReport],
) -> CorruptLog | None:
    """Report on every snapshot; what the log has lost of one, if anything."""
    lost: CorruptLog | None = None
    for generation, _, name in listing.snapshots:
        size = names[name]
        if generation != header.generation:
            reports[name] = _leftover(name, size, "of an earlier log")
            continue
        loaded = snapshot.load(disk, name, header)
        if isinstance(loaded, Unusable):
            reports[name] = _leftover(name, size, loaded.reason)
            continue
        reports[name] = FileReport(name, size, Finding.SOUND, "")
        with closing(disk.open(log_name(generation), writable=False)) as file:
            if not agrees(loaded.position, file, header.salt):
                lost = lost_tail(loaded)
    return lost
