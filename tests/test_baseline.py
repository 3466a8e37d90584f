"""The gate: nothing that is deterministic about cost gets worse by a tenth without a word."""

import json

import pytest

from bench import budgets


@pytest.fixture(scope="module")
def found() -> dict[str, float]:
    return budgets.figures()


def test_nothing_costs_a_tenth_more(found: dict[str, float]) -> None:
    baseline = json.loads(budgets.BASELINE.read_text())
    assert budgets.worse(found, baseline) == [], "see `python -m bench.budgets`"


def test_figures_are_the_same_twice(found: dict[str, float]) -> None:
    again = budgets.io_figures() | budgets.size_figures()
    assert again == {name: found[name] for name in again}


@pytest.mark.parametrize("name", ["write: bytes", "bytes a message: log"])
def test_a_worse_figure_is_found(found: dict[str, float], name: str) -> None:
    baseline = {"python": budgets.PYTHON, "figures": found | {name: found[name] / 1.11}}
    assert budgets.worse(found, baseline) == [name]


def test_a_flush_more_is_found(found: dict[str, float]) -> None:
    name = "update that changes nothing: flushes"
    assert found[name] == 0
    assert budgets.worse(found | {name: 1.0}, {"figures": found}) == [name]


def test_a_figure_that_is_new_is_to_be_written_down(found: dict[str, float]) -> None:
    assert budgets.worse(found | {"new": 1.0}, {"figures": found}) == ["new"]


def test_what_depends_on_python_is_compared_on_one_version(found: dict[str, float]) -> None:
    calls = "calls: write"
    figures = found | {calls: 1.0}
    assert budgets.worse(found, {"python": "2.7", "figures": figures}) == []
    assert budgets.worse(found, {"python": budgets.PYTHON, "figures": figures}) == [calls]
