"""Random histories of a store: steps, faults, kills and power cuts, in any order.

The client of the crash matrix walks them and holds the store to P1 whenever it opens it.
"""

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from convmem.storage import MemoryDisk, Operation, Record, ShortWrite, StorageError

from .crashes import Append, Client, Compact, Killed, Reopen, Snapshot, Step

PAYLOADS = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda byte, size: bytes([byte]) * size, st.integers(0, 255), st.integers(0, 2000)),
)
RECORD = st.builds(Record, st.sampled_from([1, 2, 0x81]), PAYLOADS)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(Append, st.lists(RECORD, min_size=1, max_size=3).map(tuple)),
    st.just(Snapshot()),
    st.builds(Compact, st.integers(1, 3), st.lists(RECORD, max_size=3).map(tuple)),
    st.just(Reopen()),
)
NUMBERS = st.integers(1, 12)
FAULTS = st.sampled_from(
    [
        OSError(errno.EIO, "injected"),
        OSError(errno.ENOSPC, "injected"),
        ShortWrite(errno.ENOSPC, 30),
        ShortWrite(errno.EIO, 600),
    ]
)


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.client = Client(MemoryDisk())
        self.client.open()

    @rule(step=STEPS)
    def take(self, step: Step) -> None:
        failed = self.client.store.failed
        try:
            self.client.take(step)
        except StorageError:
            assert failed is not None

    @rule(step=STEPS, number=NUMBERS, fault=FAULTS)
    def fail(self, step: Step, number: int, fault: OSError) -> None:
        """One operation within the step fails."""
        countdown = iter(range(number, 0, -1))

        def hook(operation: Operation) -> None:
            if next(countdown, 0) == 1:
                raise fault

        self._under(hook, step)
        if isinstance(step, Reopen):
            self.client.disk.kill()
            self.client.open()

    @rule(step=STEPS, number=NUMBERS)
    def kill(self, step: Step, number: int) -> None:
        """The process dies within the step, or right after it."""
        self._under(dying(number), step)
        self.client.disk.kill()
        self.client.open()

    @rule(step=STEPS, number=NUMBERS, picked=st.integers(0, 1 << 16), weak_order=st.booleans())
    def cut_power(self, step: Step, number: int, picked: int, weak_order: bool) -> None:
        """The power fails within the step, or right after it."""
        self._under(dying(number), step)
        states = list(self.client.disk.crash_states(weak_order=weak_order))
        self.client.disk = MemoryDisk(states[picked % len(states)])
        self.client.open()

    @invariant()
    def what_is_acknowledged_can_be_read(self) -> None:
        self.client.check_reading()

    def _under(self, hook: Callable[[Operation], None], step: Step) -> None:
        self.client.disk.hook = hook
        with suppress(Killed, StorageError):
            self.client.take(step)
        self.client.disk.hook = lambda operation: None


def dying(number: int) -> Callable[[Operation], None]:
    """A hook for a process that ends at its n-th operation from now."""
    left = number

    def hook(operation: Operation) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Killed

    return hook


def run(examples: int, steps: int) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=steps)
    run_state_machine_as_test(Histories, settings=chosen)


def test_histories() -> None:
    run(examples=100, steps=30)


@pytest.mark.ci
def test_many_histories() -> None:
    run(examples=1500, steps=40)
