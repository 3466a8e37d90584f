"""Other people's programs, from npm, in a cache folder of this user's.

A newer Node than many systems have comes along. Versions are pinned: beside an old Node, npm
would choose old ones without a word.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NODE = "node@24"
CONFORMANCE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
"""The official suite. It also brings the official JSON Schemas."""

INSTALL_TIMEOUT_S = 300.0


class NoNpm(Exception):
    """npm is not on this machine."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Packages that are there, and the Node to run them with."""

    modules: Path
    node: str

    def command(self, program: str) -> list[str]:
        """What runs a program that the packages bring."""
        return [self.node, str((self.modules / ".bin" / program).resolve())]


def installed(packages: Sequence[str]) -> Installed:
    """The packages, installed once for all times. NoNpm, CalledProcessError, TimeoutExpired."""
    node = shutil.which("node", path=str(_modules([NODE]) / ".bin"))
    assert node is not None
    return Installed(_modules(packages), node)


def _modules(packages: Sequence[str]) -> Path:
    digest = hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:12]
    folder = _cache() / digest
    if not folder.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            raise NoNpm("npm is needed to install " + ", ".join(packages))
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Under its name only when it is whole: nobody then meets half of it.
        with tempfile.TemporaryDirectory(dir=folder.parent) as making:
            install = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", making]
            subprocess.run([*install, *packages], check=True, timeout=INSTALL_TIMEOUT_S)
            whole = Path(making, "whole")
            whole.mkdir()
            for made in Path(making).iterdir():
                if made != whole:
                    made.rename(whole / made.name)
            with contextlib.suppress(OSError):  # somebody else was quicker
                whole.rename(folder)
    return folder / "node_modules"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "convmem-tests")
