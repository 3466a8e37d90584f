"""The judge of what leaves catches everything that kills a known client."""

import json
from typing import Any

import pytest

from convmem.protocol import REPLY_BYTES_MAX

from .judge import judged

TEXT = {"type": "text", "text": "x"}
TOOL = {"name": "x", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
AGREED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
}


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | members).encode()


def answer(**result: Any) -> bytes:
    return message(id=1, result=result)


def deep(levels: int) -> object:
    return [deep(levels - 1)] if levels else []


GOOD: dict[str, bytes] = {
    "a call": answer(content=[TEXT], structuredContent={"a": [1.5]}, isError=False),
    "nothing": answer(content=[], isError=True),
    "tools": answer(tools=[TOOL, TOOL | {"outputSchema": {"type": "object"}}]),
    "a handshake": answer(**AGREED),
    "an error without id": message(id=None, error={"code": -32700, "message": "x"}),
    "a large id": message(id=2**70, result={}),
    "a notification": message(method="x", params={"progressToken": 2**70}),
    "a request": message(id="a", method="x", params={}),
    "a batch": b"[" + message(id=1, result={}) + b"]",
}
BAD: dict[str, bytes] = {
    "OUT-01 a byte order mark": b"\xef\xbb\xbf" + answer(),
    "OUT-01 a carriage return": answer() + b"\r",
    "OUT-01 not ASCII": message(method="é", params={}).replace(rb"\u00e9", "é".encode()),
    "OUT-01 not UTF-8": message(method="?", params={}).replace(b"?", b"\xff"),
    "OUT-02 half a pair": answer(a="\ud800"),
    "OUT-02 half a pair in a key": answer(**{"\ud800": 1}),
    "OUT-02 half a pair in an id": message(id="\ud800", result={}),
    "OUT-03 NaN": answer(a=float("nan")),
    "OUT-03 infinity": answer(a=float("-inf")),
    "OUT-03 an integer that is not exact": answer(a=2**53),
    "OUT-04 deep": answer(a=deep(100)),
    "OUT-05 long": answer(a="x" * REPLY_BYTES_MAX),
    "OUT-06 an empty array": b"[]",
    "OUT-06 a number": b"1",
    "OUT-06 no jsonrpc": b'{"id":1,"result":{}}',
    "OUT-06 an id of the wrong type": message(id=1.0, result={}),
    "OUT-06 a true id": message(id=True, result={}),
    "OUT-06 an id null beside a result": message(id=None, result={}),
    "OUT-06 a key too many": message(id=1, result={}, extra=1),
    "OUT-06 result and error": message(id=1, result={}, error=None),
    "OUT-06 a result null": message(id=1, result=None),
    "OUT-06 an error code that is text": message(id=1, error={"code": "1", "message": "x"}),
    "OUT-06 params that are no object": message(method="x", params=[]),
    "OUT-07 a cursor null": answer(tools=[], nextCursor=None),
    "OUT-07 a description null": answer(tools=[TOOL | {"description": None}]),
    "OUT-07 _meta null": answer(_meta=None),
    "OUT-07 instructions null": answer(**AGREED, instructions=None),
    "OUT-07 isError null": answer(content=[], isError=None),
    "OUT-08 no content": answer(isError=False),
    "OUT-08 content of a new type": answer(content=[{"type": "video"}]),
    "OUT-08 content without type": answer(content=[{"text": "x"}]),
    "OUT-08 text without text": answer(content=[{"type": "text"}]),
    "OUT-08 structure that is an array": answer(content=[], structuredContent=[]),
    "OUT-09 a tool without schema": answer(tools=[TOOL, {"name": "y"}]),
    "OUT-09 a schema without type": answer(tools=[TOOL | {"inputSchema": {}}]),
    "OUT-09 a schema of two types": answer(tools=[{"inputSchema": {"type": ["object", "null"]}}]),
    "OUT-09 a property true": answer(
        tools=[{"inputSchema": {"type": "object", "properties": {"a": True}}}]
    ),
    "OUT-10 an array": answer(tools=[TOOL | {"outputSchema": {"type": "array"}}]),
    "OUT-12 a version without handshake": answer(**AGREED | {"protocolVersion": "2026-07-28"}),
    "OUT-12 a server without version": answer(**AGREED | {"serverInfo": {"name": "x"}}),
    "OUT-12 a capability true": answer(**AGREED | {"capabilities": {"tools": True}}),
    "OUT-13 a resource without name": answer(resources=[{"uri": "x"}]),
    "OUT-13 a link without name": answer(content=[{"type": "resource_link", "uri": "x"}]),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_all_clients_read_passes(case: str) -> None:
    judged(GOOD[case])


@pytest.mark.parametrize("case", BAD)
def test_what_some_client_trips_over_is_caught(case: str) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError)):
        judged(BAD[case])
