"""Files that hold conversations, told apart by what is in them, not by their names."""

from pathlib import Path

from convmem.errors import Code, Refusal
from convmem.transfer.export_file import ExportFile
from convmem.transfer.incoming import Source

_HEAD_BYTES = 1 << 16


def detect(path: Path, *, all_branches: bool = False) -> Source:
    """The source at a path. Raises Refusal where nothing known is there; OSError."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if b'"manifest"' in head.partition(b"\n")[0]:
        return ExportFile(path)
    raise Refusal(Code.INVALID_ARGUMENT, f"{path}: no file that can be imported")
