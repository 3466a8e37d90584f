"""An import: all of a source, or nothing of it.

A first reading judges everything, a second writes a new generation of the log beside the old:
what counts in the store, and what comes in. Only its seal, written last, puts it in the place of
the old one, so that a crash at any moment leaves the memory as it was or as it is to be.
"""

from collections.abc import Callable, Iterator

from convmem.errors import Code, Refusal
from convmem.ledger import Ledger
from convmem.transfer.incoming import Incoming, Source
from convmem.transfer.plan import Outcome, Plan, Policy, judged

OnProgress = Callable[[str, int, int | None], None]
"""Told what is being done, how many records of it are done, and of how many, where known."""


def import_all(
    ledger: Ledger,
    source: Source,
    policy: Policy,
    *,
    dry_run: bool = False,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Outcome:
    """Bring in a source, or with ``dry_run`` only judge it. Blocks.

    Raises Refusal, with nothing changed: for what the source holds, for what is there already,
    for a store that cannot be written. Raises OSError for a source that cannot be read.
    """
    judged_records = 0

    def judged_one() -> None:
        nonlocal judged_records
        judged_records += 1
        if not judged_records % _PROGRESS_RECORDS:
            on_progress("checking", judged_records, None)

    plan = judged(ledger.state, policy, source.read(), judged_one)
    on_progress("checking", judged_records, judged_records)
    if not judged_records and (skipped := source.findings.skipped):
        why = "; ".join(f"{count:,} x {reason}" for reason, count in skipped.items())
        raise Refusal(Code.INVALID_ARGUMENT, f"nothing in it could be imported: {why}")
    if dry_run or plan.is_empty:
        return plan.outcome
    live = ledger.live - len(plan.left_out) + plan.outcome.messages
    total = live + ledger.state.facts.events + plan.outcome.fact_events
    rebuilt = ledger.merge(
        plan.records(_again(source, judged_records)),
        plan.left_out,
        plan.is_gone,
        plan.content_bytes,
        live,
        lambda done: on_progress("writing", min(done, total), total),
    )
    ledger.switch(rebuilt)
    ledger.retire()
    return plan.outcome


def _again(source: Source, expected: int) -> Iterator[Incoming]:
    """The second reading, which must be as long as the first. Raises Refusal."""
    count = 0
    for count, incoming in enumerate(source.read(), 1):  # noqa: B007  # used behind the loop
        yield incoming
    if count != expected:
        text = "the source changed while it was read; nothing was imported. Try again"
        raise Refusal(Code.CONFLICT, text)


_PROGRESS_RECORDS = 1000

__all__ = ["OnProgress", "Outcome", "Plan", "import_all"]
