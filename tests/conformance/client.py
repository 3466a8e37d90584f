"""The client that the official suite examines: our raw client, doing what it waits for.

``python -m tests.conformance.client URL``, with the revision to speak in the environment, as
the suite starts it. One way fits every scenario: list the tools, call each of them that is
there to be called, answer the server's questions with their defaults.
"""

import asyncio
import os
import sys
from collections.abc import Mapping

from convmem.protocol import MODERN_VERSIONS, Client, Era

Json = Mapping[str, object]

PATIENCE_S = 10.0


async def answer_with_defaults(params: Json) -> Json:
    """What a user accepts who changes nothing: every default, and yes where there is none."""
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else {}
    return {
        "action": "accept",
        "content": {
            name: declared.get("default", True)
            for name, declared in (properties or {}).items()
            if isinstance(declared, dict)
        },
    }


def arguments_for(name: str, tools: Mapping[str, Json]) -> Json | None:
    """What a tool of the suite's is to be called with, None if it is only to be listed."""
    match name:
        case "add_numbers":
            return {"a": 2, "b": 3}
        case "json_schema_echo":
            return {"schema": tools["json_schema_2020_12_tool"]["inputSchema"]}
        case "lookup_user":
            return None
        case _:
            return {}


async def converse(url: str, version: str) -> None:
    async with await Client.start(
        [sys.executable, "-m", "tests.conformance.http_back", url],
        era=Era.MODERN if version in MODERN_VERSIONS else Era.HANDSHAKE,
        answers={"elicitation/create": answer_with_defaults},
        timeout_s=PATIENCE_S,
    ) as client:
        tools = {str(tool["name"]): tool for tool in await client.list_tools()}
        for name in tools:
            if (arguments := arguments_for(name, tools)) is not None:
                await client.call_tool(name, arguments)


if __name__ == "__main__":
    asyncio.run(converse(sys.argv[1], os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]))
