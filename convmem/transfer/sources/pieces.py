"""The files of a source: one, those of a folder, or those in a zip; and JSON out of them.

Everything is read piece by piece, however large a file or a line: an export of years of
conversations is one line of 100 MB. Files of others are as they are: what cannot be read in them
is counted and said, and the rest is taken.
"""

import codecs
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from convmem.errors import Code, Refusal
from convmem.limits import IMPORT_BYTES_MAX, IMPORT_VALUE_BYTES_MAX
from convmem.transfer.incoming import Findings

_READ_CHARS = 1 << 20
_DECODER = json.JSONDecoder(strict=False)
_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Piece:
    """One file: its name within the source, its size, when it was last changed, and its bytes."""

    name: str
    size_bytes: int
    changed_ms: int
    open: Callable[[], BinaryIO]


def pieces_of(path: Path) -> list[Piece]:
    """The files of a source that may hold conversations, by name. Raises OSError, Refusal."""
    if path.is_dir():
        found = [each for each in path.rglob("*.json*") if each.is_file()]
        return [_file(each, each.relative_to(path).as_posix()) for each in sorted(found)]
    if zipfile.is_zipfile(path):
        return _members(path)
    return [_file(path, path.name)]


def head_of(piece: Piece, size: int) -> str:
    """The first bytes of a file as text; what is not UTF-8 is replaced."""
    with piece.open() as file:
        return file.read(size).decode("utf-8-sig", "replace")


def json_lines(piece: Piece, findings: Findings) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with one on each line, by the number of the line.

    A line that is no object is counted, the last one also where it is half written.
    """
    with piece.open() as file:
        number = 0
        while line := file.readline(IMPORT_VALUE_BYTES_MAX + 1):
            number += 1
            if len(line) > IMPORT_VALUE_BYTES_MAX:
                raise _too_long(f"{piece.name}, line {number}")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").strip()
            if not text:
                continue
            try:
                found = _glued(text)
            except (ValueError, RecursionError):
                is_last = not line.endswith(b"\n")
                what = "the last line of a file is not whole" if is_last else "lines are not JSON"
                findings.skip(f"{what} (as {piece.name}, line {number})")
                continue
            for value in found:
                if isinstance(value, dict):
                    yield number, value
                else:
                    findings.skip(f"lines are no objects (as {piece.name}, line {number})")


def json_elements(piece: Piece) -> Iterator[Any]:
    """The elements of a file that is one array, bare or the first one of an object, or a value.

    One element at a time is in memory. Raises Refusal for a file that is not JSON.
    """
    with piece.open() as file:
        text = _Text(file, piece.name)
        if text.peek() == "{":
            start = text.buffer
            if '"conversations"' not in start[:200]:
                yield text.value()
                return
            text.skip_to("[")
        if text.peek() != "[":
            raise text.refusal("neither an array nor an object")
        text.take()
        while (next_ := text.peek()) != "]":
            if not next_:
                raise text.refusal("the file ends within its array")
            if next_ == ",":
                text.take()
            else:
                yield text.value()


class _Text:
    """Text that is read as it is needed, and forgotten when it was."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._is_read = False
        self.buffer = ""
        self._read()

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        self.buffer = self.buffer.lstrip(_SPACE)
        while not self.buffer and not self._is_read:
            self._read()
            self.buffer = self.buffer.lstrip(_SPACE)
        return self.buffer[:1]

    def take(self) -> None:
        """Pass over one character."""
        self.buffer = self.buffer[1:]

    def skip_to(self, character: str) -> None:
        """Pass over what comes before a character."""
        _, found, rest = self.buffer.partition(character)
        self.buffer = found + rest

    def value(self) -> Any:
        """The JSON value that is next. Raises Refusal."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self.buffer)
            except (ValueError, RecursionError) as error:
                if self._is_read:
                    raise self.refusal(f"not JSON: {error}") from None
                if len(self.buffer) > IMPORT_VALUE_BYTES_MAX:
                    raise _too_long(self._name) from None
                self._read()
            else:
                if end < len(self.buffer) or self._is_read:
                    self.buffer = self.buffer[end:]
                    return value
                self._read()  # a number may go on

    def refusal(self, problem: str) -> Refusal:
        text = f"{self._name}: {problem}; nothing was imported"
        return Refusal(Code.INVALID_ARGUMENT, text)

    def _read(self) -> None:
        # As much again as there is: a long value is tried a few times only.
        data = self._file.read(max(_READ_CHARS, len(self.buffer)))
        self._is_read = not data
        self.buffer += self._decoder.decode(data, final=not data)


def _glued(text: str) -> list[Any]:
    """The values of a line: one, or several where line ends were lost. Raises ValueError."""
    values = []
    end = 0
    while end < len(text):
        value, end = _DECODER.raw_decode(text, end)
        values.append(value)
        while end < len(text) and text[end] in _SPACE:
            end += 1
    return values


def _file(path: Path, name: str) -> Piece:
    status = path.stat()
    changed_ms = status.st_mtime_ns // 1_000_000
    return Piece(name, status.st_size, changed_ms, lambda: path.open("rb"))


def _members(path: Path) -> list[Piece]:
    changed_ms = path.stat().st_mtime_ns // 1_000_000
    try:
        with zipfile.ZipFile(path) as archive:
            found = [each for each in archive.infolist() if ".json" in each.filename.lower()]
    except zipfile.BadZipFile as error:
        raise Refusal(Code.INVALID_ARGUMENT, f"{path}: {error}; nothing was imported") from None
    if sum(each.file_size for each in found) > IMPORT_BYTES_MAX:
        text = f"{path}: more than {IMPORT_BYTES_MAX:,} bytes when unpacked; nothing was imported"
        raise Refusal(Code.INVALID_ARGUMENT, text)

    def opener(member: str) -> Callable[[], BinaryIO]:
        return lambda: zipfile.ZipFile(path).open(member)  # type: ignore[return-value]

    return [
        Piece(each.filename, each.file_size, changed_ms, opener(each.filename))
        for each in sorted(found, key=lambda each: each.filename)
    ]


def _too_long(place: str) -> Refusal:
    most = f"{IMPORT_VALUE_BYTES_MAX:,} bytes"
    text = f"{place}: a line or conversation of more than {most}; nothing was imported"
    return Refusal(Code.INVALID_ARGUMENT, text)
