"""The official Python SDKs' clients against the real server, in every mode they have."""

import functools
import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from convmem.cli.launch import server_command
from convmem.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS

from .conversation import PATIENCE_S, TOOLS, calls, check_answers

pytestmark = pytest.mark.ci

CLIENTS = Path(__file__).parent / "clients"
INSTALL_TIMEOUT_S = 300.0
HANDSHAKE, MODERN = HANDSHAKE_VERSIONS[-1], MODERN_VERSIONS[-1]

Interpreter = Callable[[str], Path]


@pytest.fixture(scope="session")
def interpreter_with(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """The Python of an environment of its own for a requirement; made once."""

    @functools.cache
    def interpreter(requirement: str) -> Path:
        base = tmp_path_factory.mktemp("environment")
        scripts = sysconfig.get_path("scripts", "venv", vars={"base": str(base)})
        python = Path(scripts) / Path(sys.executable).name
        _install(sys.executable, "-m", "venv", str(base))
        _install(str(python), "-m", "pip", "install", "--quiet", requirement)
        return python

    return interpreter


def _install(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)


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
    tmp_path: Path,
) -> None:
    python = str(interpreter_with(requirement))
    finished = subprocess.run(
        [python, "-I", str(CLIENTS / script), *mode, *server_command(tmp_path / "store")],
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
