"""The official Python SDKs' clients against the real server, in every mode they have."""

import json
import subprocess
from pathlib import Path

import pytest

from convmem.cli.launch import server_command
from convmem.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS

from .conftest import Interpreter, Recorded
from .conversation import PATIENCE_S, TOOLS, calls, check_answers

pytestmark = pytest.mark.ci

CLIENTS = Path(__file__).parent / "clients"
HANDSHAKE, MODERN = HANDSHAKE_VERSIONS[-1], MODERN_VERSIONS[-1]


@pytest.mark.parametrize(
    ("requirement", "script", "mode", "revision", "server"),
    [
        pytest.param("mcp==1.30.*", "sdk1.py", [], HANDSHAKE, "convmem", id="sdk1"),
        pytest.param("mcp==2.3.*", "sdk2.py", ["legacy"], HANDSHAKE, "convmem", id="sdk2-legacy"),
        pytest.param("mcp==2.3.*", "sdk2.py", ["auto"], MODERN, "convmem", id="sdk2-auto"),
        # Speaks the revision from its first request on: never learns who answers.
        pytest.param("mcp==2.3.*", "sdk2.py", [MODERN], MODERN, None, id="sdk2-modern"),
    ],
)
def test_a_host_of_the_sdk_is_served(
    requirement: str,
    script: str,
    mode: list[str],
    revision: str,
    server: str | None,
    interpreter_with: Interpreter,
    recorded: Recorded,
    tmp_path: Path,
) -> None:
    python = str(interpreter_with(requirement))
    server_recorded = recorded(server_command(tmp_path / "store"))
    finished = subprocess.run(
        [python, "-I", str(CLIENTS / script), *mode, *server_recorded],
        input=json.dumps(calls()),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    seen = json.loads(finished.stdout)
    assert (seen["server"], seen["revision"]) == (server, revision)
    assert set(seen["tools"]) == TOOLS
    check_answers(seen["answers"])
