"""The generated page is in step with the library."""

from .format_page import PAGE, page


def test_the_page_is_in_step() -> None:
    made = page()
    assert PAGE.read_text(encoding="utf-8") == made, "run python -m tests.storage.format_page"
