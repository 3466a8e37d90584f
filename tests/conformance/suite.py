"""Runs the official conformance suite and tells its verdict on every scenario.

Owns which scenarios are not for us, and why: the suite knows HTTP only, so what it says of HTTP
would be said of the bridge. All others are run, at each revision that the suite scores.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..interop.npm import CONFORMANCE, Installed, installed
from .http_front import ROOT, HttpFront

REVISIONS: Final = ("2025-11-25", "2026-07-28")
SIDES: Final = ("server", "client")
RUN_TIMEOUT_S: Final = 120.0

NOT_OURS: Final = {
    "auth/": "about OAuth, which stdio has none of",
    "dns-rebinding-protection": "about HTTP: it would examine the bridge",
    "http-": "about HTTP: it would examine the bridge",
    "server-session-lifecycle": "about HTTP: it would examine the bridge",
    "server-sse-": "about HTTP: it would examine the bridge",
    "sse-retry": "about HTTP: it would examine the bridge",
    "tasks-": "an extension that the server does not announce",
}
"""Why scenarios are not run, by the beginning of their names."""

_WORDS: Final = {
    "SUCCESS": "passed",
    "FAILURE": "failed",
    "WARNING": "warned",
    "SKIPPED": "skipped",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one scenario: checks by status, and what is said of those not passed."""

    side: str
    revision: str
    scenario: str
    counts: Counter[str]
    said: tuple[str, ...]

    @property
    def verdict(self) -> str:
        if not self.counts:
            return "not run"
        failed = self.counts["FAILURE"] + self.counts["WARNING"]
        return "failed" if failed or not self.counts["SUCCESS"] else "passed"

    @property
    def checks(self) -> str:
        return ", ".join(
            f"{self.counts[status]} {word}"
            for status, word in _WORDS.items()
            if self.counts[status]
        )


def run() -> list[Outcome]:
    """Every scenario's outcome, in the suite's order. What ``npm.installed`` raises."""
    suite = installed([CONFORMANCE])
    return [
        outcome
        for revision in REVISIONS
        for side, scenarios in zip(SIDES, _scenarios(suite, revision), strict=True)
        for outcome in _examine(suite, side, revision, scenarios)
    ]


def _scenarios(suite: Installed, revision: str) -> tuple[list[str], list[str]]:
    """The names of the server's and the client's scenarios at a revision, unscored ones last."""
    listed = _suite(suite, "list", "--requirements", revision).stdout
    required, _, unscored = listed.partition("Run and reported")
    servers, _, clients = required.partition("Client scenarios")
    name = re.compile(r"^ +- (\S+)$", re.MULTILINE)
    more = re.compile(r"^ +- (\S+) \[(\w+)\]$", re.MULTILINE)
    extra = {side: [n for n, of in more.findall(unscored) if of == side] for side in SIDES}
    return name.findall(servers) + extra["server"], name.findall(clients) + extra["client"]


def _examine(suite: Installed, side: str, revision: str, scenarios: list[str]) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        if side == "server":
            with HttpFront([sys.executable, "-m", "tests.conformance.server"]) as front:
                _suite(suite, "server", "--url", front.url, "--requirements", revision, to=folder)
        else:
            command = ["--command", f"{sys.executable} -m tests.conformance.client"]
            for scenario in scenarios:
                if _why_not(scenario) is None:
                    at = ["--scenario", scenario, "--spec-version", revision]
                    _suite(suite, "client", *command, *at, to=folder)
        for scenario in scenarios:
            reason = _why_not(scenario)
            if reason is not None:
                yield Outcome(side, revision, scenario, Counter(), (reason,))
            else:
                yield _outcome(side, revision, scenario, Path(folder))


def _outcome(side: str, revision: str, scenario: str, folder: Path) -> Outcome:
    prefix = "server-" if side == "server" else ""
    (results,) = folder.glob(f"{prefix}{scenario}-2???-??-??T*/checks.json")
    checks = json.loads(results.read_bytes())
    counts = Counter(check["status"] for check in checks if check["status"] != "INFO")
    said = tuple(
        f"{check['id']}: {check.get('errorMessage') or _note(check) or check['description']}"
        for check in checks
        if check["status"] not in ("SUCCESS", "INFO")
    )
    return Outcome(side, revision, scenario, counts, said)


def _note(check: dict[str, dict[str, str]]) -> str | None:
    return check.get("details", {}).get("note")


def _why_not(scenario: str) -> str | None:
    return next((why for begin, why in NOT_OURS.items() if scenario.startswith(begin)), None)


def _suite(
    suite: Installed, *arguments: str, to: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Its status is not looked at: it counts what is not for us too."""
    output = [] if to is None else ["--output-dir", to]
    return subprocess.run(
        [*suite.command("conformance"), *arguments, *output],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=RUN_TIMEOUT_S,
    )
