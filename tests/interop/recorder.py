"""Stands between a host and a server and writes down what each says.

    python recorder.py LOG SERVER...

A line of LOG is ``{"session": id of this process, "from": "client" or "server", "line": text}``.
Bytes pass as they are. Needs nothing but the standard library.
"""

import json
import os
import subprocess
import sys
import threading
from typing import IO


def copy(source: IO[bytes], target: IO[bytes], who: str, log: int) -> None:
    while line := source.readline():
        entry = {"session": os.getpid(), "from": who, "line": line.decode("utf-8", "replace")}
        os.write(log, json.dumps(entry).encode() + b"\n")
        target.write(line)
        target.flush()
    target.close()


def main() -> int:
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pipe = subprocess.PIPE
    server = subprocess.Popen(sys.argv[2:], stdin=pipe, stdout=pipe)
    assert server.stdin
    assert server.stdout
    said = (sys.stdin.buffer, server.stdin, "client", log)
    threading.Thread(target=copy, args=said, daemon=True).start()
    copy(server.stdout, sys.stdout.buffer, "server", log)
    return server.wait()


if __name__ == "__main__":
    # Not by way of an interpreter's end, which would wait for the thread that reads.
    status = main()
    os._exit(status)
