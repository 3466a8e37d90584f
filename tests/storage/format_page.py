"""Makes docs/format.md from what the library says of itself; a test holds the two in step.

python -m tests.storage.format_page
"""

import importlib
import inspect
from pathlib import Path

from convmem.storage import Ending, Store

PAGE = Path(__file__).parents[2] / "docs" / "format.md"

TITLE = """\
# Format

The files of a store, byte by byte. This page is made from the docstrings of `storage/` by
`python -m tests.storage.format_page`; change them, not it.
"""
SECTIONS = {
    "layout": "Files",
    "format": "Log",
    "scan": "How a log ends",
    "generation": "How a log begins",
    "lineage": "Several logs",
    "snapshot": "Snapshot",
    "recovery": "Opening",
    "repair": "Repair",
}


def page() -> str:
    """The text of docs/format.md."""
    parts = [TITLE]
    for name, heading in SECTIONS.items():
        parts.append(f"## {heading}\n\n{_docstring(name)}\n")
        if name == "scan":
            parts.append(_endings())
    return "\n".join(parts)


def _docstring(name: str) -> str:
    module = importlib.import_module(f"{Store.__module__.rpartition('.')[0]}.{name}")
    text = inspect.getdoc(module)
    assert text is not None
    return text


def _endings() -> str:
    rows = ["| ending | what is seen | verdict |", "| --- | --- | --- |"]
    rows += [f"| `{e.name}` | {e.reason} | {e.verdict.value} |" for e in Ending]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
