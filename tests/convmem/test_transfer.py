"""Exports and imports: nothing lost, all or nothing, and a refusal that names line and field."""

import errno
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem import ids, limits
from convmem.errors import Code, Refusal
from convmem.fact import ACTIONS, REASONS, Fact
from convmem.ledger import Ledger
from convmem.message import Message, Metadata, Relation
from convmem.records import DeleteFact, DeleteMessage, PutMessage, RefuseFact, SetFact
from convmem.storage import MemoryDisk, Operation
from convmem.transfer import Findings, Incoming, Outcome, Policy, exported_lines, import_all
from convmem.transfer.export_file import ExportFile
from convmem.transfer.lines import read_record, record_line
from tests.convmem import strategies
from tests.convmem.harness import Clock, Host

ID = "01HF7YAT00000G40R40M30E209"
OTHER = "01HF7YAT00000G40R40M30E20A"
MANIFEST = {"type": "manifest", "format": "convmem", "version": 1}
MESSAGE = {
    "type": "message",
    "message_id": ID,
    "session_id": "s",
    "timestamp": 1,
    "updated_at": 1,
    "revision": 1,
    "role": "user",
    "content": "text",
    "metadata": {"memory_kind": "conversation"},
}
EVENT = {
    "type": "fact_event",
    "key": "k",
    "event_id": ID,
    "at": 1,
    "action": "set",
    "revision": 1,
    "value": "v",
}
BEFORE = b"before"


class Records:
    """Records as a source."""

    name = "records"
    size_bytes = 0

    def __init__(self, *records: Any) -> None:
        self.records = records
        self.findings = Findings()

    def read(self) -> Iterator[Incoming]:
        for number, record in enumerate(self.records, 1):
            yield Incoming(record, f"record {number}")


def ledger_on(disk: MemoryDisk | None = None) -> Ledger:
    return Ledger(disk or MemoryDisk(), Clock().environment())


def lines_of(ledger: Ledger, *, tombstones: bool = False) -> list[str]:
    return list(exported_lines(ledger.state, tombstones=tombstones))


