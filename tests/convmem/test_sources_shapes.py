"""What files of other programs hold, and what an import makes of it. All texts are invented."""

import json
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from convmem import limits
from convmem.errors import Refusal
from convmem.ledger import Ledger, environment_of_host
from convmem.message import Message
from convmem.records import PutMessage, SetFact
from convmem.storage import MemoryDisk
from convmem.transfer import Source, import_all
from convmem.transfer.sources import detect

Json = dict[str, Any]
NOON = "2026-03-01T12:00:00.500Z"
NOON_MS = 1_772_366_400_500


def write_lines(path: Path, values: Iterable[object], end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    path.write_text("\n".join(texts) + end, encoding="utf-8", newline="")
    return path


def write_json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def messages(source: Source) -> list[Message]:
    records = [incoming.record for incoming in source.read()]
    return [record.message for record in records if isinstance(record, PutMessage)]


def contents(source: Source) -> list[str]:
    return [message.content for message in messages(source)]


# Claude Code


def line(uuid: str, parent: str | None, said: object, role: str = "user", **more: object) -> Json:
    return {
        "type": role,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s1",
        "timestamp": NOON,
        "isSidechain": False,
        "message": {"role": role, "content": said},
    } | more


def block(kind: str, **more: object) -> list[Json]:
    return [{"type": kind, **more}]


def test_claude_code_keeps_times_roles_and_sessions(tmp_path: Path) -> None:
    answer = line("b", "a", block("text", text="Blue."), "assistant")
    path = write_lines(tmp_path / "s1.jsonl", [line("a", None, "Which colour?"), answer])
    asked, answered = messages(detect(path))
    assert (asked.content, asked.role, asked.timestamp) == ("Which colour?", "user", NOON_MS)
    assert (answered.content, answered.role) == ("Blue.", "assistant")
    assert asked.session_id == "claude-code/s1"
    assert asked.metadata.tags == ("imported", "claude-code")
    assert asked.written_by == "claude-code"


def test_claude_code_repeats_forks_and_unknown_lines(tmp_path: Path) -> None:
    first = line("a", None, "one")
    write_lines(tmp_path / "z.jsonl", [first, first, {"type": "new-thing"}, "{broken", "[1]"])
    copied = line("c", None, "one", forkedFrom={"sessionId": "s1", "messageUuid": "a"})
    write_lines(tmp_path / "a.jsonl", [copied | {"sessionId": "s2"}, line("d", "c", "two")])
    source = detect(tmp_path)
    assert contents(source) == ["one", "two"]
    skipped = source.findings.skipped
    assert skipped["repeated"] == 2
    assert skipped["lines of a type that is not known: new-thing"] == 1
    assert skipped["damaged lines, which are not JSON"] == 1
    assert source.findings.notes["damaged: z.jsonl, line 4"] == 1


def test_claude_code_leaves_a_half_written_line(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", [line("a", None, "one"), '{"type": "us'], end="")
    source = detect(path)
    assert contents(source) == ["one"]
    assert source.findings.skipped == {"last lines that were only half written": 1}


def test_claude_code_reads_no_more_of_a_live_file_than_was_there(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", [line("a", None, "one")])
    source = detect(path)
    with path.open("a") as file:
        file.write(json.dumps(line("b", "a", "two")) + "\n")
    assert contents(source) == ["one"]
    assert contents(detect(path)) == ["one", "two"]


def test_claude_code_tools_thinking_and_envelopes(tmp_path: Path) -> None:
    long = "x" * (limits.IMPORT_TOOL_TEXT_BYTES_MAX + 100)
    call = block("tool_use", id="t1", name="Read", input={"path": "a.txt"})
    own = block("tool_use", id="t2", name="mcp__convmem__search_messages", input={})
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            line("a", None, "<system-reminder>be brief</system-reminder>Read <b>it</b>"),
            line("b", "a", block("thinking", thinking="hm"), "assistant"),
            line("c", "b", call, "assistant"),
            line("d", "c", block("tool_result", tool_use_id="t1", content=long)),
            line("e", "d", own, "assistant"),
            line("f", "e", block("tool_result", tool_use_id="t2", content="secret")),
            line("g", "f", block("image", source={"data": "AAAA"})),
            line("h", "g", "<command-name>/clear</command-name>"),
            line("i", "h", "host", isMeta=True),
        ],
    )
    source = detect(path)
    said, called, result, image = messages(source)
    assert said.content == "Read <b>it</b>"
    assert called.content == '[call of Read] {"path": "a.txt"}'
    assert (called.metadata.tool_call_id, result.metadata.tool_call_id) == ("t1", "t1")
    assert result.role == "assistant"
    assert result.content.endswith("100 bytes left out]")
    assert image.content == "[image]"
    assert source.findings.skipped["thinking"] == 1
    assert source.findings.skipped["what this memory itself had answered"] == 2
    assert source.findings.skipped["put in by the host"] == 1
    assert source.findings.notes["texts that the host had put in, left out"] == 2


def test_claude_code_blocks_of_one_answer_in_one_millisecond(tmp_path: Path) -> None:
    def part(uuid: str, parent: str, said: str) -> Json:
        message = {"id": "m1", "role": "assistant", "content": block("text", text=said)}
        return line(uuid, parent, "", "assistant") | {"message": message}

    asked = line("a", None, "go")
    path = write_lines(tmp_path / "s.jsonl", [asked, part("b", "a", "1"), part("c", "b", "1")])
    _, first, second = messages(detect(path))
    assert first.content == second.content == "1"
    assert first.message_id != second.message_id
    assert [(r.type, r.message_id) for r in second.metadata.relations] == [
        ("continues", first.message_id)
    ]


def test_claude_code_leaves_out_rewound_prompts(tmp_path: Path) -> None:
    values = [
        line("a", None, "start"),
        line("b", "a", "ok", "assistant"),
        line("c", "b", "first try"),
        line("d", "c", "bad", "assistant"),
        line("e", "b", "second try"),
        line("f", "e", "good", "assistant"),
        line("g", "nowhere", "after a lost parent"),
    ]
    path = write_lines(tmp_path / "s.jsonl", values)
    source = detect(path)
    assert contents(source) == ["start", "ok", "second try", "good", "after a lost parent"]
    assert source.findings.notes["branches beside what is shown"] == 1
    assert source.findings.skipped["messages of branches (--all-branches imports them)"] == 2
    every = {message.content: message for message in messages(detect(path, all_branches=True))}
    assert len(every) == 7
    (relation,) = every["first try"].metadata.relations
    assert (relation.type, relation.message_id) == ("branch_of", every["ok"].message_id)
    assert "branch" in every["bad"].metadata.tags


def test_claude_code_follows_a_compaction(tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "x", "parentUuid": None}
    values = [
        line("a", None, "before"),
        boundary | {"logicalParentUuid": "a", "sessionId": "s1"},
        line("b", "x", "what went before", isCompactSummary=True),
        line("c", "b", "after"),
    ]
    found = messages(detect(write_lines(tmp_path / "s.jsonl", values)))
    assert [(each.role, each.content) for each in found] == [
        ("user", "before"),
        ("system", "what went before"),
        ("user", "after"),
    ]


def test_claude_code_sub_agents_titles_and_queue(tmp_path: Path) -> None:
    def queue(operation: str, content: str | None = None) -> Json:
        named = {"sessionId": "s1", "timestamp": NOON, "content": content}
        return {"type": "queue-operation", "operation": operation} | named

    write_lines(
        tmp_path / "p" / "s1.jsonl",
        [
            {"type": "summary", "summary": "Another", "leafUuid": "elsewhere"},
            line("a", None, "sent"),
            queue("enqueue", "sent"),
            queue("dequeue"),
            queue("enqueue", "only queued"),
            queue("dequeue"),
            queue("enqueue", "still waiting"),
            {"type": "summary", "summary": "Colours", "leafUuid": "a"},
            {"type": "summary", "summary": "Colours", "leafUuid": "a"},
        ],
    )
    agent = line("q", None, "look", isSidechain=True, agentId="77")
    write_lines(tmp_path / "p" / "s1" / "subagents" / "agent-77.jsonl", [agent])
    source = detect(tmp_path)
    found = {each.content: each for each in messages(source)}
    assert set(found) == {"sent", "only queued", "Colours", "look"}
    assert found["look"].session_id == "claude-code/s1/agent-77"
    assert found["Colours"].metadata.memory_kind == "summary"
    assert source.findings.skipped["titles of sessions in other files"] == 1


# ChatGPT


def node(parent: str | None, said: object, role: str = "user", **more: object) -> Json:
    content = said if isinstance(said, dict) else {"content_type": "text", "parts": [said]}
    message = {"author": {"role": role}, "content": content, "create_time": NOON_MS / 1000}
    return {"parent": parent, "children": [], "message": message | more}


def chat(mapping: Json, current: str | None, **more: object) -> Json:
    root = {"root": {"id": "root", "parent": None, "message": None}}
    known = {"id": "c1", "title": "Colours", "create_time": 1772366000.25, "current_node": current}
    return known | {"mapping": root | mapping} | more


def test_chatgpt_shows_the_current_branch(tmp_path: Path) -> None:
    mapping = {
        "a": node("root", "old question"),
        "b": node("a", "old answer", "assistant"),
        "c": node("root", "new question"),
        "d": node("c", "new answer", "assistant"),
    }
    path = write_json(tmp_path / "anything.json", [chat(mapping, "d")])
    source = detect(path)
    asked, answered = messages(source)
    assert (asked.content, answered.content) == ("new question", "new answer")
    assert (asked.timestamp, asked.metadata.summary) == (NOON_MS, "Colours")
    assert answered.metadata.summary is None
    assert source.findings.notes["branches beside what is shown"] == 1
    every = {each.content: each for each in messages(detect(path, all_branches=True))}
    (relation,) = every["old answer"].metadata.relations
    assert (relation.type, relation.message_id) == ("reply_to", every["old question"].message_id)


def test_chatgpt_parts_nulls_and_hidden_noise(tmp_path: Path) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file://x"}
    mixed = {"content_type": "multimodal_text", "parts": ["see", image, None]}
    hidden = {"is_visually_hidden_from_conversation": True}
    mapping = {
        "a": node("root", "", "system"),
        "b": node("a", mixed, create_time=None),
        "c": node("b", {"content_type": "thoughts", "thoughts": []}, "assistant"),
        "d": node(
            "c", {"content_type": "code", "text": "search('x')"}, "assistant", recipient="web"
        ),
        "e": node("d", {"content_type": "tether_quote", "text": "page"}, "tool"),
        "f": node("e", "cited \ue200cite\ue202turn0\ue201.", "assistant"),
        "g": node("f", "secret", "user", metadata=hidden),
        "h": node("g", {"content_type": "brand_new", "text": "future"}, "assistant"),
    }
    conversation = chat(mapping, "h", title=None)
    source = detect(write_json(tmp_path / "c.json", {"conversations": [conversation]}))
    assert contents(source) == [
        "see\n\n[image]",
        "[call of web] search('x')",
        "[answer of a tool] page",
        "cited .",
        "future",
    ]
    assert messages(source)[0].timestamp == NOON_MS  # that of the message before
    assert source.findings.skipped == {
        "without any text": 1,
        "thinking": 1,
        "hidden from the conversation": 1,
    }
    assert source.findings.notes["contents of a kind that is not known: brand_new"] == 1


def test_chatgpt_cycles_and_deep_chains(tmp_path: Path) -> None:
    deep = {f"n{i}": node(f"n{i - 1}" if i else "root", f"m{i}") for i in range(20_000)}
    ring = {"x": node("y", "ring x"), "y": node("x", "ring y")}
    two = [chat(deep, "n19999"), chat(ring, "x") | {"id": "c2"}]
    source = detect(write_json(tmp_path / "c.json", two), all_branches=True)
    found = contents(source)
    assert found[:2] == ["m0", "m1"]
    assert len(found) == 20_002


def test_chatgpt_without_a_current_node(tmp_path: Path) -> None:
    mapping = {"a": node("root", "question"), "b": node("a", "answer", "assistant")}
    source = detect(write_json(tmp_path / "c.json", chat(mapping, None)))
    assert contents(source) == ["question", "answer"]


@pytest.mark.parametrize("is_zip", [False, True], ids=["folder", "zip"])
def test_chatgpt_in_shards(tmp_path: Path, is_zip: bool) -> None:
    texts = {
        f"conversations-00{n}.json": json.dumps(
            [chat({"a": node("root", f"m{n}")}, "a", id=str(n))]
        )
        for n in range(3)
    }
    texts["user.json"] = json.dumps({"id": "u"})
    if is_zip:
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, said in texts.items():
                archive.writestr(name, said)
    else:
        path = tmp_path
        for name, said in texts.items():
            (tmp_path / name).write_text("\ufeff" + said, encoding="utf-8")
    assert contents(detect(path)) == ["m0", "m1", "m2"]


# Claude.ai


def test_claude_ai_blocks_attachments_and_branches(tmp_path: Path) -> None:
    none = "00000000-0000-4000-8000-000000000000"

    def said(uuid: str, parent: str, sender: str, **more: object) -> Json:
        fields = {"uuid": uuid, "sender": sender, "parent_message_uuid": parent}
        return fields | {"created_at": NOON, "text": "", "content": []} | more

    pasted = {"file_name": "notes.txt", "extracted_content": "pasted text"}
    turns = [
        said("a", none, "human", attachments=[pasted], files=[{"file_name": "p.png"}]),
        said("b", "a", "assistant", content=[{"type": "text", "text": "first answer"}]),
        said("c", "a", "assistant", content=[{"type": "text", "text": None}], text="second answer"),
        said("d", "lost", "human", text="thanks"),
        said("e", "d", "assistant", content=[{"type": "text", "text": None}], text=None),
    ]
    conversation = {"uuid": "u1", "name": "", "created_at": NOON, "chat_messages": turns}
    source = detect(write_json(tmp_path / "conversations.json", [conversation]))
    assert contents(source) == [
        "[attachment: notes.txt]\npasted text\n\n[file: p.png]",
        "second answer",
        "thanks",
    ]
    assert source.findings.skipped["messages of branches (--all-branches imports them)"] == 1
    assert source.findings.skipped["without any text"] == 1
    assert messages(source)[0].timestamp == NOON_MS


# Codex


def rollout(kind: str, **payload: object) -> Json:
    return {"timestamp": NOON, "type": kind, "payload": payload}


def item(role: str, said: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": said}]
    return rollout("response_item", type="message", role=role, content=content)


def test_codex_prefers_items_and_drops_what_was_injected(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "2026" / "rollout-x.jsonl",
        [
            rollout("session_meta", id="r1", cwd="/x"),
            item("developer", "rules"),
            item("user", "<environment_context>here</environment_context>"),
            item("user", "do it"),
            rollout("event_msg", type="user_message", message="do it"),
            rollout("event_msg", type="agent_message", message="done"),
            rollout("response_item", type="reasoning", encrypted_content="x"),
            rollout("response_item", type="function_call", name="sh", arguments="{}", call_id="k"),
            rollout("response_item", type="function_call_output", call_id="k", output="ok"),
            rollout("event_msg", type="token_count"),
        ],
    )
    source = detect(path)
    found = messages(source)
    assert [(each.role, each.content) for each in found] == [
        ("user", "do it"),
        ("assistant", "done"),
        ("assistant", "[call of sh] {}"),
        ("assistant", "[answer of a tool] ok"),
    ]
    assert {each.session_id for each in found} == {"codex/r1"}
    assert source.findings.skipped["events that tell of messages once more"] == 1
    assert source.findings.skipped["instructions of the host"] == 2
    assert source.findings.notes["messages that only an event tells of"] == 1


def test_codex_old_files(tmp_path: Path) -> None:
    content = [{"type": "input_text", "text": "hello"}]
    spoken = {"type": "message", "role": "user", "content": content}
    session = {"id": "old", "timestamp": NOON, "instructions": ""}
    lines_ = write_lines(tmp_path / "rollout-a.jsonl", [session, {"record_type": "state"}, spoken])
    single = write_json(tmp_path / "rollout-b.json", {"session": session, "items": [spoken]})
    for path in (lines_, single):
        (found,) = messages(detect(path))
        assert (found.content, found.session_id) == ("hello", "codex/old")
        assert found.timestamp == NOON_MS


# OpenAI's chat format, ShareGPT


def test_chat_lines(tmp_path: Path) -> None:
    call = {"id": "k", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    path = write_lines(
        tmp_path / "train.jsonl",
        [
            "\ufeff" + json.dumps({"messages": [{"role": "developer", "content": "be kind"}]}),
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "a"}, {"type": "image_url"}],
                    },
                    {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "content": "42", "tool_call_id": "k"},
                    {"role": "wizard", "content": "?"},
                ]
            },
            "{bad",
            {"conversations": [{"from": "human", "value": "h"}, {"from": "gpt", "value": "g"}]},
            {"prompt": "p", "completion": "c"},
        ],
        end="\r\n",
    )
    source = detect(path)
    found = messages(source)
    assert [(each.role, each.content) for each in found] == [
        ("system", "be kind"),
        ("user", "a\n\n[image_url]"),
        ("assistant", "[call of f] {}"),
        ("assistant", "[answer of a tool] 42"),
        ("user", "h"),
        ("assistant", "g"),
        ("user", "p"),
        ("assistant", "c"),
    ]
    assert len({each.session_id for each in found}) == 4
    assert source.findings.skipped["of a role that is not known: wizard"] == 1


