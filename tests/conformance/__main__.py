"""``python -m tests.conformance`` runs the official suite and writes docs/conformance.md.

Prints the table and exits with 1 if a scenario failed, with 2 if the suite cannot be had.
"""

import subprocess
import sys

from ..interop.npm import NoNpm
from .http_front import ROOT
from .page import page, table
from .suite import run

PAGE = ROOT / "docs" / "conformance.md"


def main() -> int:
    try:
        outcomes = run()
    except (NoNpm, subprocess.SubprocessError) as error:
        print(f"the conformance suite cannot be had: {error}", file=sys.stderr)
        return 2
    PAGE.write_text(page(outcomes), encoding="utf-8")
    print(table(outcomes))
    return 1 if any(outcome.verdict == "failed" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
