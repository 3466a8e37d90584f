"""``convmem tools`` and ``convmem call``: the raw client against any MCP server.

Prints what the server says, unshortened: the tools as a list, a call's result as JSON. A
tool error goes to stderr and gives exit status 1, a failure of the protocol or the server too.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from convmem.protocol import BlockingClient, ClientError, ToolResult

_NO_SERVER = "name the server's command after --, as in: convmem tools -- npx some-mcp-server"


def tools(server: list[str], timeout_s: float) -> int:
    """List the tools of a server: name, arguments, description."""

    def show(client: BlockingClient) -> int:
        for tool in client.list_tools():
            _show_tool(tool)
        return 0

    return _with_server(server, timeout_s, show)


def call(tool: str, arguments: str, server: list[str], timeout_s: float) -> int:
    """Call one tool with a JSON object of arguments and print its result."""
    try:
        parsed = json.loads(arguments)
    except ValueError as error:
        return _usage(f"the arguments are not JSON: {error}")
    if not isinstance(parsed, dict):
        return _usage(f"the arguments are not a JSON object: {arguments}")

    def show(client: BlockingClient) -> int:
        return _show_result(client.call_tool(tool, parsed, timeout_s=timeout_s))

    return _with_server(server, timeout_s, show)


def _show_tool(tool: Mapping[str, Any]) -> None:
    print(tool.get("name", "a tool without a name"))
    print(f"    {tool.get('description', '')}")
    schema = tool.get("inputSchema", {})
    required = schema.get("required", [])
    for name, declared in schema.get("properties", {}).items():
        need = "required" if name in required else "optional"
        print(
            f"    {name}: {declared.get('type', 'any')}, {need}. {declared.get('description', '')}"
        )
    print()


def _show_result(result: ToolResult) -> int:
    if result.is_error:
        print(result.text, file=sys.stderr)
        return 1
    if result.structured is not None:
        print(json.dumps(result.structured, indent=2))
    else:
        print(result.text)
    return 0


def _with_server(server: list[str], timeout_s: float, use: Callable[[BlockingClient], int]) -> int:
    if not server:
        return _usage(_NO_SERVER)
    try:
        with BlockingClient(server, timeout_s=timeout_s) as client:
            return use(client)
    except ClientError as error:
        print(f"convmem: {error}", file=sys.stderr)
        return 1


def _usage(problem: str) -> int:
    print(f"convmem: {problem}", file=sys.stderr)
    return 2
