"""The benchmarks: what there is, and all of it in one go.

    python -m bench [--list] [--full] [--data DATA] [--json FILE] [NAME...]

Small sizes take a few minutes; ``--full`` takes the published figures. Every benchmark runs by
itself too (``python -m bench.NAME``). ``--json`` keeps the tables of each, with machine, versions,
date and command; results that the file has of other benchmarks stay. ``bench/results.json`` is what
docs/performance.md shows (``bench.page``, ``bench.plots``). Exit status 1 if one failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench import results
from bench.search_corpora import DATA_VARIABLE
from bench.tables import RESULTS_VARIABLE

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Bench:
    """One program: what it measures, its arguments, and whether it takes the real data."""

    purpose: str
    small: tuple[str, ...] = ()
    full: tuple[str, ...] = ("--full",)
    takes_data: bool = False


BENCHES = {
    "budgets": Bench("bytes, writes, flushes, calls: the gate of CI", (), ()),
    "start": Bench("how soon a host is greeted", ("--rounds", "9"), ()),
    "wire": Bench("calls over stdio, one at a time and many; starts; searches"),
    "storage": Bench("appends, replay, snapshots", ("--appends", "300", "--records", "100000"), ()),
    "messages": Bench("opening, memory, pages, updates, rebuilds"),
    "memory": Bench("memory of a server: started, searched, with a model"),
    "facts": Bench("facts set and read, beside SQLite"),
    "contention": Bench("many clients, one memory", (), ("--peers",)),
    "soak": Bench("long mixed use", ("--minutes", "0.5"), ("--minutes", "30")),
    "transfer": Bench("export and import", ("--messages", "10000"), ()),
    "peers": Bench(
        "the official memory server", ("--count", "1000"), ("--count", "10000", "100000")
    ),
    "semantic": Bench("search by meaning", ("--messages", "10000"), ()),
    "search_speed": Bench("searches and their index, beside others", takes_data=True),
    "search_quality": Bench(
        "what search finds, beside others", ("--sets", "locomo", "--ours"), (), takes_data=True
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benchmarks.")
    parser.add_argument("names", metavar="NAME", nargs="*", choices=[*BENCHES, []])
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--full", action="store_true", help="the sizes of the published figures")
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get(DATA_VARIABLE),
        help=f"folder of the corpora; {DATA_VARIABLE} names it as well",
    )
    parser.add_argument("--json", type=Path, help="keep the results there")
    options = parser.parse_args()
    if options.list:
        for name, bench in BENCHES.items():
            print(f"{name:<16}{bench.purpose}")
        return 0
    data = options.data
    if data and not data.is_dir():
        parser.error(f"{data}: no such folder of corpora")
    try:
        kept = results.read(options.json) if options.json and options.json.exists() else {}
        if options.json:
            results.write(options.json, kept)
    except (OSError, ValueError) as problem:
        parser.error(f"--json {options.json}: {problem}")
    failed = []
    for name in options.names or BENCHES:
        if BENCHES[name].takes_data and data is None:
            print(f"{name}: the corpora are not here (--data), not measured\n", flush=True)
            continue
        kept[name] = run(name, BENCHES[name], options.full, data)
        failed += [name] if kept[name]["status"] else []
        if options.json:
            results.write(options.json, kept)
    print(*(f"{name} failed" for name in failed), sep="\n")
    return 1 if failed else 0


def run(name: str, bench: Bench, full: bool, data: Path | None) -> results.Result:
    """Run one, which prints as it goes; its tables, and how long it took."""
    command = ["python", "-m", f"bench.{name}", *(bench.full if full else bench.small)]
    shown = " ".join([*command, *(["DATA"] if bench.takes_data else [])])
    print(f"$ {shown}", flush=True)
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        tables = Path(folder, "tables.jsonl")
        environment = os.environ | {RESULTS_VARIABLE: str(tables)}
        if data:
            environment[DATA_VARIABLE] = str(data.resolve())
        began_s = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *command[1:]], cwd=ROOT, env=environment, check=False
        )
        took_s = time.perf_counter() - began_s
        print(flush=True)
        return {
            "command": shown,
            "status": done.returncode,
            "seconds": round(took_s, 1),
            "taken": results.taken(),
            "tables": results.tables(tables),
        }


if __name__ == "__main__":
    sys.exit(main())
