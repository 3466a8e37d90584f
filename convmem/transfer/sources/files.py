"""The files of a source: plain ones, and those in a zip. Each is read as far as it was long when
it was found: a live file grows, and both readings of an import must come to the same.
"""

import codecs
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from convmem.limits import (
    IMPORT_BYTES_MAX,
    IMPORT_DAMAGE_NAMES_MAX,
    IMPORT_FOREIGN_LINE_BYTES_MAX,
)
from convmem.transfer.fields import refused
from convmem.transfer.incoming import Findings
from convmem.transfer.sources.arrays import DamagedArray, elements

_PIECE_BYTES = 1 << 18
_BOM = b"\xef\xbb\xbf"

DAMAGED = "damaged lines, which are not JSON"
HALF_WRITTEN = "last lines that were only half written"
TOO_LONG = "lines that are too long"


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or with ``member`` one in a zip. ``name`` is how a person finds it."""

    path: Path
    name: str
    size_bytes: int
    modified_ms: int
    member: str | None = None


def part_of(path: Path, name: str | None = None) -> Part:
    """A plain file as it is now. Raises OSError."""
    status = path.stat()
    return Part(path, name or path.name, status.st_size, status.st_mtime_ns // 1_000_000)


def parts_of_zip(path: Path) -> list[Part]:
    """The files of a zip. Raises Refusal, OSError."""
    modified_ms = path.stat().st_mtime_ns // 1_000_000
    try:
        with zipfile.ZipFile(path) as archive:
            return [
                Part(
                    path,
                    f"{path.name}, {each.filename}",
                    each.file_size,
                    modified_ms,
                    each.filename,
                )
                for each in archive.infolist()
                if not each.is_dir()
            ]
    except zipfile.BadZipFile as error:
        raise refused(path.name, f"a damaged zip file: {error}") from error


def lines(part: Part, findings: Findings) -> Iterator[tuple[str, Any]]:
    """The JSON values of a file's lines, with their places. What is damaged is skipped and told."""
    for place, line, is_last in _raw_lines(part, findings):
        try:
            yield place, json.loads(line, strict=False)
        except (ValueError, RecursionError):
            if is_last and not line.endswith(b"\n"):
                findings.skip(HALF_WRITTEN)
            else:
                damaged(findings, place)


def damaged(findings: Findings, place: str) -> None:
    """Note a line that cannot be read, by its place while there are few."""
    findings.skip(DAMAGED)
    if findings.skipped[DAMAGED] <= IMPORT_DAMAGE_NAMES_MAX:
        findings.note(f"damaged: {place}")


def text_lines(part: Part, findings: Findings) -> Iterator[tuple[str, str]]:
    """The lines as text, with their places."""
    for place, line, _ in _raw_lines(part, findings):
        yield place, line.decode(errors="replace")


def _raw_lines(part: Part, findings: Findings) -> Iterator[tuple[str, bytes, bool]]:
    """Lines that are not empty, with their ends, and whether nothing comes behind them."""
    number = taken = 0
    with _open(part) as file:
        while line := file.readline(min(IMPORT_FOREIGN_LINE_BYTES_MAX, part.size_bytes - taken)):
            number += 1
            taken += len(line)
            place = f"{part.name}, line {number}"
            if len(line) == IMPORT_FOREIGN_LINE_BYTES_MAX and not line.endswith(b"\n"):
                while not line.endswith(b"\n") and taken < part.size_bytes:
                    line = file.readline(min(_PIECE_BYTES, part.size_bytes - taken))
                    taken += len(line)
                findings.skip(TOO_LONG)
                findings.note(f"longer than {IMPORT_FOREIGN_LINE_BYTES_MAX:,} bytes: {place}")
                continue
            if number == 1:
                line = line.removeprefix(_BOM)
            if line.strip():
                yield place, line, taken == part.size_bytes


def conversations(part: Part) -> Iterator[tuple[str, Any]]:
    """The elements of a file's array, with their places. Raises Refusal."""
    number = 0
    try:
        for number, element in enumerate(elements(_pieces(part)), 1):
            yield f"{part.name}, conversation {number}", element
    except DamagedArray as error:
        raise refused(f"{part.name}, behind conversation {number}", error) from None


def head(part: Part, size_bytes: int) -> bytes:
    """The beginning of a file. Raises OSError."""
    with _open(part) as file:
        return file.read(min(size_bytes, part.size_bytes)).removeprefix(_BOM)


def _pieces(part: Part) -> Iterator[str]:
    """The text of a file, piece by piece. Raises Refusal where it is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    taken = 0
    with _open(part) as file:
        while data := file.read(min(_PIECE_BYTES, part.size_bytes - taken)):
            try:
                yield decoder.decode(data)
            except UnicodeDecodeError as error:
                raise refused(part.name, f"not UTF-8 near byte {taken + error.start:,}") from None
            taken += len(data)


@contextmanager
def _open(part: Part) -> Iterator[IO[bytes]]:
    if part.size_bytes > IMPORT_BYTES_MAX:
        raise refused(part.name, f"more than {IMPORT_BYTES_MAX:,} bytes; import it in parts")
    if part.member is None:
        with part.path.open("rb") as file:
            yield file
        return
    try:
        # No member gives more than the size it has by the zip's own list.
        with zipfile.ZipFile(part.path) as archive, archive.open(part.member) as member:
            yield io.BufferedReader(member)  # type: ignore[type-var]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise refused(part.name, f"cannot be unpacked: {error}") from error
