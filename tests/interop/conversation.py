"""One conversation that every host holds with the server, and what each must be told.

The clients under ``clients/`` and the Inspector are handed ``calls()`` and report what they
saw; ``check_answers`` compares. Ids are brought along, so that no call depends on an answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 60.0

SESSION = "interop / 語"
FIRST, SECOND = "01HF7YAT00000000000000000A", "01HF7YAT00000000000000000B"
# What encoders, terminals and line readers get wrong: astral, combining and unassigned code
# points, a change of direction, every kind of line end, NUL.
CONTENT = 'naïve e\u0301 語 😀 \u202e \uffff "\\" \r\n \u2028 \x85 \0 end'
KEY = "user/theme 語"


@dataclass(frozen=True, slots=True)
class Step:
    """A call, what its answer must contain (a refusal: ``error``), and its frames in the log."""

    tool: str
    arguments: Mapping[str, object]
    expected: Mapping[str, object]
    frames: int = 0


def _write(message_id: str, content: str, **more: object) -> dict[str, object]:
    return {
        "message_id": message_id,
        "session_id": SESSION,
        "role": "user",
        "content": content,
        **more,
    }


_RELATIONS = [{"type": "answers", "message_id": FIRST}]
STEPS = [
    Step("write_message", _write(FIRST, CONTENT), {"message_id": FIRST, "created": True}, 1),
    Step("write_message", _write(FIRST, CONTENT), {"message_id": FIRST, "created": False}),
    Step(
        "write_message",
        _write(SECOND, "", metadata={"tags": ["a", "A"], "relations": _RELATIONS}),
        {"message_id": SECOND, "revision": 1, "created": True},
        1,
    ),
    Step("write_message", _write(FIRST, "other"), {"error": {"code": "CONFLICT"}}),
    Step("write_message", {"role": "robot"}, {"error": {"code": "INVALID_ARGUMENT"}}),
    Step(
        "read_messages",
        {"view": "history", "session_id": SESSION, "order": "oldest_first"},
        {
            "messages": [
                {"message_id": FIRST, "content": CONTENT},
                {
                    "message_id": SECOND,
                    "content": "",
                    "metadata": {"tags": ["a", "A"], "relations": _RELATIONS},
                },
            ]
        },
    ),
    Step(
        "read_messages",
        {"view": "content", "message_id": FIRST},
        {"content": CONTENT, "total_bytes": len(CONTENT.encode())},
    ),
    Step("read_messages", {"view": "sessions"}, {"sessions": [{"session_id": SESSION}]}),
    Step(
        "read_messages",
        {"view": "history", "session_id": "none"},
        {"error": {"code": "NOT_FOUND"}},
    ),
    Step(
        "search_messages",
        {"query": CONTENT, "limit": 1},
        {"results": [{"message_id": FIRST, "holds_query": True}]},
    ),
    Step("rebuild_index", {}, {"rebuilt": False, "live": 2}),
    Step(
        "update_message",
        {"message_id": SECOND, "expected_revision": 1, "content": "text", "clear": ["tags"]},
        {"revision": 2, "changed": ["tags", "content"]},
        1,
    ),
    Step(
        "update_message",
        {"message_id": SECOND, "expected_revision": 1, "content": "other"},
        {"error": {"code": "CONFLICT", "current_revision": 2}},
    ),
    Step("delete_message", {"message_id": SECOND}, {"revision": 2}, 1),
    Step("delete_message", {"message_id": SECOND}, {"error": {"code": "NOT_FOUND"}}),
    Step("memory_set", {"key": KEY, "value": CONTENT}, {"revision": 1}, 1),
    Step(
        "memory_set",
        {"key": KEY, "value": "x", "require_absent": True},
        {"error": {"code": "ALREADY_EXISTS", "current_revision": 1}},
        1,
    ),
    Step("memory_get", {"key": KEY}, {"value": CONTENT, "revision": 1}),
    Step("memory_list", {"prefix": "user/"}, {"facts": [{"key": KEY, "value": CONTENT}]}),
    Step("memory_search", {"query": "theme"}, {"facts": [{"key": KEY}]}),
    Step("memory_delete", {"key": KEY, "expected_revision": 1}, {"revision": 1}, 1),
    Step(
        "memory_history",
        {"key": KEY},
        {"events": [{"action": "delete"}, {"action": "refused"}, {"action": "set"}]},
    ),
    Step("get_system_health", {}, {"status": "ok", "messages": 1, "deleted": 1, "facts": 0}),
]
# Every tool must be among them: a host is told of these and no others.
TOOLS = {step.tool for step in STEPS}


def calls() -> list[dict[str, object]]:
    """The conversation as JSON for a client."""
    return [{"tool": step.tool, "arguments": step.arguments} for step in STEPS]


def check_answers(answers: Sequence[Mapping[str, Any]]) -> None:
    """Hold what a client saw (``text``, ``structured``, ``is_error``) to the conversation.

    Some hosts show a model the text alone, some the object alone: each must be complete.
    """
    for step, answer in zip(STEPS, answers, strict=True):
        assert answer["is_error"] == ("error" in step.expected), answer
        if answer["is_error"]:
            sentence, _, text = answer["text"].partition("\n")
            told = json.loads(text)
            assert sentence == f"{told['error']['code']}: {told['error']['message']}"
            assert answer["structured"] is None
        else:
            told = json.loads(answer["text"])
            assert told == answer["structured"]
        assert _contains(told, step.expected), f"{step} was answered {told}"


def _contains(actual: object, expected: object) -> bool:
    """Whether they are equal, but for fields of objects that are not expected."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        return all(
            name in actual and _contains(actual[name], value) for name, value in expected.items()
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(_contains, actual, expected))
    return actual == expected