def file_of(
    folder: Path, *lines: str | dict[str, Any], counts: dict[str, int] | None = None
) -> Path:
    """An export file with these lines behind its manifest."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    found = {
        "messages": sum('"message"' in text for text in texts),
        "fact_events": sum('"fact_event"' in text for text in texts),
        "tombstones": sum('"tombstone"' in text for text in texts),
    }
    path = folder / "export.jsonl"
    manifest = json.dumps(MANIFEST | (found if counts is None else counts))
    path.write_text("\n".join([manifest, *texts]) + "\n", encoding="utf-8")
    return path


def refusal_of(folder: Path, *lines: str | dict[str, Any], **more: Any) -> str:
    with pytest.raises(Refusal) as refused:
        import_all(ledger_on(), ExportFile(file_of(folder, *lines, **more)), "reject")
    assert refused.value.message.endswith("; nothing was imported")
    return refused.value.message.removesuffix("; nothing was imported")


def without_nul(message: Message) -> Message:
    """A message that a host can have written: there is no U+0000 in ids."""
    call = message.metadata.tool_call_id
    return replace(
        message,
        session_id=message.session_id.replace("\0", "0"),
        metadata=replace(message.metadata, tool_call_id=call and call.replace("\0", "0")),
    )


@st.composite
def records(draw: st.DrawFn) -> list[Any]:
    """What a memory may hold: messages that point to each other, and histories of facts."""
    numbers = count(1)

    def new_id() -> bytes:
        return next(numbers).to_bytes(16, "big")

    messages: list[Message] = []
    for drawn in map(without_nul, draw(st.lists(strategies.messages, max_size=4))):
        known = [each.message_id for each in messages]
        links = draw(st.lists(st.sampled_from(known), max_size=2)) if known else []
        metadata = replace(
            drawn.metadata,
            relations=tuple(Relation("follows", target) for target in links),
            source_message_ids=tuple(links),
        )
        messages.append(replace(drawn, message_id=new_id(), metadata=metadata))
    events: list[Any] = []
    for key in draw(st.lists(st.sampled_from("abc"), unique=True)):
        revision, has_value = 0, False
        for kind in draw(st.lists(st.sampled_from(["set", "delete", "refused"]), min_size=1)):
            at = draw(strategies.times_ms)
            client = draw(st.none() | st.just("someone"))
            current = revision if has_value else 0
            if kind == "set":
                revision, has_value = revision + draw(st.integers(1, 3)), True
                value = draw(strategies.any_text)
                fact = Fact(key=key, value=value, revision=revision, set_at=at, client_id=client)
                events.append(SetFact(new_id(), fact))
            elif kind == "delete":
                events.append(
                    DeleteFact(
                        event_id=new_id(), key=key, at=at, revision=current, client_id=client
                    )
                )
                has_value = False
            else:
                events.append(
                    RefuseFact(
                        event_id=new_id(),
                        key=key,
                        at=at,
                        revision=current,
                        action=draw(st.sampled_from(ACTIONS)),
                        reason=draw(st.sampled_from(REASONS)),
                        value=draw(st.none() | strategies.any_text),
                        client_id=client,
                    )
                )
    return [*map(PutMessage, messages), *events]


class TestLossless:
    @given(held=records())
    def test_an_export_imported_and_exported_is_the_same(self, held: list[Any]) -> None:
        first, second = ledger_on(), ledger_on()
        import_all(first, Records(*held), "reject")
        exported = lines_of(first)
        brought = Records(*map(read_record, exported[1:]))
        import_all(second, brought, "reject")
        assert lines_of(second) == exported
        assert [read_record(line) for line in exported[1:]] == held

    @given(record=st.builds(PutMessage, strategies.messages.map(without_nul)))
    def test_a_line_gives_its_record_back(self, record: PutMessage) -> None:
        line = record_line(record)
        assert "\n" not in line
        assert read_record(line) == record

    def test_the_same_file_twice_changes_nothing(self) -> None:
        ledger = ledger_on()
        source = Records(*map(read_record, map(json.dumps, [MESSAGE, EVENT | {"event_id": OTHER}])))
        assert import_all(ledger, source, "reject").messages == 1
        size = ledger.log_bytes
        for policy in ("reject", "overwrite", "keep"):
            again = import_all(ledger, source, policy)
            assert again == Outcome(unchanged=2)
        assert ledger.log_bytes == size

    def test_what_a_host_wrote_is_moved_whole(self) -> None:
        with Host() as host:
            first = host.write("one", metadata={"tags": ["a"], "importance": 7, "summary": ""})
            gone = host.write("gone")["message_id"]
            link = {"relations": [{"type": "follows", "message_id": gone}]}
            host.write("two", metadata=link | {"source_message_ids": [first["message_id"]]})
            host.call("delete_message", message_id=gone)
            host.call("update_message", message_id=first["message_id"], expected_revision=1,
                      content="one, changed\0\u2028")  # fmt: skip
            host.call("memory_set", key="k", value="1")
            host.call("memory_delete", key="k", purge=True)
            host.call("memory_set", key="k", value="2")
            disk = host.disk
        ledger = ledger_on(MemoryDisk(disk.files))
        exported = lines_of(ledger, tombstones=True)
        told = [json.loads(line) for line in exported]
        assert [line["type"] for line in told] == [
            "manifest", "message", "message", "fact_event", "tombstone",
        ]  # fmt: skip
        assert told[1]["content"] == "one, changed\0\u2028"
        assert told[1]["revision"] == 2
        assert "relations" not in told[2]["metadata"]  # it led to what is gone
        assert told[-1]["message_id"] == gone
        new = ledger_on()
        import_all(new, Records(*map(read_record, exported[1:])), "reject")
        assert lines_of(new) == lines_of(ledger)


class TestRefusals:
    @pytest.mark.parametrize(
        ("line", "told"),
        [
            ("", "line 2: not JSON"),
            ("{}", "line 2: type: missing"),
            ("[]", "line 2: the line: not an object"),
            ('{"type": "message", "type": "message"}', 'line 2: "type" is there twice'),
            (json.dumps(MESSAGE).replace("1,", "NaN,", 1), "line 2: NaN is not JSON"),
            ("[" * 100_000, "line 2: nested too deeply"),
            (MESSAGE | {"type": "letter"}, 'line 2: type: "letter" is none of'),
            (MESSAGE | {"revision": 1.0}, "line 2: revision: 1.0 is not a whole number"),
            (MESSAGE | {"revision": True}, "line 2: revision: true is not a whole number"),
            (MESSAGE | {"revision": "1"}, 'line 2: revision: "1" is not a whole number'),
            (MESSAGE | {"revision": 0}, "line 2: revision: 0 is not a whole number from 1"),
            (MESSAGE | {"timestamp": -1}, "line 2: timestamp: -1"),
            (MESSAGE | {"role": "tool"}, 'line 2: role: "tool" is none of user'),
            (MESSAGE | {"role": ["user"]}, "line 2: role: "),
            (MESSAGE | {"content": None}, "line 2: content: null is not text"),
            (MESSAGE | {"content": "\ud800"}, "line 2: content: not Unicode"),
            (MESSAGE | {"session_id": ""}, "line 2: session_id: 0 bytes; 1 to 256"),
            (MESSAGE | {"session_id": "a\0"}, "line 2: session_id: U+0000 at character 1"),
            (MESSAGE | {"message_id": ID.lower()}, "line 2: message_id: "),
            (MESSAGE | {"mood": 1}, "line 2: mood: not a field of this line"),
            (MESSAGE | {"metadata": []}, "line 2: metadata: not an object"),
            (MESSAGE | {"metadata": {"tags": ["a", "a"]}}, "line 2: metadata.tags[1]: is there"),
            (MESSAGE | {"metadata": {"tags": [""]}}, "line 2: metadata.tags[0]: 0 bytes"),
            (MESSAGE | {"metadata": {"tags": "a"}}, "line 2: metadata.tags: not a list"),
            (MESSAGE | {"metadata": {"importance": 101}}, "line 2: metadata.importance: 101"),
            (
                MESSAGE | {"metadata": {"relations": [{"type": "Bad", "message_id": ID}]}},
                "line 2: metadata.relations[0].type: not a lower-case word",
            ),
            (
                MESSAGE | {"metadata": {"source_message_ids": [OTHER]}},
                f"line 2: points to message {OTHER}, which is not there",
            ),
            (EVENT | {"action": "read"}, 'line 2: action: "read" is none of'),
            (EVENT | {"key": ""}, "line 2: key: 0 bytes"),
            (EVENT | {"action": "delete", "revision": 3}, "line 2: value: not a field"),
        ],
    )
    def test_a_line_that_cannot_be(self, tmp_path: Path, line: Any, told: str) -> None:
        assert refusal_of(tmp_path, line).startswith(told)

    @pytest.mark.parametrize(
        ("field", "size"),
        [("content", limits.CONTENT_BYTES_MAX), ("session_id", limits.SESSION_ID_BYTES_MAX)],
    )
    def test_limits_hold_to_the_byte(self, tmp_path: Path, field: str, size: int) -> None:
        fits = file_of(tmp_path, json.dumps(MESSAGE | {field: "\x01" * (size - 3) + "長"}))
        if field == "content":
            assert import_all(ledger_on(), ExportFile(fits), "reject").messages == 1
        told = refusal_of(tmp_path, MESSAGE | {field: "x" * (size + 1)})
        assert told.startswith(f"line 2: {field}: {size + 1} bytes")

    def test_what_is_there_twice(self, tmp_path: Path) -> None:
        assert refusal_of(tmp_path, MESSAGE, MESSAGE).startswith("line 3: message")
        assert refusal_of(tmp_path, EVENT, EVENT).startswith("line 3: event")
        gone = {"type": "tombstone", "message_id": ID, "revision": 1}
        assert refusal_of(tmp_path, MESSAGE, gone).startswith("line 3: message")

    def test_revisions_of_a_fact_that_do_not_rise(self, tmp_path: Path) -> None:
        told = refusal_of(tmp_path, EVENT, EVENT | {"event_id": OTHER})
        assert told.startswith("line 3: revision: 1 does not rise")

    def test_a_file_that_was_cut(self, tmp_path: Path) -> None:
        told = refusal_of(tmp_path, MESSAGE, counts={"messages": 2})
        assert told.startswith("the end: the file holds 1 messages")
        told = refusal_of(tmp_path, json.dumps(MESSAGE)[:-3])
        assert told.startswith("line 2: not JSON")

    @pytest.mark.parametrize(
        ("first", "told"),
        [
            ("", "line 1: the file is empty"),
            (json.dumps(MESSAGE), "line 1: type"),
            (json.dumps(MANIFEST | {"version": 2}), "line 1: version: 2 is not 1"),
            (json.dumps(MANIFEST | {"version": 0}), "line 1: version: 0 is not 1"),
            (json.dumps(MANIFEST | {"format": "tiny"}), "line 1: format"),
        ],
    )
    def test_a_manifest_that_is_none(self, tmp_path: Path, first: str, told: str) -> None:
        path = tmp_path / "export.jsonl"
        path.write_text(first, encoding="utf-8")
        with pytest.raises(Refusal) as refused:
            import_all(ledger_on(), ExportFile(path), "reject")
        assert refused.value.message.startswith(told)

    def test_bytes_that_are_not_utf_8(self, tmp_path: Path) -> None:
        path = tmp_path / "export.jsonl"
        path.write_bytes(json.dumps(MANIFEST).encode() + b"\n\xff\n")
        with pytest.raises(Refusal, match="line 2: not UTF-8 at byte 0"):
            import_all(ledger_on(), ExportFile(path), "reject")

    def test_a_line_longer_than_any_message(self, tmp_path: Path) -> None:
        told = refusal_of(tmp_path, "x" * (limits.IMPORT_LINE_BYTES_MAX + 1))
        assert told.startswith("line 2: longer than")


class TestPolicies:
    def message(self, **changes: Any) -> PutMessage:
        record = read_record(json.dumps(MESSAGE))
        assert isinstance(record, PutMessage)
        return PutMessage(replace(record.message, **changes))

    def event(self, **changes: Any) -> Any:
        return read_record(json.dumps(EVENT | changes))

    def test_what_differs_is_refused_as_a_whole(self) -> None:
        ledger = ledger_on()
        import_all(ledger, Records(self.message()), "reject")
        exported = lines_of(ledger)
        new = self.message(message_id=bytes(16))
        with pytest.raises(Refusal, match=r"record 2: message .* differs") as refused:
            import_all(ledger, Records(new, self.message(content="other")), "reject")
        assert refused.value.code == Code.CONFLICT
        assert lines_of(ledger) == exported

    def test_overwriting_raises_the_revision(self) -> None:
        """Who has read revision 5 must not be right about another text."""
        ledger = ledger_on()
        import_all(ledger, Records(self.message(revision=5)), "reject")
        outcome = import_all(ledger, Records(self.message(content="new", revision=2)), "overwrite")
        assert outcome == Outcome(messages=1, overwritten=1)
        (message,) = [json.loads(line) for line in lines_of(ledger)[1:]]
        assert (message["content"], message["revision"]) == ("new", 6)

    def test_another_message_is_not_overwritten(self) -> None:
        ledger = ledger_on()
        import_all(ledger, Records(self.message()), "reject")
        with pytest.raises(Refusal, match="another one"):
            import_all(ledger, Records(self.message(session_id="t")), "overwrite")

    def test_what_is_there_is_kept(self) -> None:
        ledger = ledger_on()
        import_all(ledger, Records(self.message(), self.event()), "reject")
        exported = lines_of(ledger)
        other = self.event(event_id=OTHER, value="w")
        outcome = import_all(ledger, Records(self.message(content="new"), other), "keep")
        assert outcome == Outcome(kept=2)
        assert lines_of(ledger) == exported

    def test_what_was_deleted_stays_so_unless_it_is_asked_for(self) -> None:
        with Host() as host:
            message_id = host.write()["message_id"]
            host.call("delete_message", message_id=message_id)
            disk = host.disk
        record = self.message(message_id=ids.from_text(message_id))
        ledger = ledger_on(MemoryDisk(disk.files))
        assert import_all(ledger, Records(record), "keep") == Outcome(kept=1)
        assert import_all(ledger, Records(record), "reject") == Outcome(messages=1)

    def test_a_history_goes_on_where_both_have_it(self) -> None:
        ledger = ledger_on()
        first, second = self.event(), self.event(event_id=OTHER, revision=2, value="here")
        import_all(ledger, Records(first, second), "reject")
        third_id = "01HF7YAT00000G40R40M30E20B"
        there = self.event(event_id=third_id, revision=2, value="there")
        with pytest.raises(Refusal, match="another history"):
            import_all(ledger, Records(first, there), "reject")
        outcome = import_all(ledger, Records(first, there), "overwrite")
        assert outcome == Outcome(fact_events=1, overwritten=1, unchanged=1)
        told = [json.loads(line) for line in lines_of(ledger)[1:]]
        assert [(event["revision"], event["value"]) for event in told] == [
            (1, "v"),
            (2, "here"),
            (3, "there"),
        ]

    def test_tombstones_delete_what_is_there(self) -> None:
        ledger = ledger_on()
        kept = self.message(
            message_id=bytes(16),
            metadata=Metadata(relations=(Relation("follows", ids.from_text(ID)),)),
        )
        import_all(ledger, Records(self.message(), kept), "reject")
        gone = DeleteMessage(ids.from_text(ID), 0, 1)
        with pytest.raises(Refusal, match="the file deletes it"):
            import_all(ledger, Records(gone), "reject")
        assert import_all(ledger, Records(gone), "keep") == Outcome(kept=1)
        assert import_all(ledger, Records(gone), "overwrite") == Outcome(deleted=1)
        (message,) = [json.loads(line) for line in lines_of(ledger)[1:]]
        assert "relations" not in message["metadata"]
        assert message["revision"] == 2

    def test_a_source_that_changes_meanwhile_is_not_imported(self) -> None:
        ledger = ledger_on()
        source = Records(self.message(), self.event(event_id=OTHER))
        readings = count()

        def read() -> Iterator[Incoming]:
            for record in source.records[: 2 - next(readings)]:
                yield Incoming(record, "somewhere")

        source.read = read  # type: ignore[method-assign]
        with pytest.raises(Refusal, match="changed while it was read"):
            import_all(ledger, source, "reject")
        assert len(lines_of(ledger)) == 1


class TestAllOrNothing:
    """An import that is broken off at any operation of the disk, by an error or by a crash."""

    SOURCE = Records(
        *(
            PutMessage(
                Message(
                    message_id=(n + 100).to_bytes(16, "big"),
                    session_id="s",
                    timestamp=1,
                    updated_at=1,
                    revision=1,
                    role="user",
                    content=f"brought {n}",
                )
            )
            for n in range(3)
        )
    )

    def store(self) -> dict[str, bytes]:
        with Host() as host:
            host.write("before")
            disk = host.disk
        return dict(disk.files)

    @pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
    def test_an_error_leaves_the_memory_as_it_was_or_as_it_is_to_be(self, error: int) -> None:
        files = self.store()
        before = lines_of(ledger_on(MemoryDisk(files)))
        for stop_at in count():
            disk = MemoryDisk(files)
            ledger = ledger_on(disk)
            operations = count()

            def fail(
                operation: Operation, operations: "count[int]" = operations, at: int = stop_at
            ) -> None:
                if next(operations) == at:
                    raise OSError(error, "injected")

            disk.hook = fail
            try:
                import_all(ledger, self.SOURCE, "reject")
            except Refusal:
                disk.hook = lambda operation: None
                assert lines_of(ledger) == before
                ledger.close()
                assert lines_of(ledger_on(MemoryDisk(disk.files))) == before
                continue
            disk.hook = lambda operation: None
            assert len(lines_of(ledger)) == 5
            ledger.close()
            assert len(lines_of(ledger_on(MemoryDisk(disk.files)))) == 5
            if next(operations) <= stop_at:
                break
        assert stop_at > 4

    def test_a_crash_at_any_moment(self) -> None:
        files = self.store()
        before = lines_of(ledger_on(MemoryDisk(files)))
        seen: set[int] = set()
        disk = MemoryDisk(files)
        ledger = ledger_on(disk)

        def crash(operation: Operation) -> None:
            for state in disk.crash_states():
                found = lines_of(ledger_on(MemoryDisk(state)))
                assert found in (before, after)
                seen.add(len(found))

        after = [*lines_of_import(files)]
        disk.hook = crash
        import_all(ledger, self.SOURCE, "reject")
        crash(Operation("end", "", 0))
        assert seen == {len(before), len(after)}


def lines_of_import(files: dict[str, bytes]) -> list[str]:
    ledger = ledger_on(MemoryDisk(files))
    import_all(ledger, TestAllOrNothing.SOURCE, "reject")
    return lines_of(ledger)


POLICY_NAMES: tuple[Policy, ...] = ("reject", "overwrite", "keep")


@settings(max_examples=60)
@given(here=records(), there=records(), policy=st.sampled_from(POLICY_NAMES))
def test_whatever_meets_whatever_the_memory_opens_again(
    here: list[Any], there: list[Any], policy: Policy
) -> None:
    """The ids of both run from 1, so that they meet."""
    disk = MemoryDisk()
    ledger = ledger_on(disk)
    import_all(ledger, Records(*here), "reject")
    before = lines_of(ledger)
    try:
        import_all(ledger, Records(*there), policy)
    except Refusal:
        assert lines_of(ledger) == before
    after = lines_of(ledger)
    if policy == "keep":
        assert set(before[1:]) <= set(after[1:])
    ledger.close()
    assert lines_of(ledger_on(MemoryDisk(disk.files))) == after
