"""The generated pages of docs/ say what the code says."""

from pathlib import Path

import pytest

from convmem.reference import pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", pages())
def test_the_page_is_in_step(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == pages()[name], "run: python -m convmem.reference docs"
