"""Conversations of other programs: the shapes they come in, and the traps in them."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem import ids, limits
from convmem.errors import Refusal
from convmem.ledger import Ledger
from convmem.message import Message
from convmem.records import PutMessage, SetFact
from convmem.storage import MemoryDisk
from convmem.transfer import Outcome, Source, import_all
from convmem.transfer.sources import detect
from convmem.transfer.sources.pieces import Piece, json_elements
from convmem.transfer.sources.turns import time_of
from tests.convmem.harness import Clock

Json = dict[str, Any]


def lines(*values: Any) -> str:
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for value in values)


def source_of(folder: Path, text: str | bytes, name: str = "file", **more: Any) -> Source:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return detect(path, **more)


def messages_of(source: Source) -> list[Message]:
    found = []
    for incoming in source.read():
        assert isinstance(incoming.record, PutMessage)
        found.append(incoming.record.message)
    return found


def said(source: Source) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages_of(source)]


# Claude Code


def claude_line(kind: str, uuid: str, content: Any, **more: Any) -> Json:
    return {
        "type": kind,
        "uuid": uuid,
        "sessionId": "session",
        "timestamp": "2026-03-01T09:00:00.123Z",
        "message": {"role": kind, "content": content},
    } | more


class TestClaudeCode:
    def test_words_tools_and_pictures(self, tmp_path: Path) -> None:
        source = source_of(
            tmp_path,
            lines(
                {"type": "summary", "summary": "Garden plans", "leafUuid": "c"},
                claude_line("user", "a", "Plant tomatoes?"),
                claude_line("assistant", "b", [{"type": "thinking", "thinking": "hm"}]),
                claude_line("assistant", "c", [{"type": "text", "text": "In May."}]),
                claude_line(
                    "assistant",
                    "d",
                    [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"cmd": "ls"}}],
                ),
                claude_line(
                    "user",
                    "e",
                    [{"type": "tool_result", "tool_use_id": "t1", "content": [{"text": "ok"}]}],
                ),
                claude_line("user", "f", [{"type": "image"}, {"type": "text", "text": "this"}]),
                {"type": "file-history-snapshot"},
            ),
        )
        found = messages_of(source)
        assert [(each.role, each.content) for each in found] == [
            ("user", "Plant tomatoes?"),
            ("assistant", "In May."),
            ("assistant", '[call of Bash] {"cmd": "ls"}'),
            ("assistant", "[answer of a tool] ok"),
            ("user", "[image]\n\nthis"),
        ]
        assert {each.session_id for each in found} == {"claude-code/session"}
        assert found[0].metadata.summary == "Garden plans"
        assert found[0].metadata.tags == ("imported", "claude-code")
        assert found[2].metadata.tool_call_id == found[3].metadata.tool_call_id == "t1"
        assert {each.timestamp for each in found} == {1772355600123}
        assert sum(source.findings.skipped.values()) == 3

    def test_repeated_lines_count_once(self, tmp_path: Path) -> None:
        """Two files of a fork share half of their lines."""
        one, two = claude_line("user", "a", "one"), claude_line("assistant", "b", "two")
        (tmp_path / "first.jsonl").write_text(lines(one, one, two))
        (tmp_path / "second.jsonl").write_text(
            lines(*(line | {"sessionId": "fork"} for line in (one, two)))
            + "\n"
            + lines(claude_line("user", "c", "three", sessionId="fork"))
        )
        source = detect(tmp_path)
        assert [text for _, text in said(source)] == ["one", "two", "three"]
        (why,) = source.findings.skipped
        assert "same uuid" in why
        assert source.findings.skipped[why] == 3

    def test_what_the_program_put_in_is_left_out(self, tmp_path: Path) -> None:
        source = source_of(
            tmp_path,
            lines(
                claude_line("user", "a", "<command-name>/compact</command-name>"),
                claude_line("user", "b", "go on<system-reminder>be\nnice</system-reminder>"),
                claude_line("user", "c", "a meta line", isMeta=True),
                claude_line("user", "d", "What came before.", isCompactSummary=True),
                claude_line("user", "e", "I wrote <b>this</b> myself"),
            ),
        )
        found = messages_of(source)
        assert [each.content for each in found] == [
            "go on",
            "What came before.",
            "I wrote <b>this</b> myself",
        ]
        assert (found[1].role, found[1].metadata.memory_kind) == ("system", "summary")

    def test_what_was_typed_ahead_and_never_sent_is_kept(self, tmp_path: Path) -> None:
        queued = {"type": "queue-operation", "operation": "enqueue", "sessionId": "session"}
        at = {"timestamp": "2026-03-01T09:00:00Z"}
        source = source_of(
            tmp_path,
            lines(
                queued | at | {"content": "sent"},
                queued | at | {"content": "never sent"},
                queued | at | {"content": "taken back"},
                queued | at | {"content": "taken back", "operation": "remove"},
                claude_line("user", "a", "sent"),
            ),
        )
        assert [text for _, text in said(source)] == ["sent", "never sent"]

    def test_a_sub_agent_has_a_session_of_its_own(self, tmp_path: Path) -> None:
        main = tmp_path / "project" / "session.jsonl"
        agent = tmp_path / "project" / "session" / "subagents" / "agent-7.jsonl"
        agent.parent.mkdir(parents=True)
        main.write_text(lines(claude_line("user", "a", "main")))
        agent.write_text(lines(claude_line("user", "b", "task", isSidechain=True, agentId="7")))
        sessions = {each.content: each.session_id for each in messages_of(detect(tmp_path))}
        assert sessions == {"main": "claude-code/session", "task": "claude-code/session/7"}

    def test_a_live_file_is_read_to_where_it_is_written(self, tmp_path: Path) -> None:
        text = lines(claude_line("user", "a", "whole"), "no JSON", claude_line("user", "b", "two"))
        source = source_of(tmp_path, text + '\n{"type": "user", "uuid": "c", "mess')
        assert [text for _, text in said(source)] == ["whole", "two"]
        assert len(source.findings.skipped) == 2
        assert any("not whole" in why for why in source.findings.skipped)

    def test_a_grown_session_adds_what_is_new(self, tmp_path: Path) -> None:
        ledger = Ledger(MemoryDisk(), Clock().environment())
        first = [claude_line("user", "a", "one"), claude_line("assistant", "b", "two")]
        source = source_of(tmp_path, lines(*first))
        assert import_all(ledger, source, "keep") == Outcome(messages=2)
        assert import_all(ledger, source, "keep") == Outcome(unchanged=2)
        grown = source_of(tmp_path, lines(*first, claude_line("user", "c", "three")))
        assert import_all(ledger, grown, "keep") == Outcome(messages=1, unchanged=2)

    def test_nothing_to_store_is_no_success(self, tmp_path: Path) -> None:
        ledger = Ledger(MemoryDisk(), Clock().environment())
        source = source_of(tmp_path, lines(claude_line("user", "a", "meta", isMeta=True)))
        with pytest.raises(Refusal, match="nothing in it could be imported: 1 x lines were put in"):
            import_all(ledger, source, "keep")


# ChatGPT


def node(key: str, parent: str | None, role: str, parts: list[Any], **more: Any) -> Json:
    message = {
        "id": key,
        "author": {"role": role},
        "create_time": 1_700_000_000.25,
        "content": {"content_type": "text", "parts": parts},
    }
    return {"id": key, "parent": parent, "children": [], "message": message | more}


def chat(*nodes: Json, current: str, **more: Any) -> Json:
    root = {"root": {"id": "root", "parent": None, "message": None}}
    return {
        "id": "conversation",
        "title": "Trip",
        "create_time": 1_700_000_000.5,
        "current_node": current,
        "mapping": root | {each["id"]: each for each in nodes},
    } | more


BRANCHED = chat(
    node("q", "root", "user", ["Where to?"]),
    node("a1", "q", "assistant", ["Rome."]),
    node("a2", "q", "assistant", ["Paris.\ue200cite\ue202turn0\ue201"]),
    node("q2", "a2", "user", ["", {"content_type": "image_asset_pointer"}, "When?"]),
    current="q2",
)


class TestChatGpt:
    def test_the_branch_that_was_seen(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, json.dumps([BRANCHED]))
        found = messages_of(source)
        assert [(each.role, each.content) for each in found] == [
            ("user", "Where to?"),
            ("assistant", "Paris."),
            ("user", "[image]\n\nWhen?"),
        ]
        assert found[0].metadata.summary == "Trip"
        assert found[0].timestamp == 1_700_000_000_250
        assert any("--all-branches" in what for what in source.findings.notes)

    def test_all_branches_on_demand(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, json.dumps([BRANCHED]), all_branches=True)
        found = {each.content: each for each in messages_of(source)}
        assert set(found) == {"Where to?", "Rome.", "Paris.", "[image]\n\nWhen?"}
        (link,) = found["Rome."].metadata.relations
        assert (link.type, link.message_id) == ("reply_to", found["Where to?"].message_id)

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda text: f"[{text}]",
            lambda text: f'{{"conversations": [{text}]}}',
            lambda text: text,
            lambda text: "\ufeff [ " + text + " ] ",
            lambda text: json.dumps([json.loads(text)], indent=2),
        ],
        ids=["array", "object", "one", "marked", "on many lines"],
    )
    def test_every_wrapping(self, tmp_path: Path, wrap: Any) -> None:
        source = source_of(tmp_path, wrap(json.dumps(BRANCHED)))
        assert len(said(source)) == 3

    def test_a_zip_of_shards_beside_other_files(self, tmp_path: Path) -> None:
        packed = io.BytesIO()
        other = BRANCHED | {"id": "other"}
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("user.json", '{"id": "someone"}')
            archive.writestr("conversations-000.json", json.dumps([BRANCHED]))
            archive.writestr("conversations-001.json", json.dumps([BRANCHED, other]))
            archive.writestr("message_feedback.json", "[]")
        source = source_of(tmp_path, packed.getvalue(), "export.zip")
        assert len(said(source)) == 6
        (why,) = source.findings.skipped
        assert "conversations are there already" in why

    def test_null_titles_and_times(self, tmp_path: Path) -> None:
        nodes = [node("a", "root", "user", ["x"], create_time=None)]
        value = chat(*nodes, current="a", title=None, create_time=None)
        source = source_of(tmp_path, json.dumps([value]))
        (first,) = messages_of(source)
        (again,) = messages_of(source)
        assert first == again
        assert first.timestamp == 1_700_000_000_000  # the file's
        assert first.metadata.summary is None
        assert any("no time" in what for what in source.findings.notes)

    def test_kinds_of_content(self, tmp_path: Path) -> None:
        code = {"content_type": "code", "text": "print(1)"}
        output = {"content_type": "execution_output", "text": "1"}
        thoughts = {"content_type": "thoughts", "thoughts": [{"content": "hm"}]}
        hidden = {"is_visually_hidden_from_conversation": True}
        nodes = [
            node("a", "root", "system", ["secret"], metadata=hidden),
            node("b", "a", "assistant", [], content=code, recipient="python"),
            node("c", "b", "tool", [], content=output, author={"role": "tool", "name": "python"}),
            node("d", "c", "assistant", [], content=thoughts),
            node("e", "d", "assistant", ["One."]),
            node("f", "e", "assistant", [""]),
        ]
        source = source_of(tmp_path, json.dumps([chat(*nodes, current="f")]))
        assert said(source) == [
            ("assistant", "[call of python] print(1)"),
            ("assistant", "[answer of python] 1"),
            ("assistant", "One."),
        ]

    def test_a_circle_and_a_long_chain_end(self, tmp_path: Path) -> None:
        nodes = [node("n0", "n9999", "user", ["0"])]
        nodes += [node(f"n{n}", f"n{n - 1}", "user", [str(n)]) for n in range(1, 10_000)]
        source = source_of(tmp_path, json.dumps([chat(*nodes, current="n9999")]))
        assert len(said(source)) == 10_000

    def test_a_long_text_of_a_tool_says_what_is_left_out(self, tmp_path: Path) -> None:
        page = {"content_type": "tether_quote", "text": "長" * 10_000}
        nodes = [node("a", "root", "tool", [], content=page)]
        source = source_of(tmp_path, json.dumps([chat(*nodes, current="a")]))
        ((_, text),) = said(source)
        assert len(text.encode()) < limits.IMPORT_TOOL_TEXT_BYTES_MAX + 100
        assert "more bytes were not imported]" in text

    def test_a_text_longer_than_a_message_is_divided(self, tmp_path: Path) -> None:
        long = "長い" * 400_000
        value = chat(node("a", "root", "user", [long]), current="a")
        found = messages_of(source_of(tmp_path, json.dumps([value])))
        assert "".join(each.content for each in found) == long
        assert [len(each.content.encode()) <= limits.CONTENT_BYTES_MAX for each in found] == [
            True
        ] * len(found)
        assert found[1].metadata.relations[0].message_id == found[0].message_id

    def test_text_that_is_not_unicode(self, tmp_path: Path) -> None:
        value = chat(node("a", "root", "user", ["half \ud83d"]), current="a", title="\ud83d")
        (message,) = messages_of(source_of(tmp_path, json.dumps([value])))
        assert message.content == "half \ufffd"

    def test_a_file_that_is_cut_is_refused(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, json.dumps([BRANCHED, BRANCHED])[:-40])
        with pytest.raises(Refusal, match="not JSON"):
            list(source.read())


# Claude.ai


def claude_chat(*messages: Json, **more: Any) -> Json:
    return {
        "uuid": "chat",
        "name": "Recipes",
        "created_at": "2026-01-02T03:04:05.678901Z",
        "chat_messages": list(messages),
    } | more


class TestClaudeAi:
    def test_texts_blocks_and_attachments(self, tmp_path: Path) -> None:
        value = claude_chat(
            {
                "uuid": "a",
                "sender": "human",
                "text": "",
                "content": [],
                "attachments": [{"file_name": "list.txt", "extracted_content": "eggs"}],
                "created_at": "2026-01-02T03:04:05Z",
            },
            {
                "uuid": "b",
                "sender": "assistant",
                "text": "ignored",
                "content": [
                    {"type": "text", "text": None},
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Omelette."},
                    {"type": "tool_use", "name": "artifacts", "input": {"content": "x"}},
                ],
            },
            {"uuid": "c", "sender": "human", "text": "thanks", "content": []},
            {"uuid": "d", "sender": "human", "text": "", "content": []},
        )
        source = source_of(tmp_path, json.dumps([value]))
        assert said(source) == [
            ("user", "[attachment list.txt]\neggs"),
            ("assistant", 'Omelette.\n\n[call of artifacts] {"content": "x"}'),
            ("user", "thanks"),
        ]
        assert messages_of(source)[0].session_id == "claude-ai/chat"
        assert source.findings.skipped["messages hold no words"] == 1

    def test_branches(self, tmp_path: Path) -> None:
        value = claude_chat(
            {"uuid": "a", "sender": "human", "text": "one"},
            {"uuid": "b", "sender": "assistant", "text": "left", "parent_message_uuid": "a"},
            {"uuid": "c", "sender": "assistant", "text": "seen", "parent_message_uuid": "a"},
            current_leaf_message_uuid="c",
        )
        source = source_of(tmp_path, json.dumps([value]))
        assert [text for _, text in said(source)] == ["one", "seen"]
        source = source_of(tmp_path, json.dumps([value]), all_branches=True)
        assert [text for _, text in said(source)] == ["one", "seen", "left"]

    def test_the_key_that_is_seen_in_the_wild(self, tmp_path: Path) -> None:
        value = {"uuid": "x", "messages": [{"uuid": "a", "sender": "human", "text": "hi"}]}
        assert said(source_of(tmp_path, json.dumps([value]))) == [("user", "hi")]


# Codex


def item(kind: str, **payload: Any) -> Json:
    return {
        "timestamp": "2026-04-01T00:00:00.000Z",
        "type": "response_item",
        "payload": {"type": kind} | payload,
    }


META = {"type": "session_meta", "payload": {"id": "session", "cwd": "/somewhere"}}
ASKED = {"type": "event_msg", "payload": {"type": "user_message", "message": "hello"}}


class TestCodex:
    def test_items_count_and_events_do_not(self, tmp_path: Path) -> None:
        words = [{"type": "input_text", "text": "hello"}]
        context = [{"type": "input_text", "text": "<environment_context>\nx"}]
        answer = [{"type": "output_text", "text": "hi"}]
        source = source_of(
            tmp_path,
            lines(
                META,
                item("message", role="developer", content=words),
                item("message", role="user", content=context),
                item("message", role="user", content=words),
                ASKED,
                item("reasoning", encrypted_content="x"),
                item("function_call", name="shell", arguments='{"a": 1}', call_id="c"),
                item("function_call_output", output="done", call_id="c"),
                item("message", role="assistant", content=answer),
            ),
        )
        assert said(source) == [
            ("user", "hello"),
            ("assistant", '[call of shell] {"a": 1}'),
            ("assistant", "[answer of a tool] done"),
            ("assistant", "hi"),
        ]
        assert messages_of(source)[0].session_id == "codex/session"

    def test_events_count_where_there_are_no_items(self, tmp_path: Path) -> None:
        answered = {"type": "event_msg", "payload": {"type": "agent_message", "message": "hi"}}
        assert said(source_of(tmp_path, lines(META, ASKED, answered))) == [
            ("user", "hello"),
            ("assistant", "hi"),
        ]


# Chat lines


class TestChatLines:
    def test_conversations_on_lines(self, tmp_path: Path) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        openai = {
            "messages": [
                {"role": "developer", "content": "Be short."},
                {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "42"},
                {"role": "narrator", "content": "x"},
            ]
        }
        sharegpt = {
            "conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]
        }
        pair = {"prompt": "P", "completion": "C"}
        text = "\ufeff" + lines(openai, "broken", sharegpt, pair).replace("\n", "\r\n")
        source = source_of(tmp_path, text, "train.jsonl")
        assert said(source) == [
            ("system", "Be short."),
            ("user", "Hi"),
            ("assistant", "[call of f] {}"),
            ("assistant", "[answer of a tool] 42"),
            ("user", "Q"),
            ("assistant", "A"),
            ("user", "P"),
            ("assistant", "C"),
        ]
        found = messages_of(source)
        assert found[2].metadata.tool_call_id == found[3].metadata.tool_call_id == "c"
        sessions = {each.session_id for each in found}
        assert sessions == {"chat/train.jsonl:1", "chat/train.jsonl:3", "chat/train.jsonl:4"}
        assert any("narrator" in why for why in source.findings.skipped)
        assert messages_of(source) == found

    def test_a_message_on_each_line_and_an_array(self, tmp_path: Path) -> None:
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        for name, text in (("lines", lines(*turns)), ("array", json.dumps(turns))):
            source = source_of(tmp_path, text, name)
            assert said(source) == [("user", "a"), ("assistant", "b")]
            assert {each.session_id for each in messages_of(source)} == {f"chat/{name}"}


# The memory server


class TestMemoryServer:
    GRAPH = lines(
        {"type": "entity", "name": "Mika", "entityType": "person", "observations": ["likes tea"]},
        '{"type":"entity","name":"Ken","entityType":"person","observations":[]}'
        '{"type":"relation","from":"Mika","to":"Ken","relationType":"knows"}',
        {"type": "entity", "name": "Mika", "entityType": "person", "observations": []},
    )

    def test_a_graph_becomes_facts(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, self.GRAPH, "memory.json")
        facts = {}
        for incoming in source.read():
            assert isinstance(incoming.record, SetFact)
            facts[incoming.record.fact.key] = incoming.record.fact.value
        assert facts == {
            "entity/Mika": "person\nlikes tea",
            "entity/Ken": "person",
            "relation/Mika/knows/Ken": "Mika knows Ken",
        }
        ledger = Ledger(MemoryDisk(), Clock().environment())
        assert import_all(ledger, source, "keep") == Outcome(fact_events=3)
        assert import_all(ledger, source, "keep") == Outcome(unchanged=3)


# What all have in common


@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG", b"{}", b"[]", b"hello", b'{"a": 1}\n{"a": 2}', b"[1, 2]"]
)
def test_what_is_nothing_known_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(Refusal, match="What can be"):
        source_of(tmp_path, data)


def test_a_folder_of_several_kinds_is_refused(tmp_path: Path) -> None:
    source_of(tmp_path, lines(META, ASKED), "a.jsonl")
    source_of(tmp_path, lines(claude_line("user", "a", "x")), "b.jsonl")
    with pytest.raises(Refusal, match="several kinds"):
        detect(tmp_path)


@given(
    values=st.lists(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)),
    indent=st.none() | st.integers(0, 2),
)
def test_an_array_is_read_element_by_element(values: list[Any], indent: int | None) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False, default=str)
    data = text.encode("utf-8", "surrogatepass")
    if "\ud800" <= max(text, default="") <= "\udfff":
        return

    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(1 + len(data) % 3)

    piece = Piece("file", len(data), 0, lambda: Trickle(data))
    assert list(json_elements(piece)) == values


@given(seconds=st.floats(0, 4e9))
def test_times_are_told_to_the_millisecond(seconds: float) -> None:
    assert time_of(seconds) == round(seconds * 1000)


@pytest.mark.parametrize(
    ("given_", "ms"),
    [
        ("2026-01-01T00:00:00+09:00", 1767193200000),
        ("2026-01-01T00:00:00", 1767225600000),
        (1767225600000, 1767225600000),
        ("yesterday", None),
        (None, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (-1, None),
    ],
)
def test_times_of_other_shapes(given_: object, ms: int | None) -> None:
    assert time_of(given_) == ms


@pytest.mark.ci
def test_a_hundred_megabytes_on_one_line_take_little_memory(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    one = json.dumps(chat(node("a", "root", "user", ["x" * 100_000]), current="a"))
    path = tmp_path / "conversations.json"
    with path.open("w") as file:
        file.write("[")
        for number in range(1000):
            file.write(("," if number else "") + one.replace("conversation", f"c{number}", 1))
        file.write("]")
    source = detect(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in source.read()) == 1000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 * 1024  # KiB on Linux, bytes elsewhere


def test_ids_tell_the_time_of_what_was_said(tmp_path: Path) -> None:
    (message,) = messages_of(source_of(tmp_path, lines(claude_line("user", "a", "x"))))
    assert ids.timestamp_ms(message.message_id) == message.timestamp
