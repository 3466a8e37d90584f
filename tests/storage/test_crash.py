"""What survives: every state a crash can leave, at every operation of a working store.

The numbers of states are printed (`pytest -s`). What the default run leaves out for time,
`.ci/run` has.
"""

import pytest

from convmem.storage import Operation

from .crashes import (
    WORKLOADS,
    check_fault,
    check_kill,
    check_power_cut,
    check_power_cut_within_recovery,
    faults_at,
    operations_of,
    power_cuts,
)

# Its states are recovered at every operation in .ci/run only: a megabyte each, and so many.
SLOW = "big"
CASES = [(name, operation) for name in WORKLOADS for operation in operations_of(WORKLOADS[name])]


def ids(cases: list[tuple[str, Operation]]) -> list[str]:
    return [f"{name}-{op.number}-{op.kind}-{op.name}" for name, op in cases]


@pytest.mark.parametrize("weak_order", [False, True], ids=["journalled", "weak order"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_power_cut_at_every_operation(workload: str, weak_order: bool) -> None:
    count = 0
    for files, allowed in power_cuts(WORKLOADS[workload], weak_order=weak_order):
        check_power_cut(files, allowed)
        count += 1
    print(f"{workload}: {count} states after a power cut")
    assert count > 50


@pytest.mark.parametrize(
    "workload",
    [pytest.param(name, marks=pytest.mark.ci) if name == SLOW else name for name in WORKLOADS],
)
def test_power_cut_within_recovery(workload: str) -> None:
    states = list(power_cuts(WORKLOADS[workload], weak_order=True))
    count = sum(check_power_cut_within_recovery(files, allowed) for files, allowed in states)
    print(f"{workload}: {count} states after a second power cut, within recovery")
    assert count > len(states)


@pytest.mark.parametrize(("workload", "operation"), CASES, ids=ids(CASES))
def test_what_is_served_after_a_kill_survives_a_power_cut(
    workload: str, operation: Operation
) -> None:
    check_kill(WORKLOADS[workload], operation)


SYNCS = [case for case in CASES if case[1].kind in ("sync", "sync_data")]


@pytest.mark.parametrize(("workload", "operation"), SYNCS, ids=ids(SYNCS))
def test_what_a_failed_sync_left_is_durable_before_it_is_served(
    workload: str, operation: Operation
) -> None:
    """The sync fails, the process dies before it can clean up, and the page cache still
    shows what the disk will never get."""
    check_kill(WORKLOADS[workload], operation, failing=True)


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize(("workload", "operation"), CASES, ids=ids(CASES))
def test_fault_at_every_operation(workload: str, operation: Operation, persistent: bool) -> None:
    for fault in faults_at(operation):
        check_fault(WORKLOADS[workload], operation, fault, persistent)


def test_the_workloads_make_every_kind_of_change() -> None:
    kinds = {operation.kind for _, operation in CASES}
    assert kinds == {
        "create",
        "pwrite",
        "truncate",
        "sync",
        "sync_data",
        "sync_directory",
        "unlink",
    }
