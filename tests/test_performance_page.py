"""The page of figures and its plots show what was measured, and all of it."""

import html

import pytest

from bench import page, plots, results

FOUND = results.read(page.RESULTS)


def test_the_page_shows_the_results() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text, FOUND) == text, "run `python -m bench.page`"


def test_every_benchmark_that_is_shown_went_well() -> None:
    assert {name: result["status"] for name, result in FOUND.items()} == dict.fromkeys(FOUND, 0)


def test_a_table_without_a_place_is_told() -> None:
    with pytest.raises(ValueError, match=r"without a place.*budgets\.figures"):
        page.filled("", FOUND)


def test_a_place_without_a_table_is_told() -> None:
    with pytest.raises(ValueError, match=r"without a table: none\.such"):
        page.filled("<!-- table none.such -->\n<!-- end -->", {})


@pytest.mark.parametrize("name", plots.SHOWN)
def test_the_plots_show_the_results(name: str) -> None:
    drawn = html.unescape((plots.PLOTS / f"{name}.svg").read_text(encoding="utf-8"))
    points = plots.points(plots.SHOWN[name], FOUND)
    assert all(len(line) > 1 for line in points.values())
    assert plots.description(points) in drawn, "run `python -m bench.plots`"
