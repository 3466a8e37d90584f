"""The gate: nothing that is deterministic about cost gets worse by a tenth without a word."""

import json
from pathlib import Path

import pytest

from bench import budgets


@pytest.fixture(scope="module")
def found() -> dict[str, float]:
    return budgets.figures()


def test_nothing_costs_a_tenth_more(found: dict[str, float]) -> None:
    baseline = budgets.read(budgets.BASELINE)
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


def test_a_figure_that_is_gone_is_found(found: dict[str, float]) -> None:
    assert budgets.worse(found, {"figures": found | {"gone": 1.0}}) == ["gone"]


def test_a_figure_that_is_no_number_is_found(found: dict[str, float]) -> None:
    name = "write: bytes"
    assert budgets.worse(found | {name: float("nan")}, {"figures": found}) == [name]


def test_what_depends_on_python_is_compared_on_one_version(found: dict[str, float]) -> None:
    calls = "calls: write"
    figures = found | {calls: 1.0}
    assert budgets.worse(found, {"python": "2.7", "figures": figures}) == []
    assert budgets.worse(found, {"python": budgets.PYTHON, "figures": figures}) == [calls]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        '{"figures": {}}',
        '{"python": "3.11", "figures": {"write: bytes": NaN}}',
        '{"python": "3.11", "figures": {"write: bytes": "392"}}',
        '{"python": "3.11", "figures": {"write: bytes": -1}}',
    ],
)
def test_a_baseline_that_is_none_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
) -> None:
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(budgets, "BASELINE", path)
    monkeypatch.setattr("sys.argv", ["budgets"])
    assert budgets.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("baseline.json: ")


@pytest.mark.parametrize("python", ["2.7", budgets.PYTHON])
def test_a_renewal_that_may_hide_something_takes_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, float], python: str
) -> None:
    path = tmp_path / "baseline.json"
    monkeypatch.setattr(budgets, "BASELINE", path)
    better = dict.fromkeys(found, 1e-3)
    baseline = {"python": python, "figures": better}
    assert budgets.renew(found, baseline, None) == 2
    assert not path.exists()
    assert budgets.renew(found, baseline, "why") == 0
    renewed = json.loads(path.read_text())
    assert renewed["figures"] == found
    assert renewed["notes"]["calls: write"] == "why"
