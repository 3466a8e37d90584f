"""Text for whoever reads it: a person at a terminal, or a program at the end of a pipe.

What was stored is shown and never obeyed: a control code in it comes out as an escape, at a
terminal and in a pipe, which may end at one. What must be had exactly is had as JSON. Nothing
here prints.
"""

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TextIO

# However narrow the terminal, so much of the last column is shown.
LAST_COLUMN_CELLS_MIN = 20

_GAP = "  "
_CUT = "..."

# What a terminal may act upon (controls), and what reorders or breaks the line it stands in.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_LINE_BREAKS = [0x2028, 0x2029]
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_ESCAPES = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*_CONTROLS, *_LINE_BREAKS, *_DIRECTIONS)
}
_ESCAPES_IN_TEXT = {code: text for code, text in _ESCAPES.items() if chr(code) not in "\n\t"}


class Style(Enum):
    """The few ways in which text stands out: parameters of SGR (ECMA-48, 8.3.117)."""

    STRONG = "1"
    FAINT = "2"
    USER = "36"
    ASSISTANT = "32"
    SYSTEM = "33"


@dataclass(frozen=True, slots=True)
class Terminal:
    """What the output can show. ``columns`` is None where no terminal bounds a line."""

    columns: int | None
    coloured: bool

    def styled(self, text: str, style: Style) -> str:
        """The text, standing out where colours are shown."""
        return f"\x1b[{style.value}m{text}\x1b[0m" if self.coloured and text else text

    def table(self, rows: Sequence[Sequence[str]], styles: Sequence[Style | None]) -> Iterator[str]:
        """Lines of aligned columns; the last one is cut where the terminal ends."""
        widths = [max(map(cells, column)) for column in zip(*rows, strict=True)][:-1]
        taken = sum(widths) + len(_GAP) * len(widths)
        for *row, last in rows:
            filled = [
                text + " " * (width - cells(text)) for text, width in zip(row, widths, strict=True)
            ]
            shown = [*filled, self._cut(last, taken)]
            yield _GAP.join(
                text if style is None else self.styled(text, style)
                for text, style in zip(shown, styles, strict=True)
            ).rstrip()

    def _cut(self, text: str, taken: int) -> str:
        if self.columns is None:
            return text
        room = max(self.columns - taken, LAST_COLUMN_CELLS_MIN)
        if cells(text) <= room:
            return text
        left = room - len(_CUT)
        for place, character in enumerate(text):
            left -= cells(character)
            if left < 0:
                return text[:place] + _CUT
        return text


def terminal_of(stream: TextIO) -> Terminal:
    """What a stream can show. Colours as https://no-color.org and TERM ask."""
    if not stream.isatty():
        return Terminal(columns=None, coloured=False)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    # The old console of Windows shows the codes; Windows Terminal names itself.
    understands = sys.platform != "win32" or "WT_SESSION" in os.environ
    columns = shutil.get_terminal_size().columns
    return Terminal(columns=columns, coloured=understands and not plain)


def safe_text(text: str) -> str:
    """A text of several lines, with nothing in it that a terminal would act upon."""
    return text.translate(_ESCAPES_IN_TEXT)


def safe_line(text: str) -> str:
    """The same on one line: its line breaks and tabs are escaped as well."""
    return text.translate(_ESCAPES)


def cells(text: str) -> int:
    """How many columns a text takes: UAX #11 counts wide letters twice, marks take none."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def local_time(time_ms: int) -> str:
    """A time as ISO 8601 where this machine is, with the offset it has from UTC."""
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
