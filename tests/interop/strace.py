"""A server under strace: what it does to its store's files between one answer and the next.

Owns strace's options and the reading of its output. Knows the system calls of Linux; does
not know what any of them is for.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from convmem.cli.launch import server_command
from convmem.protocol import BlockingClient

PROBE_TIMEOUT_S = 10.0
# Everything that can change a file or a directory, or make a change durable. A question mark
# before a name passes over what a processor's Linux does not have.
CHANGES = (
    "?write,?writev,?pwrite64,?pwritev,?pwritev2,?ftruncate,?truncate,?fallocate,?sendfile,"
    "?copy_file_range,?fsync,?fdatasync,?sync_file_range,?syncfs,?msync,?rename,?renameat,"
    "?renameat2,?link,?linkat,?unlink,?unlinkat,?mkdir,?mkdirat"
)
_ANSWER = '"{\\"jsonrpc\\"'


def obstacle() -> str | None:
    """Why nothing can be traced here, if so."""
    if shutil.which("strace") is None:
        return "strace is not here"
    probe = subprocess.run(
        ["strace", "-f", "-o", os.devnull, "true"], capture_output=True, timeout=PROBE_TIMEOUT_S
    )
    return "strace is not permitted here" if probe.returncode else None


def recorded(data_dir: Path, record: Path) -> BlockingClient:
    """A client of a server whose changes to files are recorded."""
    return _start(data_dir, ["-o", str(record), "-y", "-e", f"trace={CHANGES}"])


def sabotaged(data_dir: Path, file: Path, call: str, fault: str) -> BlockingClient:
    """A client of a server that has a fault injected into a system call on one file.

    ``fault`` is as strace takes it; ``when=N`` counts the calls of every thread for itself.
    """
    fault = f"inject={call}:{fault}"
    return _start(data_dir, ["-o", os.devnull, "-P", str(file), "-e", f"trace={call}", "-e", fault])


def changes_before_each_answer(record: Path, data_dir: Path) -> list[list[str]]:
    """What was done to the store's files before every answer, and last, after all of them.

    A change reads ``"call file"`` and counts from its return; an answer from the call that
    begins to write it.
    """
    file_of_store = re.compile(re.escape(f"{data_dir}/") + '([^>"]+)')
    changes: list[list[str]] = [[]]
    unfinished: dict[str, str] = {}
    for line in record.read_text(errors="replace").splitlines():
        thread, _, text = line.partition(" ")
        if _ANSWER in text:
            changes.append([])
        elif text.endswith("<unfinished ...>"):
            unfinished[thread] = text
        else:
            if "<... " in text:
                text = unfinished.pop(thread, "")
            if file := file_of_store.search(text):
                call = text.strip().partition("(")[0]
                changes[-1].append(f"{call} {file[1]}")
    return changes


def _start(data_dir: Path, options: Sequence[str]) -> BlockingClient:
    return BlockingClient(["strace", "-f", "-qq", *options, *server_command(data_dir)])