def test_chat_messages_on_lines_of_their_own_and_as_an_array(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "same"}, {"role": "user", "content": "same"}]
    flat = detect(write_lines(tmp_path / "flat.jsonl", turns))
    assert contents(flat) == ["same", "same"]
    assert len({each.session_id for each in messages(flat)}) == 1
    share = [{"id": "1", "conversations": [{"from": "human", "value": "h"}]}]
    (tmp_path / "share.json").write_text(json.dumps(share, indent=1))
    assert contents(detect(tmp_path / "share.json")) == ["h"]


def test_chat_ids_do_not_depend_on_where_and_when_the_file_lies(tmp_path: Path) -> None:
    values = [{"messages": [{"role": "user", "content": "a"}]}]
    here = write_lines(tmp_path / "a.jsonl", values)
    there = write_lines(tmp_path / "b.jsonl", [*values, values[0]])
    os.utime(there, (1_000_000_000, 1_000_000_000))
    (first,) = messages(detect(here))
    again, twice = messages(detect(there))
    assert again.message_id == first.message_id != twice.message_id
    assert again.timestamp == 1_000_000_000_000


# The memory server


def test_memory_server(tmp_path: Path) -> None:
    ann = {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["likes tea"]}
    knows = {"type": "relation", "from": "Ann", "to": "Bo", "relationType": "knows"}
    glued = json.dumps(ann) + json.dumps(knows)
    path = write_lines(tmp_path / "memory.json", ['{"type":"_marker"}', glued], end="")
    records = [incoming.record for incoming in detect(path).read()]
    facts = {r.fact.key: r.fact.value for r in records if isinstance(r, SetFact)}
    assert facts == {"entity/Ann": "(person)\nlikes tea", "relation/Ann/knows/Bo": "Ann knows Bo"}
    (message,) = (r.message for r in records if isinstance(r, PutMessage))
    assert (message.content, message.metadata.memory_kind) == ("likes tea", "semantic")


