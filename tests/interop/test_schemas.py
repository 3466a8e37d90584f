"""What the server says, at every revision, is what the official JSON Schemas allow."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from convmem.cli.launch import server_command
from convmem.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS

from ..protocol.process import ServerProcess
from ..protocol.wire import MODERN_META, initialize, request
from .conftest import Packages, Recorded
from .conversation import SESSION, STEPS
from .npm import CONFORMANCE
from .recording import problems

pytestmark = pytest.mark.ci

# The suite that brings the schemas has none of 2024-11-05.
REVISIONS = [*HANDSHAKE_VERSIONS[1:], *MODERN_VERSIONS]
CLIENT = {"name": "schemas", "version": "1"}
URI = f"convmem://session/{quote(SESSION, safe='')}"
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    *(("tools/call", {"name": step.tool, "arguments": step.arguments}) for step in STEPS),
    ("tools/call", {"name": "nosuch", "arguments": {}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "convmem://sessions"}),
    ("resources/read", {"uri": URI}),
    ("resources/read", {"uri": "convmem://nowhere"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "recall", "arguments": {"topic": "cats"}}),
    ("prompts/get", {"name": "nosuch"}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "hand_over"},
            "argument": {"name": "session_id", "value": "int"},
        },
    ),
    ("nosuch", {}),
]
GREETINGS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    **{
        version: [
            ("initialize", initialize(version)["params"] | {"clientInfo": CLIENT}),
            ("ping", {}),
            ("resources/subscribe", {"uri": URI}),
            ("resources/unsubscribe", {"uri": URI}),
        ]
        for version in HANDSHAKE_VERSIONS
    },
    **{version: [("server/discover", {})] for version in MODERN_VERSIONS},
}


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_message_of_a_revision_is_valid(
    revision: str, recorded: Recorded, tmp_path: Path
) -> None:
    meta = {"_meta": MODERN_META} if revision in MODERN_VERSIONS else {}
    with ServerProcess(command=recorded(server_command(tmp_path / "store"))) as server:
        for id_, (method, params) in enumerate(GREETINGS[revision] + REQUESTS):
            server.send(request(method, params | meta, id_))
            assert server.next()["id"] == id_
        server.stdin.close()
        assert server.rest() == []
        assert server.ends() == (0, "")


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ({"id": 1, "result": {"tools": [{"name": "nameless schema"}]}}, "inputSchema"),
        ({"id": 1, "result": {}}, "tools"),
        ({"id": 1}, "JSONRPCMessage"),
    ],
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_schemas_find_a_mistake(
    revision: str, message: dict[str, Any], wrong: str, npm_packages: Packages, tmp_path: Path
) -> None:
    meta = MODERN_META if revision in MODERN_VERSIONS else {}
    said = [
        ("client", initialize(revision)),
        ("server", {"id": 0, "result": {"protocolVersion": revision}}),
        ("client", request("tools/list", {"_meta": meta})),
        ("server", {"jsonrpc": "2.0", **message}),
    ]
    log = tmp_path / "messages.jsonl"
    rows = [{"session": 1, "from": who, "line": json.dumps(each)} for who, each in said]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert any(wrong in problem for problem in problems(log, npm_packages([CONFORMANCE])))
