"""docs/conformance.md: what the official suite says of us."""

from collections.abc import Sequence

from ..interop.npm import CONFORMANCE
from .suite import REVISIONS, SIDES, Outcome

HEAD = f"""# Conformance

What the official conformance suite, `{CONFORMANCE}`, says
of our protocol library. Written by `python -m tests.conformance`; a test holds it to a fresh
run. npm must be there, a Node that is new enough comes along.

The suite speaks HTTP and our library stdio, so a bridge stands between that passes every message
as it is ([`http_front.py`](../tests/conformance/http_front.py) before a server,
[`http_back.py`](../tests/conformance/http_back.py) behind a client). The server examined has the
tools, resources and prompts that the suite asks for
([`server.py`](../tests/conformance/server.py)); the client lists a server's tools, calls them,
and answers what it is asked ([`client.py`](../tests/conformance/client.py)). In most scenarios
one check is that every message of ours fits the official JSON Schema of the revision.

One fixture differs from its description: `test_tool_with_progress` reports one step more. The
suite wants three reports, the last that all is done; our library never sends that one, because
hosts are known that drop a server whose last report arrives together with the answer.
"""


def page(outcomes: Sequence[Outcome]) -> str:
    """The whole page."""
    totals = [_total(outcomes, side, revision) for revision in REVISIONS for side in SIDES]
    return "\n".join([HEAD, *totals, "", table(outcomes), ""])


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each scenario."""
    lines: list[str] = []
    for revision in REVISIONS:
        for side in SIDES:
            lines += [f"## {revision}, {side}", ""]
            lines += ["| scenario | verdict | checks | why |", "|---|---|---|---|"]
            lines += [_row(outcome) for outcome in outcomes if _is(outcome, side, revision)]
            lines.append("")
    return "\n".join(lines).rstrip()


def _total(outcomes: Sequence[Outcome], side: str, revision: str) -> str:
    verdicts = [outcome.verdict for outcome in outcomes if _is(outcome, side, revision)]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("passed", "failed", "not run"))
    return f"- {revision}, {side}: {counts}"


def _row(outcome: Outcome) -> str:
    why = "; ".join(outcome.said)
    return f"| `{outcome.scenario}` | {outcome.verdict} | {outcome.checks} | {why} |"


def _is(outcome: Outcome, side: str, revision: str) -> bool:
    return (outcome.side, outcome.revision) == (side, revision)