# All of them


def test_text_that_is_too_long_is_split_and_joins_again(tmp_path: Path) -> None:
    said = "é" * (limits.CONTENT_BYTES_MAX // 2) + "\U0001f600end"
    found = messages(detect(write_lines(tmp_path / "s.jsonl", [line("a", None, said)])))
    assert [len(each.content.encode()) for each in found] == [limits.CONTENT_BYTES_MAX, 7]
    assert "".join(each.content for each in found) == said
    assert found[1].metadata.relations[0].message_id == found[0].message_id


def test_impossible_times_and_halves_of_characters(tmp_path: Path) -> None:
    early = line("a", None, "one \ud800 half", timestamp="1950-01-01T00:00:00Z")
    late = line("b", "a", "two", timestamp="9999-01-01T00:00:00Z")
    source = detect(write_lines(tmp_path / "s.jsonl", [early, late]))
    assert contents(source) == ["one \ufffd half", "two"]
    assert source.findings.notes["times before 1970 or in the future, not used"] == 2


def test_nothing_to_import_is_refused_with_the_reasons(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", [line("a", None, "host", isMeta=True)])
    with pytest.raises(Refusal, match=r"nothing was found to import .1 put in by the host"):
        list(detect(path).read())


@pytest.mark.parametrize(
    "text", ["", "plain text", '{"a": 1}', "[]", "[1, 2]"], ids=["empty", "text", "json", "[]", "n"]
)
def test_what_is_not_known_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(Refusal, match="Looked for: an export of convmem, Claude Code"):
        detect(path)


def test_a_damaged_array_is_refused_with_its_place(tmp_path: Path) -> None:
    one = json.dumps(chat({"a": node("root", "m")}, "a"))
    path = tmp_path / "conversations.json"
    path.write_text(f"[{one},{one[:50]}")
    with pytest.raises(Refusal, match=r"behind conversation 1.*the end is missing"):
        list(detect(path).read())


def test_files_of_several_kinds_are_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "s.jsonl", [line("a", None, "x")])
    write_lines(tmp_path / "t.jsonl", [{"messages": [{"role": "user", "content": "a"}]}])
    with pytest.raises(Refusal, match="files of several kinds"):
        detect(tmp_path)


def imported(ledger: Ledger, source: Source) -> tuple[int, int]:
    outcome = import_all(ledger, source, "keep")
    return outcome.messages + outcome.fact_events, outcome.unchanged + outcome.kept


def _claude(path: Path, count: int) -> None:
    write_lines(path, [line(f"u{n}", f"u{n - 1}" if n else None, f"m{n}") for n in range(count)])


def _chatgpt(path: Path, count: int) -> None:
    nodes = {f"n{n}": node(f"n{n - 1}" if n else "root", f"m{n}") for n in range(count)}
    write_json(path, [chat(nodes, f"n{count - 1}", title=f"title {count}")])


def _codex(path: Path, count: int) -> None:
    write_lines(
        path, [rollout("session_meta", id="r")] + [item("user", f"m{n}") for n in range(count)]
    )


def _chat(path: Path, count: int) -> None:
    write_lines(path, [{"role": "user", "content": "again"} for _ in range(count)])


def _memory(path: Path, count: int) -> None:
    entity = {"type": "entity", "entityType": "t", "observations": []}
    write_lines(path, [entity | {"name": f"e{n}"} for n in range(count)])


@pytest.mark.parametrize("write", [_claude, _chatgpt, _codex, _chat, _memory])
def test_a_second_import_adds_what_is_new(
    tmp_path: Path, write: Callable[[Path, int], None]
) -> None:
    path = tmp_path / "source.jsonl"
    ledger = Ledger(MemoryDisk(), environment_of_host())
    write(path, 3)
    assert imported(ledger, detect(path)) == (3, 0)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert imported(ledger, detect(path)) == (0, 3)
    write(path, 5)
    assert imported(ledger, detect(path)) == (2, 3)
    ledger.close()
