"""The measuring programs as a person starts them: what is wrong is said before anything is run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import BENCHES

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
        *("search_corpora", "search_engines", "tables"),
    }
    programs = {
        path.stem for path in (ROOT / "bench").glob("*.py") if not path.stem.startswith("_")
    }
    assert set(BENCHES) == programs - helpers


def test_the_runner_keeps_results_with_where_they_are_from(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "bench", "budgets", "search_quality", "--json", str(results)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "CONVMEM_DATA"},
    )
    assert done.returncode == 0, done.stdout
    told = json.loads(results.read_text())
    first, second = told["results"]
    assert first["command"] == "python -m bench.budgets"
    assert any("write: flushes" in line for line in first["output"])
    assert second["skipped"] == "no data"
    assert told["taken"]["versions"]["numpy"]
