"""The tables of docs/performance.md, from what was measured.

    python -m bench.page

Puts each table of ``bench/results.json`` into the place that the page has for it, between
``<!-- table NAME -->`` and ``<!-- end -->``, with the command that measured it, when and with
what. Every table has its place and every place its table. ``tests/test_performance_page.py``
checks that the page shows the file.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from bench import results, tables

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PLACE = re.compile(r"<!-- table (\S+) -->\n.*?<!-- end -->", re.DOTALL)
SHOWN_VERSIONS = ("numpy", "SQLite")


def main() -> int:
    try:
        PAGE.write_text(filled(PAGE.read_text("utf-8"), results.read(RESULTS)), "utf-8")
    except (OSError, ValueError) as problem:
        print(f"{PAGE.name}: {problem}", file=sys.stderr)
        return 1
    return 0


def filled(page: str, found: Mapping[str, results.Result]) -> str:
    """The page with the tables in their places. Raises ValueError if one has no counterpart."""
    blocks = {
        table["name"]: block(table, result)
        for result in found.values()
        for table in result["tables"]
    }
    places = PLACE.findall(page)
    if unlike := blocks.keys() ^ set(places):
        raise ValueError(
            f"without a place, or a place without a table: {', '.join(sorted(unlike))}"
        )
    return PLACE.sub(lambda place: blocks[place[1]], page)


def block(table: results.Table, result: results.Result) -> str:
    """A table in its place, and where it is from."""
    shown = tables.markdown(table["columns"], table["rows"])
    return f"<!-- table {table['name']} -->\n{shown}\n\n{source(result)}\n<!-- end -->"


def source(result: results.Result) -> str:
    """The command, the date, the machine and the versions."""
    taken = result["taken"]
    versions = [f"{name} {taken['versions'][name]}" for name in SHOWN_VERSIONS]
    where = [
        taken["at"].partition("T")[0],
        f"{taken['system']}, {taken['cores']} cores",
        f"Python {taken['python']}",
        *versions,
    ]
    return f"*`{result['command']}`; {', '.join(where)}.*"


if __name__ == "__main__":
    sys.exit(main())
