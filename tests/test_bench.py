"""The measuring programs as a person starts them: what is wrong is said before anything is run."""

import subprocess
import sys
from pathlib import Path

import pytest

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
