"""What ``convmem serve`` shows every host, held to what known hosts bear."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convmem.protocol import BlockingClient, Era
from tests.interop.conversation import STEPS
from tests.protocol.requirements import proves

SERVE = [sys.executable, "-m", "convmem", "serve", "--data-dir"]
LIST_BYTES_MAX = 24 * 1024
INSTRUCTIONS_CHARS_MAX = 1000
TOOLS_MAX = 15
KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[BlockingClient]:
    with BlockingClient([*SERVE, str(tmp_path)]) as connected:
        yield connected


@proves("HOST-03", "HOST-04", "LIST-01")
def test_all_that_a_host_reads_out_to_a_model_is_short(client: BlockingClient) -> None:
    tools = client.list_tools()
    assert 0 < len(tools) <= TOOLS_MAX
    assert len(json.dumps(tools)) < LIST_BYTES_MAX
    assert client.instructions is not None
    assert len(client.instructions) <= INSTRUCTIONS_CHARS_MAX


@proves("OUT-11")
def test_every_success_is_what_its_tool_declares(client: BlockingClient) -> None:
    schemas: Any = {tool["name"]: tool.get("outputSchema") for tool in client.list_tools()}
    checked = set()
    for step in STEPS:
        result = client.call_tool(step.tool, step.arguments)
        schema = schemas[step.tool]
        if schema is not None and not result.is_error:
            assert list(departures(result.structured, schema, "")) == []
            checked.add(step.tool)
    assert checked == {name for name, schema in schemas.items() if schema is not None}


def departures(value: Any, schema: Any, where: str) -> Iterator[str]:
    """Where a value is not what a schema says, of the few keywords that our tools use."""
    kind = schema["type"]
    fits = isinstance(value, KINDS[kind]) and isinstance(value, bool) == (kind == "boolean")
    if not fits:
        yield f"{where}: {value!r} is no {kind}"
    elif value not in schema.get("enum", [value]):
        yield f"{where}: {value!r} is none of {schema['enum']}"
    elif kind == "array":
        for place, item in enumerate(value):
            yield from departures(item, schema["items"], f"{where}[{place}]")
    elif kind == "object":
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{where}.{name} is missing"
        for name, member in schema["properties"].items():
            if name in value:
                yield from departures(value[name], member, f"{where}.{name}")


@proves("PROC-11")
@pytest.mark.skipif(os.name != "posix", reason="elsewhere Python needs some environment itself")
@pytest.mark.parametrize("era", Era)
def test_a_host_may_give_no_environment_and_any_folder(tmp_path: Path, era: Era) -> None:
    with BlockingClient([*SERVE, str(tmp_path)], env={}, cwd="/", era=era) as client:
        step = STEPS[0]
        written = client.call_tool(step.tool, step.arguments)
        assert not written.is_error, written.text


@proves("HOST-05")
def test_a_result_is_short_unless_more_is_asked_for(client: BlockingClient) -> None:
    for _ in range(3):
        arguments = {"session_id": "s", "role": "user", "content": "x" * 100_000}
        assert not client.call_tool("write_message", arguments).is_error
    asked: dict[str, object] = {"view": "history", "session_id": "s"}
    assert len(client.call_tool("read_messages", asked).text) <= 32 * 1024
    more = client.call_tool("read_messages", asked | {"max_bytes": 400_000}).text
    assert len(more) > 300_000
