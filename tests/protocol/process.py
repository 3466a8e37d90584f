"""A server process for tests: every wait is bounded, and none is left behind."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from convmem.protocol import LineReader

from .judge import judged
from .wire import PATIENCE_S, line

ROOT = Path(__file__).parents[2]
EXAMPLE = (sys.executable, "-m", "tests.protocol.example")


class ServerProcess:
    """``stdin`` and ``stdout`` are pipes to us unless given."""

    def __init__(
        self,
        *options: str,
        command: Sequence[str] = EXAMPLE,
        stdin: int | IO[bytes] = subprocess.PIPE,
        stdout: int | IO[bytes] = subprocess.PIPE,
    ) -> None:
        self._lines = LineReader()
        self._arrived: list[bytes | None] = []
        self.process = subprocess.Popen(
            [*command, *options],
            cwd=ROOT,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout
        return self.process.stdout

    def send(self, *messages: object) -> None:
        self.stdin.write(b"".join(map(line, messages)))
        self.stdin.flush()

    def next(self) -> Any:
        """The next message, judged; None at the end of the output."""
        fd = self.stdout.fileno()
        until = time.monotonic() + PATIENCE_S
        while not self._arrived:
            ready, _, _ = select.select([fd], [], [], max(0, until - time.monotonic()))
            assert ready, "no answer"
            data = os.read(fd, 65_536)
            if not data:
                return None
            self._arrived += self._lines.feed(data)
        written = self._arrived.pop(0)
        assert written is not None
        return judged(written)

    def rest(self) -> list[Any]:
        """Every message until the end of the output."""
        messages = []
        while (message := self.next()) is not None:
            messages.append(message)
        return messages

    def ends(self, within_s: float = PATIENCE_S) -> tuple[int, str]:
        """Its exit status and what it wrote to stderr."""
        returncode = self.process.wait(within_s)
        assert self.process.stderr
        return returncode, self.process.stderr.read().decode()
