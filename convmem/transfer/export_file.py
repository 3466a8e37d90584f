"""A file that an export wrote, as a source."""

from collections.abc import Iterator
from pathlib import Path

from convmem.limits import IMPORT_BYTES_MAX, IMPORT_LINE_BYTES_MAX, IMPORT_RECORDS_MAX
from convmem.records import DeleteMessage, PutMessage
from convmem.transfer.fields import Unfit, refused
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.lines import Exported, Manifest, read_manifest, read_record


class ExportFile:
    """Reads a file line by line; no more than a line is in memory."""

    name = "convmem export"

    def __init__(self, path: Path) -> None:
        self._path = path
        self.findings = Findings()
        self.size_bytes = path.stat().st_size

    def read(self) -> Iterator[Incoming]:
        """The records of the file. Raises Refusal with line and field; OSError."""
        self.findings = findings = Findings()
        lines = _lines(self._path)
        manifest = _read(lines, "the file is empty: the first line of an export is its manifest")
        counts = dict.fromkeys(("messages", "fact_events", "tombstones"), 0)
        for number, line in lines:
            place = f"line {number}"
            if findings.read == IMPORT_RECORDS_MAX:
                raise refused(place, f"more than {IMPORT_RECORDS_MAX:,} records; split the file")
            findings.read += 1
            try:
                record = read_record(line)
            except Unfit as unfit:
                raise refused(place, unfit) from None
            counts[_kind(record)] += 1
            yield Incoming(record, place)
        if Manifest(**counts) != manifest:
            held = ", ".join(f"{count:,} {name}" for name, count in counts.items())
            raise refused("the end", f"the file holds {held}; its manifest tells of {manifest}")


def _read(lines: Iterator[tuple[int, str]], missing: str) -> Manifest:
    number, line = next(lines, (1, None))
    try:
        if line is None:
            raise Unfit(missing)
        return read_manifest(line)
    except Unfit as unfit:
        raise refused(f"line {number}", unfit) from None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines by number, without their ends. A byte order mark and a last line's end may be."""
    number = decoded_bytes = 0
    with path.open("rb") as file:
        while line := file.readline(IMPORT_LINE_BYTES_MAX + 1):
            number += 1
            place = f"line {number}"
            if len(line) > IMPORT_LINE_BYTES_MAX:
                raise refused(place, f"longer than {IMPORT_LINE_BYTES_MAX:,} bytes")
            decoded_bytes += len(line)
            if decoded_bytes > IMPORT_BYTES_MAX:
                raise refused(place, f"more than {IMPORT_BYTES_MAX:,} bytes; split the file")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                yield number, line.rstrip(b"\r\n").decode()
            except UnicodeDecodeError as error:
                raise refused(place, f"not UTF-8 at byte {error.start}") from None


def _kind(record: Exported) -> str:
    match record:
        case PutMessage():
            return "messages"
        case DeleteMessage():
            return "tombstones"
        case _:
            return "fact_events"
