"""The tools as a host gets them, held to what all known hosts take.

The library's own linter looks at a declaration when a tool is made. Here the rules are told once
more, from the outside, over the list that a real server sends in each revision.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convmem.cli.launch import server_command
from convmem.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS

from ..protocol.process import ServerProcess
from ..protocol.wire import MODERN_META, initialize, request

Json = dict[str, Any]

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
TYPES = {"string", "integer", "number", "boolean", "array", "object"}
# What every host and the APIs behind them read; the rest is refused by some.
KEYWORDS = {
    "string": {"enum", "minLength", "maxLength", "default"},
    "integer": {"minimum", "maximum", "default"},
    "number": {"minimum", "maximum", "default"},
    "boolean": {"default"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
}
HINTS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
# Some hosts cut descriptions, some the list of tools, and some count tools.
DESCRIPTION_CHARS_MAX = 1_500
LIST_BYTES_MAX = 24 * 1024
TOOLS_MAX = 15
DEPTH_MAX = 3  # of objects


def listing(revision: str, data_dir: Path) -> list[Json]:
    with ServerProcess(command=server_command(data_dir)) as server:
        meta: Json = {"_meta": MODERN_META}
        if revision in HANDSHAKE_VERSIONS:
            meta = {}
            server.send(initialize(revision))
            assert server.next()["id"] == 0
        server.send(request("tools/list", meta))
        answer = server.next()
        assert "nextCursor" not in answer["result"], "hosts are known that never ask for more"
        assert len(json.dumps(answer)) < LIST_BYTES_MAX
        tools: list[Json] = answer["result"]["tools"]
        return tools


@pytest.mark.parametrize("revision", [*HANDSHAKE_VERSIONS, *MODERN_VERSIONS])
def test_every_host_takes_the_list(revision: str, tmp_path: Path) -> None:
    tools = listing(revision, tmp_path)
    assert 0 < len(tools) <= TOOLS_MAX
    assert len({tool["name"].lower() for tool in tools}) == len(tools)
    assert [problem for tool in tools for problem in problems(tool)] == []


def test_the_list_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (listing(HANDSHAKE_VERSIONS[-1], tmp_path / name) for name in "ab")
    assert json.dumps(first) == json.dumps(second)


def problems(tool: Json) -> Iterator[str]:
    """What some host would refuse in an entry of the list."""
    name = tool["name"]
    if not NAME.fullmatch(name):
        yield f"{name}: the name"
    if not 0 < len(tool["description"]) < DESCRIPTION_CHARS_MAX:
        yield f"{name}: the description"
    if extra := set(tool) - {
        "name", "title", "description", "inputSchema", "outputSchema", "annotations",
    }:  # fmt: skip
        yield f"{name}: {extra}"
    if annotations := tool.get("annotations"):
        if annotations.keys() != HINTS | {"title"}:
            yield f"{name}: every hint must be given, as their defaults warn"
        if annotations["title"] != tool.get("title", annotations["title"]):
            yield f"{name}: two titles"
    for schema in (tool["inputSchema"], tool.get("outputSchema")):
        if schema is not None:
            if schema["type"] != "object" or "description" in schema:
                yield f"{name}: the root"
            yield from _schema_problems(name, {"description": "-", **schema}, 0)


def _schema_problems(where: str, schema: Json, depth: int) -> Iterator[str]:
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        yield f"{where}: type {kind}"
        return
    if not schema.get("description"):
        yield f"{where}: no description"
    if extra := schema.keys() - KEYWORDS[kind] - {"type", "description"}:
        yield f"{where}: {extra}"
    if depth > DEPTH_MAX:
        yield f"{where}: too deep"
    if schema.get("default", "") is None or isinstance(schema.get("default"), dict | list):
        yield f"{where}: the default"
    if kind == "array":
        yield from _schema_problems(f"{where}[]", schema.get("items", {}), depth)
    if kind == "object":
        if not schema.keys() >= {"properties"}:
            yield f"{where}: no properties"
        if not set(schema.get("required", [])) <= schema.get("properties", {}).keys():
            yield f"{where}: requires what it does not have"
        for name, member in schema.get("properties", {}).items():
            if not NAME.fullmatch(name):
                yield f"{where}.{name}: the name"
            yield from _schema_problems(f"{where}.{name}", member, depth + 1)


GOOD: Json = {
    "name": "good",
    "description": "Good.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "Text."}},
        "required": ["text"],
    },
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Bad"},
        {"description": ""},
        {"icons": []},
        {"annotations": {"title": "Good"}},
        {"inputSchema": {"type": "object"}},
        {"inputSchema": {"type": ["object", "null"], "properties": {}}},
        {"inputSchema": {"type": "object", "properties": {}, "anyOf": []}},
        {"inputSchema": {"type": "object", "properties": {}, "required": ["x"]}},
        {"inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}},
        {"inputSchema": {"type": "object", "properties": {"x": {"description": "Any."}}}},
        {"outputSchema": {"type": "array", "items": {"type": "string", "description": "A."}}},
    ],
    ids=str,
)
def test_the_rules_find_what_hosts_refuse(wrong: Json) -> None:
    assert list(problems(GOOD)) == []
    assert list(problems(GOOD | wrong)) != []
