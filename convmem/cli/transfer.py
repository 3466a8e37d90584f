"""``convmem export`` and ``convmem import``: a memory as a file, and files into a memory."""

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from convmem.api import open_memory
from convmem.cli.ended import ended
from convmem.cli.exits import Exit
from convmem.cli.people import require_store
from convmem.cli.progress import Progress
from convmem.cli.replaced import replaced
from convmem.cli.terminal import safe_line
from convmem.errors import Code, Refusal
from convmem.ledger import Ledger, environment_of_host
from convmem.state import State
from convmem.storage import OsDisk
from convmem.transfer import (
    Outcome,
    Policy,
    Source,
    exported_lines,
    import_all,
    manifest_of,
    picture,
)
from convmem.transfer.sources import detect

STREAM = Path("-")
"""The file that stands for standard input or output."""

_TRIES = 3  # a rebuild may come between; one after the other would be strange


def export(options: argparse.Namespace) -> int:
    """Write all of a memory to a file; the exit status."""
    return ended(lambda: _export(options), on_invalid=Exit.REFUSED)


def import_(options: argparse.Namespace) -> int:
    """Take a file into a memory; the exit status."""
    return ended(lambda: _import(options), on_invalid=Exit.REFUSED)


def _export(options: argparse.Namespace) -> None:
    require_store(options.data_dir)
    with Progress() as progress, _picture(options.data_dir) as state:
        manifest = manifest_of(state, tombstones=options.tombstones)
        total = sum(asdict(manifest).values())
        with _output(options.file) as file:
            for done, line in enumerate(exported_lines(state, tombstones=options.tombstones)):
                file.write(line.encode() + b"\n")
                progress.show("exporting", done, total)
    if options.file != STREAM:
        print(f"Exported to {safe_line(str(options.file))}: {manifest}.", file=sys.stderr)


@contextmanager
def _picture(data_dir: Path) -> Iterator[State]:
    """The state of a memory at one moment, from whoever owns it."""
    with contextlib.ExitStack() as resources:
        for tries_left in reversed(range(_TRIES)):
            with open_memory(data_dir) as memory:
                health = memory.get_system_health()
            if "store" not in health:
                raise Refusal(Code(health["error"]["code"]), health["error"]["message"])
            store = health["store"]
            opening = picture(OsDisk(data_dir), store["generation"], store["log_bytes"])
            try:
                state = resources.enter_context(opening)
                break
            except Refusal:
                if not tries_left:
                    raise
        yield state


@contextmanager
def _output(path: Path) -> Iterator[BinaryIO]:
    if path == STREAM:
        yield sys.stdout.buffer
    else:
        with replaced(path) as file:
            yield file


def _import(options: argparse.Namespace) -> None:
    with _input(options.source) as path:
        source = detect(path, all_branches=options.all_branches)
        policy: Policy = options.policy or ("reject" if source.name == "convmem export" else "keep")
        with Progress() as progress, contextlib.closing(_ledger(options)) as ledger:
            outcome = import_all(
                ledger, source, policy, dry_run=options.dry_run, on_progress=progress.show
            )
            if not options.dry_run and (outcome.messages or outcome.fact_events):
                with contextlib.suppress(Refusal):  # the next start replays more, that is all
                    ledger.snapshot()()
    _report(options, source, outcome)


@contextmanager
def _input(path: Path) -> Iterator[Path]:
    """The file or folder to read; standard input is kept in a file, since it is read twice."""
    if path != STREAM:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="convmem-import-") as folder:
        kept = Path(folder, "standard input")
        with kept.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield kept


def _ledger(options: argparse.Namespace) -> Ledger:
    """The store, which must be free. A trial makes none: it is tried on an empty one."""
    if options.dry_run and not any(options.data_dir.glob("*.cv[ls]")):
        from convmem.storage import MemoryDisk

        return Ledger(MemoryDisk(), environment_of_host())
    return Ledger.open(options.data_dir)


def _report(options: argparse.Namespace, source: Source, outcome: Outcome) -> None:
    findings = source.findings
    if options.json:
        told = {"source": source.name, "dry_run": options.dry_run, "read": findings.read}
        told |= asdict(outcome) | {"skipped": findings.skipped, "notes": findings.notes}
        print(json.dumps(told))
        return
    done = "Would import" if options.dry_run else "Imported"
    print(f"{done} from {safe_line(str(options.source))} ({source.name}):")
    for name, count in asdict(outcome).items():
        if count or name == "messages":
            print(f"{count:>10,}  {name.replace('_', ' ')}")
    for heading, counts in (("skipped", findings.skipped), ("note", findings.notes)):
        for what, count in counts.items():
            print(f"{count:>10,}  {heading}: {safe_line(what)}")
