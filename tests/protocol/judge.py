"""A judge of what a server writes.

Knows nothing of our encoder: holds a line to the strictest reading of JSON-RPC and MCP that any
known client has. ``test_judge`` shows what each rule catches.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from convmem.protocol import REPLY_BYTES_MAX

NESTING_MAX = 99
INTEGER_MAX = 2**53 - 1
# What comes back as a peer sent it, however large.
ECHOED = {"id", "requestId", "progressToken", "io.modelcontextprotocol/subscriptionId"}
HANDSHAKES = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}
# What a content block of each type must hold.
CONTENT: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str},
    "resource": {"resource": dict},
    "resource_link": {"uri": str, "name": str},
}


def judged(written: bytes) -> Any:
    """The value of one line, without its end and ``jsonrpc``, after every rule was checked."""
    assert len(written) <= REPLY_BYTES_MAX
    text = written.decode("ascii")
    assert "\r" not in text
    value = json.loads(text, parse_constant=_refuse)
    assert value != []
    for message in value if isinstance(value, list) else [value]:
        _judge_message(message)
    return value


def _judge_message(message: Any) -> None:
    assert isinstance(message, dict)
    assert message.pop("jsonrpc") == "2.0"
    match sorted(message):
        case ["id", "result"]:
            assert _is_id(message["id"])
            _judge_result(message["result"])
        case ["error", "id"]:
            assert message["id"] is None or _is_id(message["id"])
            assert set(message["error"]) <= {"code", "message", "data"}
            assert type(message["error"]["code"]) is int
            assert isinstance(message["error"]["message"], str)
        case ["method", "params"]:
            assert isinstance(message["params"], dict)
        case ["id", "method", "params"]:
            assert _is_id(message["id"])
            assert isinstance(message["params"], dict)
        case keys:
            raise AssertionError(f"no message has the keys {keys}")
    for key, member in message.items():
        if member is not None or key != "id":
            _judge_value(key, member, 1)


def _judge_result(result: Any) -> None:
    assert isinstance(result, dict)
    if {"content", "structuredContent", "isError"} & set(result):
        for block in result["content"]:
            _judge_members(block, CONTENT[block["type"]])
        assert isinstance(result.get("structuredContent", {}), dict)
        assert isinstance(result.get("isError", False), bool)
    for tool in result.get("tools", ()):
        _judge_schema(tool["inputSchema"])
        _judge_schema(tool.get("outputSchema", {"type": "object"}))
    for resource in result.get("resources", ()):
        _judge_members(resource, {"uri": str, "name": str})
    if "protocolVersion" in result:
        assert result["protocolVersion"] in HANDSHAKES
        _judge_members(result["serverInfo"], {"name": str, "version": str})
    for capability in result.get("capabilities", {}).values():
        assert isinstance(capability, dict)


def _judge_schema(schema: Mapping[str, Any]) -> None:
    assert schema["type"] == "object"
    assert all(isinstance(member, dict) for member in schema.get("properties", {}).values())


def _judge_members(value: Mapping[str, Any], members: Mapping[str, type]) -> None:
    assert all(isinstance(value[name], kind) for name, kind in members.items())


def _judge_value(name: str, value: Any, depth: int) -> None:
    assert depth <= NESTING_MAX
    assert value is not None, f"null for {name}"
    if isinstance(value, str):
        assert not re.search("[\ud800-\udfff]", value)
    elif isinstance(value, int) and name not in ECHOED:
        assert abs(value) <= INTEGER_MAX
    elif isinstance(value, dict):
        for key, member in value.items():
            _judge_value("key", key, depth + 1)
            _judge_value(key, member, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _judge_value(name, item, depth + 1)


def _is_id(value: Any) -> bool:
    return type(value) in (int, str)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
