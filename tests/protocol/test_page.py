"""The programs on the page about the library do what it says."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
WAIT_S = 60


def test_the_client_on_the_page_calls_the_server_on_the_page(tmp_path: Path) -> None:
    server, client = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "sums.py").write_text(server)
    (tmp_path / "use.py").write_text(client.replace('"python"', repr(sys.executable)))
    shown = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S
    )
    assert shown.stdout.splitlines() == ["sums 2026-07-28", "['add']", "{'sum': 5}"], shown.stderr
