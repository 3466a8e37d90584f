"""Our raw client against servers of the official SDKs, and one that many people use."""

import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copy, which

import pytest

from convmem.protocol import (
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    BlockingClient,
    Era,
    RequestFailed,
    RequestTimedOut,
)

from .conftest import Interpreter, Packages, Recorded
from .conversation import PATIENCE_S

pytestmark = pytest.mark.ci

SERVERS = Path(__file__).parent / "servers"
HANDSHAKE, MODERN = HANDSHAKE_VERSIONS[-1], MODERN_VERSIONS[-1]
MEMORY = ["@modelcontextprotocol/server-memory@2026.8.31"]
# The client gives a server two seconds to end at each of three steps, and none needs them all.
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server: what it needs, what runs there, and the newest revision it speaks."""

    script: str
    needs: tuple[str, ...]
    revision: str


KINDS = {
    "python-sdk-1": Kind("sdk1.py", ("mcp==1.30.*",), HANDSHAKE),
    "python-sdk-2": Kind("sdk2.py", ("mcp==2.3.*",), MODERN),
    "typescript-sdk-1": Kind("sdk1.mjs", ("@modelcontextprotocol/sdk@1.32.2", "zod@4"), HANDSHAKE),
    "typescript-sdk-2": Kind("sdk2.mjs", ("@modelcontextprotocol/server@2.4.0", "zod@4"), MODERN),
}
# Every kind in the era that it is found to be of, and in the one it is told to be of.
CASES = [
    pytest.param(kind, era, kind.revision if era is None else HANDSHAKE, id=f"{name}-{asked}")
    for name, kind in KINDS.items()
    for era, asked in ((None, "found"), (Era.HANDSHAKE, "handshake"))
]

Command = Callable[[Kind], list[str]]


@pytest.fixture
def command(interpreter_with: Interpreter, npm_packages: Packages, tmp_path: Path) -> Command:
    """What starts a server of a kind."""

    def started_by(kind: Kind) -> list[str]:
        if kind.script.endswith(".py"):
            (requirement,) = kind.needs
            return [str(interpreter_with(requirement)), "-I", str(SERVERS / kind.script)]
        packages = npm_packages(kind.needs)
        # Node looks for packages beside the script.
        (tmp_path / "node_modules").symlink_to(packages.modules)
        for name in (kind.script, "body.mjs"):
            copy(SERVERS / name, tmp_path)
        return [packages.node, str(tmp_path / kind.script)]

    return started_by


@pytest.mark.parametrize(("kind", "era", "revision"), CASES)
def test_a_server_is_understood(
    kind: Kind, era: Era | None, revision: str, command: Command, recorded: Recorded
) -> None:
    with BlockingClient(recorded(command(kind)), era=era, timeout_s=PATIENCE_S) as client:
        met = (client.server_name, client.protocol_version, client.instructions)
        assert met == ("real", revision, "Ask it.")
        assert {tool["name"] for tool in client.list_tools()} == {
            "add",
            "refuse",
            "sleep",
            "count_cancelled",
        }
        added = client.call_tool("add", {"a": 2, "b": 3})
        assert (added.text, added.structured, added.is_error) == ("5", {"result": 5}, False)
        assert client.call_tool("refuse", {}).is_error
        assert client.call_tool("add", {"a": "two"}).is_error
        assert _uris(client, "resources/list", "resources") == ["note://static"]
        templates = _uris(client, "resources/templates/list", "resourceTemplates")
        assert templates == ["note://by/{name}"]
        read = client.request("resources/read", {"uri": "note://by/ada"})
        assert _texts(read["contents"]) == ["a note by ada"]
        greeting = client.request("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
        assert "Greet Ada." in json.dumps(greeting)
        with pytest.raises(RequestFailed):
            client.request("resources/read", {"uri": "note://nowhere/at/all"})


@pytest.mark.parametrize(("kind", "era", "revision"), CASES)
def test_a_call_given_up_is_cancelled_at_the_server(
    kind: Kind, era: Era | None, revision: str, command: Command
) -> None:
    with BlockingClient(command(kind), era=era, timeout_s=PATIENCE_S) as client:
        with pytest.raises(RequestTimedOut):
            client.call_tool("sleep", {}, timeout_s=0.2)
        until = time.monotonic() + PATIENCE_S
        while client.call_tool("count_cancelled", {}).text != "1":
            assert time.monotonic() < until, "the server never heard of it"


@pytest.mark.parametrize(("kind", "era", "revision"), CASES)
def test_nothing_is_left_of_a_server(
    kind: Kind, era: Era | None, revision: str, command: Command
) -> None:
    client = BlockingClient(command(kind), era=era, timeout_s=PATIENCE_S)
    with pytest.raises(RequestTimedOut):
        client.call_tool("sleep", {}, timeout_s=0.2)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < CLOSE_S
    assert client.pid is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(client.pid, 0)


@pytest.fixture
def memory(npm_packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The memory server as people start it: by npx, which is a process before the process."""
    packages = npm_packages(MEMORY)
    monkeypatch.setenv("MEMORY_FILE_PATH", str(tmp_path / "memory.jsonl"))
    npx = which("npx")
    if npx is None:
        pytest.skip("npx is needed to start the server")
    return [npx, "--prefix", str(packages.modules.parent), "mcp-server-memory"]


ADA = {"name": "Ada", "entityType": "person", "observations": ["wrote a program \U0001f600"]}


def test_the_memory_server_remembers(memory: list[str]) -> None:
    with BlockingClient(memory, timeout_s=PATIENCE_S) as client:
        assert client.server_name == "memory-server"
        assert not client.call_tool("create_entities", {"entities": [ADA]}).is_error
    with BlockingClient(memory, timeout_s=PATIENCE_S) as client:
        graph = client.call_tool("read_graph", {}).structured
        assert graph == {"entities": [ADA], "relations": []}
        pid = client.pid
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


def test_the_installed_commands_talk_to_it(memory: list[str]) -> None:
    written = _convmem("call", "create_entities", json.dumps({"entities": [ADA]}), "--", *memory)
    assert json.loads(written) == {"entities": [ADA]}
    assert "read_graph" in _convmem("tools", "--", *memory).splitlines()
    assert json.loads(_convmem("call", "read_graph", "{}", "--", *memory))["entities"] == [ADA]


def _convmem(*arguments: str) -> str:
    program = which("convmem", path=sysconfig.get_path("scripts"))
    assert program is not None, f"convmem is not installed for {sys.executable}"
    finished = subprocess.run(
        [program, *arguments], capture_output=True, encoding="utf-8", timeout=PATIENCE_S
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def _uris(client: BlockingClient, method: str, key: str) -> list[str]:
    entries = client.request(method)[key]
    assert isinstance(entries, list)
    return [entry.get("uri") or entry.get("uriTemplate") for entry in entries]


def _texts(contents: object) -> list[str]:
    assert isinstance(contents, list)
    return [each["text"] for each in contents]
