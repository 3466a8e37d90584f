"""How far long work is, on one line of a terminal that is gone when the work is done."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from convmem.cli.terminal import terminal_of

_REDRAW_S = 0.1


class Progress:
    """Shown on stderr where that is a terminal, and nowhere else."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = self._stream is not None and terminal_of(self._stream).columns is not None
        self._what = ""
        self._began_s = self._drawn_s = 0.0
        self._shown_chars = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._draw("")

    def show(self, what: str, done: float, total: float | None, unit: str = "records") -> None:
        """So much is done of what is done now, and of how much, where that is known."""
        if not self._is_shown:
            return
        now_s = time.monotonic()
        if what != self._what:
            self._what, self._began_s = what, now_s
        if now_s - self._drawn_s >= _REDRAW_S:
            self._drawn_s = now_s
            self._draw(f"{what}: {_told(done, total, now_s - self._began_s, unit)}")

    def _draw(self, line: str) -> None:
        if self._is_shown and (line or self._shown_chars):
            self._stream.write(f"\r{line.ljust(self._shown_chars)}" + ("" if line else "\r"))
            self._stream.flush()
            self._shown_chars = len(line)


def _told(done: float, total: float | None, took_s: float, unit: str) -> str:
    rate = done / took_s if took_s else 0.0
    told = f"{done:,.0f} {unit}, {rate:,.0f}/s"
    if not total:
        return told
    left = f", {(total - done) / rate:,.0f} s left" if rate else ""
    return f"{min(done / total, 1):4.0%}, {told}{left}"
