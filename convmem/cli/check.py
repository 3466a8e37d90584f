"""``convmem check`` and ``convmem repair``: what is wrong with a store, and the way out.

``check`` only reads. ``repair`` writes a new generation from what verifies and keeps the old
files in ``quarantine/``; what to give up is the caller's word, never a guess.
"""

import json
import sys
from dataclasses import asdict
from enum import Enum
from pathlib import Path

from convmem.cli.exits import Exit
from convmem.cli.progress import Progress
from convmem.ledger import environment_of_host
from convmem.replica import Replica
from convmem.storage import (
    CutAt,
    Entry,
    FileReport,
    Finding,
    OsDisk,
    Range,
    Report,
    Skip,
    StorageError,
    StoreLocked,
    repair,
)
from convmem.storage import check as check_store

# What opening the store copes with by itself; everything else it refuses.
_FINE = frozenset({Finding.SOUND, Finding.TORN, Finding.NONE})


def check(data_dir: Path, as_json: bool) -> int:
    """Judge the store of a directory; 0 if it opens, 4 if it does not."""
    if not data_dir.is_dir():
        print(f"convmem: {data_dir} is not a directory", file=sys.stderr)
        return Exit.REFUSED
    disk = OsDisk(data_dir)
    try:
        with Progress() as progress:
            report = check_store(disk, _Watched(progress, disk.names()))
    except OSError as error:
        print(f"convmem: {error}", file=sys.stderr)
        return Exit.REFUSED
    if as_json:
        print(json.dumps(asdict(report), default=_plain, indent=2))
    else:
        _show(report)
    return Exit.DONE if report.finding in _FINE else Exit.DAMAGED


class _Watched(Replica):
    """A state that shows how far it has come in its log."""

    def __init__(self, progress: Progress, sizes: dict[str, int]) -> None:
        super().__init__()
        self._progress = progress
        self._log_bytes = max(sizes.values(), default=0)

    def replay(self, entry: Entry) -> None:
        super().replay(entry)
        self._progress.show("checking", entry.frame_offset, self._log_bytes, "bytes")


def repair_store(data_dir: Path, cut_at: int | None) -> int:
    """Put a new generation in the place of a damaged one, giving up what the caller says."""
    giving_up = Skip() if cut_at is None else CutAt(cut_at)
    try:
        done = repair(OsDisk(data_dir), environment_of_host(), Replica(), giving_up)
    except StoreLocked as error:
        print(f"convmem: {error}; stop it first", file=sys.stderr)
        return Exit.LOCKED
    except StorageError as error:
        print(f"convmem: {error}; nothing was changed", file=sys.stderr)
        return Exit.REFUSED
    print(f"Wrote generation {done.generation} with {done.records} records.")
    for lost in done.lost:
        print(f"Lost: {_range(lost)}")
    for dropped in done.dropped:
        print(f"Left out: sequence {dropped.seq} at byte {dropped.offset}: {dropped.reason}")
    print("The old files are kept:")
    for name in done.kept:
        print(f"  {data_dir / name}")
    return 0


def _show(report: Report) -> None:
    print(f"{report.path}: {report.finding.value}{_because(report.reason)}")
    if report.in_use:
        who = f"process {report.holder.pid}" if report.holder else "somebody"
        print(f"  in use by {who}: a torn end may be a write under way")
    for hazard in report.hazards:
        print(f"  warning: {hazard.kind.value} ({hazard.detail})")
    for file in report.files:
        _show_file(file)
    if report.finding is Finding.DAMAGED:
        print("Nothing was changed. To go on with what verifies, keeping the damaged files:")
        print("  convmem repair --skip      gives up only what does not verify")
        print("  convmem repair --cut-at N  gives up everything from byte N on")


def _show_file(file: FileReport) -> None:
    print(f"  {file.name}  {file.file_bytes} bytes  {file.finding.value}{_because(file.reason)}")
    if file.offset is not None and file.finding is not Finding.SOUND:
        print(f"    verifies up to byte {file.offset}")
    for label, span in (("before", file.before), ("lost", file.lost), ("after", file.after)):
        if span is not None and file.finding is Finding.DAMAGED:
            print(f"    {label}: {_range(span)}")


def _range(span: Range) -> str:
    return f"sequences {span.first} to {span.last}"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else str(value)
