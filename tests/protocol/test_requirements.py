"""Requirements and tests are held to each other, in both directions."""

import ast
import functools
import re
from pathlib import Path

import pytest

from .requirements import REQUIREMENTS, page

ROOT = Path(__file__).parents[2]
ID = re.compile(rf"({'|'.join({id_.partition('-')[0] for id_ in REQUIREMENTS})})-\d{{2}}\b")


@functools.cache
def carried() -> dict[str, str]:
    """Every id that a test carries, with the file: in ``proves`` or before a row's name."""
    return {
        named[0]: str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant)
        if isinstance(node.value, str)
        if (named := ID.match(node.value))
    }


def test_no_test_names_what_is_not_required() -> None:
    unknown = {id_: path for id_, path in carried().items() if id_ not in REQUIREMENTS}
    assert unknown == {}


@pytest.mark.parametrize("id_", REQUIREMENTS)
def test_a_requirement_is_proved_or_says_why_not(id_: str) -> None:
    requirement = REQUIREMENTS[id_]
    proved = id_ in carried()
    assert proved or requirement.gap, f"no test carries {id_}: {requirement.text}"
    assert not (proved and requirement.gap), f"a test proves {id_}, which is said to have none"


def test_the_page_is_in_step() -> None:
    written = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m tests.protocol.requirements docs"
