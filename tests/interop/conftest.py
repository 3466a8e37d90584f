"""Environments with other people's software in them, each made once."""

import functools
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from .npm import Installed, NoNpm, installed

INSTALL_TIMEOUT_S = 300.0

Interpreter = Callable[[str], Path]
Packages = Callable[[Sequence[str]], Installed]


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
