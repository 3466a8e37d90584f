"""The measuring programs as a person starts them: what is wrong is said before anything is run."""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import bench.__main__ as runner
from bench import results, soak
from bench.__main__ import BENCHES
from bench.tables import Cell
from convmem.cli.launch import server_command
from convmem.protocol import Client

ROOT = Path(__file__).parents[1]
MESSAGE = '{"session_id": "s", "role": "user", "content": "text"}\n'


@pytest.mark.parametrize(
    ("corpus", "arguments", "told"),
    [
        ("", [], "there is no text in it"),
        (MESSAGE.replace("text", ""), [], "there is no text in it"),
        (MESSAGE + "not JSON\n", [], "line 2 is no message or conversation"),
        (MESSAGE + '{"session_id": "s"}\n', [], "line 2 is no message or conversation"),
        (MESSAGE, ["--limit", "0"], "nothing to load"),
        (None, [], "No such file"),
    ],
    ids=["empty", "no text", "not JSON", "half a message", "no messages wanted", "missing"],
)
def test_a_corpus_that_cannot_be_loaded_is_refused(
    tmp_path: Path, corpus: str | None, arguments: list[str], told: str
) -> None:
    path = tmp_path / "corpus.jsonl"
    if corpus is not None:
        path.write_text(corpus, encoding="utf-8")
    command = [sys.executable, "-m", "bench.load", str(path), *arguments]
    refused = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2
    assert told in refused.stderr


def test_the_runner_names_every_program_that_measures() -> None:
    helpers = {
        *("corpus", "lean", "load", "measuring", "power_cut"),
        *("page", "plots", "results", "search_corpora", "search_engines", "tables"),
    }
    programs = {
        path.stem for path in (ROOT / "bench").glob("*.py") if not path.stem.startswith("_")
    }
    assert set(BENCHES) == programs - helpers


def run_benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "CONVMEM_DATA"}
    return subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )


def test_the_runner_keeps_results_with_where_they_are_from(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("{}")
    earlier: results.Result = {
        "command": "python -m bench.wire",
        "status": 0,
        "seconds": 1.0,
        "taken": results.taken(),
        "tables": [{"name": "wire.none", "columns": ["a", "b"], "rows": [["c", [1.5, 2]]]}],
    }
    results.write(path, {"wire": earlier})
    done = run_benchmarks("budgets", "search_quality", "--json", str(path))
    assert done.returncode == 0, done.stdout
    assert "search_quality: the corpora are not here" in done.stdout
    assert "| write: flushes " in done.stdout
    told = results.read(path)
    assert told.keys() == {"wire", "budgets"}
    assert told["wire"] == earlier
    assert told["budgets"]["command"] == "python -m bench.budgets"
    (table,) = told["budgets"]["tables"]
    assert ["write: flushes", 1, 1] in table["rows"]
    assert told["budgets"]["taken"]["versions"]["numpy"]


def test_a_failed_benchmark_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Killed, its status is less than 0, which must not be taken for less than nothing wrong."""
    (tmp_path / "bench").mkdir()
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    (tmp_path / "bench" / "budgets.py").write_text(dies)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["bench", "budgets", "start"])
    (tmp_path / "bench" / "start.py").write_text("")
    assert runner.main() == 1
    assert "budgets failed" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--data", "{}/none"], "no such folder"),
        (["--json", "{}/none/results.json"], "No such file or directory"),
        (["--json", "{}/broken.json"], "Expecting value"),
        (["--json", "{}/other.json"], "no results of benchmarks"),
        (["none"], "invalid choice"),
    ],
)
def test_what_the_runner_cannot_do_is_said_first(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    (tmp_path / "broken.json").write_text("broken")
    (tmp_path / "other.json").write_text('{"budgets": 1}')
    refused = run_benchmarks("budgets", *(each.format(tmp_path) for each in arguments))
    assert refused.returncode == 2
    assert told in refused.stderr
    assert refused.stdout == ""


def test_a_soak_uses_everything_and_finds_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    """A second of it; what a soak must find wrong is tested below."""
    with tempfile.TemporaryDirectory(prefix="convmem-") as folder:
        assert asyncio.run(soak.soak(Path(folder), 1 / 60)) == 0
    cells = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines() if "|" in line]
    rows = {name.strip(): count.strip() for name, count in cells}
    assert rows["lost"] == "0"
    assert rows["messages that must be there"] not in ("0", "1")


def test_a_soak_finds_what_is_wrong() -> None:
    async def found_wrong(store: Path) -> list[list[Cell]]:
        async with await Client.start(server_command(store)) as client:
            user = soak.User(0, client)
            for _ in range(3):
                await user.write()
            await user.set_fact()
            first, second, _ = user.messages
            del user.messages[first]
            user.messages[second] = "another text", 1
            user.messages["never written"] = "text", 1
            user.facts = dict.fromkeys(user.facts, "another value") | {"none": "never set"}
            return await soak.missing([user])

    with tempfile.TemporaryDirectory(prefix="convmem-") as folder:
        wrong = asyncio.run(found_wrong(Path(folder)))
    assert wrong == [
        ["lost", 1],
        ["with other content", 1],
        ["there though deleted", 1],
        ["there twice", 0],
        ["facts with another value", 2],
    ]


@pytest.mark.parametrize(
    ("health", "owned"),
    [
        ({"memory_bytes": {"state": 10**6, "search": 2 * 10**6}, "semantic": {}}, 3.0),
        (
            {
                "memory_bytes": {"state": 10**6, "search": 0},
                "semantic": {"memory_bytes": 10**6},
            },
            2.0,
        ),
        ({"memory_bytes": {"state": 1, "search": None}, "semantic": {}}, None),
        ({}, None),
    ],
)
def test_a_soak_knows_what_the_owner_holds(health: dict[str, Any], owned: float | None) -> None:
    assert soak.owned_mb(health) == owned


def test_a_soak_finds_drift() -> None:
    def sample(number: int) -> soak.Sample:
        descriptors = 16 + number // 8
        return soak.Sample(number, 1, 99.0, 9.0, descriptors, 30.0, 9, 1.0, [2.0, 9.0], [3.0, 9.0])

    assert soak.judge([sample(number) for number in range(30)], 30) == ["descriptors of the owner"]
    assert soak.judge([sample(0)] * 30, 30) == []
