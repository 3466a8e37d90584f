"""The official suite's verdicts are those of docs/conformance.md, and none is bad."""

import pytest

from ..interop.npm import NoNpm
from .__main__ import PAGE
from .page import page
from .suite import run

pytestmark = pytest.mark.ci


def test_the_official_suite_is_passed() -> None:
    try:
        outcomes = run()
    except NoNpm as error:
        pytest.skip(str(error))
    failed = [outcome for outcome in outcomes if outcome.verdict == "failed"]
    assert failed == []
    assert PAGE.read_text(encoding="utf-8") == page(outcomes), "run python -m tests.conformance"
