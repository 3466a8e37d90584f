"""Plots of cost against size: opening, searching, writing and memory, from what was measured.

    python -m bench.plots

Draws ``docs/plots/*.svg`` from ``bench/results.json``. Each file has its points in its
description, so that ``tests/test_performance_page.py`` can tell whether it shows the file. Needs
matplotlib, of the extra ``[bench]``.
"""

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import results
from bench.page import RESULTS
from bench.tables import Cell

PLOTS = Path(__file__).parents[1] / "docs" / "plots"

Points = dict[str, list[tuple[float, float]]]
"""Lines by name, each of sizes and costs."""


@dataclass(frozen=True, slots=True)
class Plot:
    """What is shown: the unit of cost, and lines by their table and column."""

    title: str
    unit: str
    lines: Mapping[str, tuple[str, str]]


SHOWN = {
    "open": Plot(
        "From the start of a server, or of opening a store",
        "ms",
        {
            "server, first call answered": ("wire.starts", "first call, ms"),
            "store, restored": ("messages.open", "restored, ms"),
            "store, replayed": ("messages.open", "replayed, ms"),
        },
    ),
    "search": Plot(
        "Search, over stdio",
        "ms, median",
        {
            "one word": ("wire.calls", "search, one word"),
            "eight words": ("wire.calls", "search, eight words"),
        },
    ),
    "write": Plot(
        "Write and read, over stdio",
        "ms, median",
        {
            "write of 300 bytes": ("wire.calls", "write 300 bytes"),
            "page of 50": ("wire.calls", "page of 50"),
        },
    ),
    "memory": Plot(
        "Resident memory of a server",
        "MB",
        {
            "started": ("memory.words", "started"),
            "having searched": ("memory.words", "searched"),
        },
    ),
}


def main() -> int:
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        print("matplotlib is not here: pip install 'convmem[bench]'", file=sys.stderr)
        return 1
    PLOTS.mkdir(exist_ok=True)
    found = results.read(RESULTS)
    with pyplot.rc_context({"svg.hashsalt": "convmem", "svg.fonttype": "none"}):
        for name, plot in SHOWN.items():
            draw(pyplot, PLOTS / f"{name}.svg", plot, points(plot, found))
    return 0


def points(plot: Plot, found: Mapping[str, results.Result]) -> Points:
    """What is to be drawn. Raises KeyError if the results lack it."""
    tables = {table["name"]: table for result in found.values() for table in result["tables"]}
    lines: Points = {}
    for line, (name, column) in plot.lines.items():
        place = tables[name]["columns"].index(column)
        lines[line] = [(_number(row[0]), _number(row[place])) for row in tables[name]["rows"]]
    return lines


def _number(cell: Cell) -> float:
    """A figure; of several the first, the median."""
    match cell:
        case int() | float():
            return cell
        case [first, *_]:
            return float(first)
    raise ValueError(f"no figure: {cell!r}")


def draw(pyplot: Any, path: Path, plot: Plot, lines: Points) -> None:
    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for name, line in lines.items():
        axes.plot(*zip(*line, strict=True), marker="o", label=name)
    axes.set(title=plot.title, xlabel="messages", ylabel=plot.unit, xscale="log", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    metadata = {"Date": None, "Description": description(lines)}
    figure.savefig(path, metadata=metadata)
    pyplot.close(figure)


def description(lines: Points) -> str:
    """The points as JSON, as the file keeps them."""
    return json.dumps(lines)


if __name__ == "__main__":
    sys.exit(main())
