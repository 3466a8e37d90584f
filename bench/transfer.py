"""What an export and an import cost: seconds, and memory that is resident at most.

    python -m bench.transfer [--messages N]

A file of N messages of 300 bytes (100,000 unless given), half of them Japanese, is imported into
an empty memory and exported again by the commands, each a process of its own; the two files must
be the same.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.corpus import messages
from bench.measuring import MB
from bench.tables import Cell, show
from convmem.records import PutMessage
from convmem.transfer.lines import Manifest, manifest_line, record_line


def main() -> int:
    parser = argparse.ArgumentParser(description="Time an import and an export.")
    parser.add_argument("--messages", type=int, default=100_000)
    count = parser.parse_args().messages
    with tempfile.TemporaryDirectory(prefix="convmem-transfer-") as folder:
        given, back = Path(folder, "given.jsonl"), Path(folder, "back.jsonl")
        with given.open("w", encoding="utf-8") as file:
            print(manifest_line(Manifest(messages=count)), file=file)
            for message in messages(count):
                print(record_line(PutMessage(message)), file=file)
        rows: list[list[Cell]] = []
        store = ["--data-dir", str(Path(folder, "store"))]
        for name, arguments in (("import", [str(given)]), ("export", [str(back)])):
            rows.append([name, *run(["convmem", name, *arguments, *store])])
        size_mb = given.stat().st_size / MB
        columns = [f"{count:,} messages, {size_mb:.0f} MB", "s", "resident at most, MB"]
        show("transfer.commands", columns, rows)
        if given.read_bytes() != back.read_bytes():
            print("what was exported is not what was imported")
            return 1
    return 0


def run(command: list[str]) -> tuple[float, float]:
    """Seconds and megabytes of a command that is run as a module."""
    code = (
        "import resource, runpy, sys\n"
        "try: runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    arguments = [sys.executable, "-c", f"import sys; sys.argv = sys.argv[1:]\n{code}", *command]
    began = time.perf_counter()
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    took_s = time.perf_counter() - began
    unit = 1 if sys.platform == "darwin" else 1024
    return took_s, int(done.stderr.split()[-1]) * unit / MB


if __name__ == "__main__":
    sys.exit(main())
