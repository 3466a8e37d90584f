"""A child process that speaks over its stdin and stdout.

Owns the process: its pipes, its last words on stderr, and its end. Promises that it leaves
no process behind: the child leads a group of its own, and the group ends with it. Stderr is
always drained, since a child blocks on a full pipe; only its tail is kept.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

from .errors import ServerGone
from .limits import READ_BYTES, STDERR_TAIL_BYTES, TERMINATE_TIMEOUT_S
from .pipes import PipeTransport


class Child:
    """A running child and the transport to it. To be made on the event loop."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None
    ) -> None:
        """Start ``command``. ServerGone if the system refuses."""
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise ServerGone(None, str(error)) from error
        process = self._process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        fds = []
        for stream in (process.stdout, process.stdin, process.stderr):
            fds.append(os.dup(stream.fileno()))
            stream.close()
        self.transport = PipeTransport(fds[0], fds[1])
        self._stderr = bytearray()
        self._draining = threading.Thread(target=self._drain, args=(fds[2],), daemon=True)
        self._draining.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Negative for a signal; None while it runs, as far as is known."""
        return self._process.returncode

    @property
    def stderr_tail(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    async def wait(self, timeout_s: float) -> bool:
        """Whether the process has ended, within a time, and said its last words."""
        return await asyncio.to_thread(self._wait, timeout_s)

    async def close(self) -> None:
        """End the input and wait; then ask the group to end and wait; then kill it."""
        ending = asyncio.create_task(self.transport.close())
        if not await self.wait(TERMINATE_TIMEOUT_S):
            self._signal_group(signal.SIGTERM)
            await self.wait(TERMINATE_TIMEOUT_S)
        self.kill()
        await self.wait(TERMINATE_TIMEOUT_S)
        await asyncio.wait({ending}, timeout=TERMINATE_TIMEOUT_S)
        ending.cancel()

    def kill(self) -> None:
        """End the process and all it has started, at once."""
        self._signal_group(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _wait(self, timeout_s: float) -> bool:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._draining.join(timeout_s)
        return True

    def _signal_group(self, signum: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signum)
            else:
                self._process.send_signal(signum)

    def _drain(self, fd: int) -> None:
        while data := os.read(fd, READ_BYTES):
            self._stderr += data
            del self._stderr[:-STDERR_TAIL_BYTES]
        os.close(fd)
