"""The MCP Inspector's command line, built on the official TypeScript client, as a host."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from convmem.cli.launch import server_command

from .conftest import Packages, Recorded
from .conversation import PATIENCE_S, TOOLS, calls, check_answers

pytestmark = pytest.mark.ci

PACKAGES = ["@modelcontextprotocol/inspector@2.12.0"]
# Exit status for a tool result with isError.
TOOL_FAILED = 5

Inspector = list[str]


@pytest.fixture(scope="session")
def inspector(npm_packages: Packages) -> Inspector:
    """The command line of an Inspector."""
    return [
        *npm_packages(PACKAGES).command("mcp-inspector"),
        "--cli",
        "--quiet",
        "--format",
        "json",
    ]


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
def test_an_inspector_of_every_era_is_served(
    era: str, inspector: Inspector, recorded: Recorded, tmp_path: Path
) -> None:
    command = [*inspector, "--protocol-era", era]
    server = recorded(server_command(tmp_path / "store"))
    listed = _run([*command, "--method", "tools/list"], server)
    assert listed.returncode == 0, listed.stderr
    assert {tool["name"] for tool in json.loads(listed.stdout)["result"]["tools"]} == TOOLS
    # Every call starts a server: what is read was found on disk.
    check_answers([_call(command, call, server) for call in calls()])


def test_every_schema_is_portable(inspector: Inspector, tmp_path: Path) -> None:
    listed = _run([*inspector, "--method", "tools/list", "--strict"], server_command(tmp_path))
    assert listed.returncode == 0, listed.stderr
    # Warnings leave the status 0 and add a finding.
    assert json.loads(listed.stdout).get("schemaFindings", []) == []


def _call(command: list[str], call: dict[str, Any], server: list[str]) -> dict[str, Any]:
    arguments = json.dumps(call["arguments"])
    method = ["--method", "tools/call", "--tool-name", call["tool"], "--tool-args-json", arguments]
    finished = _run([*command, *method], server)
    assert finished.returncode in (0, TOOL_FAILED), finished.stderr
    result = json.loads(finished.stdout)["result"]
    assert result.get("isError", False) == (finished.returncode == TOOL_FAILED)
    return {
        "text": "\n".join(block["text"] for block in result["content"]),
        "structured": result.get("structuredContent"),
        "is_error": result.get("isError", False),
    }


def _run(command: list[str], server: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, "--", *server],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
    )
