"""Results as tables: printed for people, kept as JSON for docs/performance.md and the plots.

A table has a name, ``BENCH.WHAT``, columns with their units (the first one names the row), and
rows of texts, numbers, lists of numbers (a median and a percentile) and None (not measured).
"""

import json
import os
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

RESULTS_VARIABLE = "CONVMEM_BENCH_RESULTS"
"""Names the file to which a run under ``python -m bench`` adds each table, a line of JSON each."""

DIGITS = 3
NOT_MEASURED = "–"  # noqa: RUF001 - a dash in a table

Cell = str | float | Sequence[float] | None


def show(name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table, and keep it where the runner asks for it."""
    print(f"\n{name}\n{markdown(columns, rows)}", flush=True)
    if file := os.environ.get(RESULTS_VARIABLE):
        with Path(file).open("a", encoding="utf-8") as results:
            kept = {"name": name, "columns": list(columns), "rows": [list(row) for row in rows]}
            results.write(json.dumps(kept, allow_nan=False) + "\n")


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The table in Markdown, with its columns aligned."""
    lines = [list(columns), *([text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    lines.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(
        "| "
        + " | ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in lines
    )


def text(cell: Cell) -> str:
    """A cell as people read it: three digits that count, thousands apart."""
    match cell:
        case None:
            return NOT_MEASURED
        case str():
            return cell
        case int():
            return f"{cell:,}"
        case float():
            return _rounded(cell)
        case _:
            return " / ".join(map(text, cell))


def _rounded(value: float) -> str:
    if value == 0:
        return "0"
    whole = len(f"{abs(value):.0f}") if abs(value) >= 1 else 0
    if whole:
        return f"{value:,.{max(DIGITS - whole, 0)}f}"
    return f"{value:.{DIGITS}g}"
