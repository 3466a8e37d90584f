"""The generated pages of docs/ say what the code says."""

import subprocess
import sys
from pathlib import Path

import pytest

from convmem.reference import pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", pages())
def test_the_page_is_in_step(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == pages()[name], "run: python -m convmem.reference docs"


def test_without_a_folder_the_usage_is_told() -> None:
    command = [sys.executable, "-m", "convmem.reference"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.returncode == 2
    assert "usage" in told.stderr
