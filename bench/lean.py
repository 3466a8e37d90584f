"""The least that a client must do: lines out, lines in. What is timed is the server.

``LeanClient`` blocks and checks nothing; it is for measuring only.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from typing import Any, Self

from bench.start import INITIALIZE


class LeanClient:
    """A server and the least that a client must do: lines out, lines in, one call at a time."""

    def __init__(self, command: list[str]) -> None:
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._last_id = 0
        self._arrived = b""
        self.ask("initialize", INITIALIZE["params"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._server as server:
            assert server.stdin is not None
            server.stdin.close()

    @property
    def pid(self) -> int:
        return self._server.pid

    def call(self, tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """The answer of one call."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        result: dict[str, Any] = json.loads(answer)["result"]["structuredContent"]
        return result

    def timed_s(self, tool: str, arguments: Mapping[str, object]) -> float:
        """Seconds of one call."""
        began_s = time.perf_counter()
        self.ask("tools/call", {"name": tool, "arguments": arguments})
        return time.perf_counter() - began_s

    def rate(self, tool: str, arguments: Mapping[str, object], count: int, in_flight: int) -> float:
        """Calls a second, so many of them under way all the time."""
        params = {"name": tool, "arguments": arguments}
        began_s = time.perf_counter()
        for _ in range(in_flight):
            self._send("tools/call", params)
        for done in range(count):
            self._line()
            if done + in_flight < count:
                self._send("tools/call", params)
        return count / (time.perf_counter() - began_s)

    def ask(self, method: str, params: object) -> bytes:
        """The line that answers a request."""
        self._send(method, params)
        return self._line()

    def _send(self, method: str, params: object) -> None:
        self._last_id += 1
        asked = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(asked).encode() + b"\n")

    def _line(self) -> bytes:
        assert self._server.stdout is not None
        while b"\n" not in self._arrived:
            data = self._server.stdout.read(1 << 16)
            assert data, "the server has ended"
            self._arrived += data
        line, _, self._arrived = self._arrived.partition(b"\n")
        return line
