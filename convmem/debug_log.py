"""A file that tells of every call, for whoever looks for a fault: opened on demand only.

One JSON object on each line: when, which tool, how long, how it ended, and where in the code it
failed if it should not have. Never what was stored or asked: of an error of ours its type and
its place, not its text, which may quote a message.
"""

import json
import os
import traceback
from pathlib import Path

from convmem import host
from convmem.limits import DEBUG_LOG_BYTES_MAX
from convmem.protocol import InvalidArguments, RpcError, ToolError


class DebugLog:
    """Notes calls in a file; the one before it is kept as ``FILE.1`` when it is full.

    Raises OSError where the file cannot be opened. What cannot be written later is left out: a
    full disk must not cost an answer.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = self._open()
        self._size = os.fstat(self._fd).st_size

    def note(self, tool: str, took_s: float, error: BaseException | None) -> None:
        """A call has ended."""
        told: dict[str, object] = {"at": host.now_ms(), "tool": tool, "ms": round(took_s * 1e3, 3)}
        match error:
            case None:
                told["outcome"] = "ok"
            case ToolError(code=code):
                told["outcome"] = str(code)
            case InvalidArguments() | RpcError():
                told["outcome"] = type(error).__name__
            case _:
                frames = traceback.extract_tb(error.__traceback__)
                told["outcome"] = f"failed: {type(error).__name__}"
                told["at_code"] = [f"{at.filename}:{at.lineno} {at.name}" for at in frames]
        line = json.dumps(told).encode() + b"\n"
        if self._size + len(line) > DEBUG_LOG_BYTES_MAX:
            self._turn_over()
        self._size += os.write(self._fd, line)

    def _turn_over(self) -> None:
        os.close(self._fd)
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        self._fd, self._size = self._open(), 0

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        return os.open(self._path, flags, 0o600)
