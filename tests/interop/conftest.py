"""Environments with other people's software in them, each made once."""

import functools
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from .npm import CONFORMANCE, Installed, NoNpm, installed
from .recording import RECORDER, problems

INSTALL_TIMEOUT_S = 300.0

Interpreter = Callable[[str], Path]
Packages = Callable[[Sequence[str]], Installed]
Recorded = Callable[[Sequence[str]], list[str]]


@pytest.fixture(scope="session")
def interpreter_with(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """The Python of an environment of its own for a requirement."""

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


@pytest.fixture(scope="session")
def npm_packages() -> Packages:
    """Packages of npm; a test that asks for some is skipped where npm is not."""

    def packages(wanted: Sequence[str]) -> Installed:
        try:
            return installed(wanted)
        except NoNpm as error:
            pytest.skip(str(error))

    return packages


@pytest.fixture
def recorded(tmp_path: Path, npm_packages: Packages) -> Iterator[Recorded]:
    """Makes of a server's command one that records; in the end every message must be valid."""
    log = tmp_path / "messages.jsonl"
    yield lambda command: [sys.executable, str(RECORDER), str(log), *command]
    assert problems(log, npm_packages([CONFORMANCE])) == []
