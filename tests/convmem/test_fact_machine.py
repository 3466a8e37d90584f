"""Facts against a dictionary: whatever is done in whatever order, through restarts, power cuts
and rebuilds, the tools tell what the dictionary tells.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from convmem import limits
from convmem.storage import MemoryDisk
from tests.convmem.harness import Host, Refused
from tests.convmem.strategies import any_text, text_of

keys = st.sampled_from(["a", "b", "a/b", "語", "\n"])
values = st.sampled_from(["", "x", "y"]) | any_text
guards = st.fixed_dictionaries(
    {},
    optional={
        "expected_value": st.sampled_from(["", "x", "y"]),
        "expected_revision": st.integers(1, 6),
    },
)
clients = st.none() | text_of(limits.CLIENT_ID_BYTES_MAX, bytes_min=1)


@dataclass
class Model:
    """What is known of one key."""

    value: str | None = None
    revision: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)


class FactMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = Host()
        self.model: dict[str, Model] = {}
        self.floor = 0
        self.purges = 0

    def teardown(self) -> None:
        self.restarting()
        self.everything_is_as_the_dictionary_has_it()
        self.host.__exit__()

    @rule(key=keys, value=values, guarded=guards, absent=st.booleans(), client=clients)
    def setting(
        self, key: str, value: str, guarded: dict[str, Any], absent: bool, client: str | None
    ) -> None:
        known = self.model.setdefault(key, Model())
        reason = "already_exists" if absent and known.value is not None else None
        reason = reason or self.guarded(known, guarded)
        arguments = {"key": key, "value": value, "client_id": client, "require_absent": absent}
        if reason is None:
            answer = self.host.call("memory_set", **arguments, **guarded)
            known.revision = (known.revision or self.floor) + 1
            known.value = value
            assert answer["revision"] == known.revision
            self.note(known, client, action="set", revision=known.revision, value=value)
        else:
            self.refused("memory_set", reason, known, arguments | guarded)
            self.note(known, client, action="refused", tried="set", reason=reason, value=value)

    @rule(key=keys, guarded=guards, purge=st.booleans(), client=clients)
    def deleting(self, key: str, guarded: dict[str, Any], purge: bool, client: str | None) -> None:
        known = self.model.get(key)
        arguments = {"key": key, "purge": purge, "client_id": client} | guarded
        if known is None or (known.value is None and not purge):
            with pytest.raises(Refused, match="NOT_FOUND"):
                self.host.call("memory_delete", **arguments)
            return
        reason = self.guarded(known, guarded)
        if reason is not None:
            self.refused("memory_delete", reason, known, arguments)
            self.note(known, client, action="refused", tried="delete", reason=reason)
            return
        answer = self.host.call("memory_delete", **arguments)
        assert answer["purged"] is purge
        revision = known.revision if known.value is not None else 0
        known.value = None
        if purge:
            self.floor = max(self.floor, known.revision)
            self.purges += 1
            known.events.clear()
            self.note(known, client, action="delete", revision=revision, purged=True)
        else:
            self.note(known, client, action="delete", revision=revision)

    @rule()
    def rebuilding(self) -> None:
        assert self.host.call("rebuild_index")["rebuilt"] is (self.purges > 0)
        if self.purges:
            self.purges = 0
            for key, known in list(self.model.items()):
                known.events = [event for event in known.events if "purged" not in event]
                if not known.events:
                    del self.model[key]

    @rule()
    def restarting(self) -> None:
        self.host.restart()

    @rule(pick=st.integers(0, 50))
    def cutting_the_power(self, pick: int) -> None:
        states = list(self.host.disk.crash_states())
        files, clock = states[pick % len(states)], self.host.clock
        self.host.abandon()
        self.host = Host(MemoryDisk(files), clock)

    @invariant()
    def everything_is_as_the_dictionary_has_it(self) -> None:
        listed = self.host.call("memory_list", max_bytes=limits.REPLY_BYTES_MAX)["facts"]
        there = {key: known for key, known in self.model.items() if known.value is not None}
        assert [fact["key"] for fact in listed] == sorted(there)
        for fact in listed:
            known = there[fact["key"]]
            assert (fact["value"], fact["revision"]) == (known.value, known.revision)
        for key, known in self.model.items():
            if not known.events:
                continue
            told = self.host.call("memory_history", key=key, max_bytes=limits.REPLY_BYTES_MAX)
            shown = [
                {name: each for name, each in event.items() if name not in ("event_id", "at")}
                for event in told["events"]
            ]
            assert shown == known.events[::-1]

    def note(self, known: Model, client: str | None, **event: Any) -> None:
        if event["action"] == "refused" and known.value is not None:
            event["current_revision"] = known.revision
        known.events.append(event | {"client_id": client or "test host"})

    def refused(self, tool: str, reason: str, known: Model, arguments: dict[str, Any]) -> None:
        with pytest.raises(Refused) as caught:
            self.host.call(tool, **arguments)
        assert caught.value.told["reason"] == reason
        assert caught.value.told.get("current_revision", 0) == (
            known.revision if known.value is not None else 0
        )

    def guarded(self, known: Model, guarded: dict[str, Any]) -> str | None:
        """Which guard does not let a change pass."""
        if not guarded:
            return None
        if known.value is None:
            return "not_there"
        if guarded.get("expected_revision", known.revision) != known.revision:
            return "revision_differs"
        return (
            "value_differs" if guarded.get("expected_value", known.value) != known.value else None
        )


@pytest.mark.parametrize("examples", [40, pytest.param(200, marks=pytest.mark.ci)])
def test_the_fact_tools_do_what_a_dictionary_would(examples: int) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=25)
    run_state_machine_as_test(FactMachine, settings=chosen)
