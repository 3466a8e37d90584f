r"""Bytes to lines, within a limit.

    stream := (line "\n")* line?          a last line without its end counts

Owns the buffer of what has arrived of an unfinished line, and nothing about what a line
means. Only the byte 0x0A ends a line: a carriage return, U+2028 and U+0085 are content.

A line over the limit is reported once, as None, and thrown away up to its end; the stream is
in step again at the next line. At no time is more than the limit and one piece of
input held. How the stream was cut into pieces changes nothing.
"""

from .limits import LINE_BYTES_MAX


class LineReader:
    """Collects lines from pieces of a stream."""

    def __init__(self, limit_bytes: int = LINE_BYTES_MAX) -> None:
        self._limit_bytes = limit_bytes
        self._unfinished = bytearray()
        self._discarding = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines, without their ends, that ``data`` completes; None for one too long."""
        lines: list[bytes | None] = []
        *completed, rest = data.split(b"\n")
        for piece in completed:
            self._take(piece, lines)
            if not self._discarding:
                lines.append(bytes(self._unfinished))
            self._unfinished.clear()
            self._discarding = False
        self._take(rest, lines)
        return lines

    def close(self) -> list[bytes]:
        """What is left at the end of the stream: one line, or none."""
        rest = bytes(self._unfinished)
        self._unfinished.clear()
        return [rest] if rest else []

    def _take(self, piece: bytes, lines: list[bytes | None]) -> None:
        if self._discarding:
            return
        if len(self._unfinished) + len(piece) > self._limit_bytes:
            self._unfinished.clear()
            self._discarding = True
            lines.append(None)
        else:
            self._unfinished += piece
