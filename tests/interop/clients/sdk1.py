"""Hold a conversation through the official Python SDK 1.x; print what a host sees.

    python sdk1.py SERVER... < calls.json

Runs in an environment that has the SDK and nothing of ours.
"""

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters  # type: ignore[import-not-found]
from mcp.client.stdio import stdio_client  # type: ignore[import-not-found]


async def converse(command: list[str], calls: list[dict[str, Any]]) -> dict[str, Any]:
    server = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        greeting = await session.initialize()
        tools = await session.list_tools()
        results = [await session.call_tool(call["tool"], call["arguments"]) for call in calls]
    return {
        "server": greeting.serverInfo.name,
        "revision": greeting.protocolVersion,
        "tools": [tool.name for tool in tools.tools],
        "answers": [
            {
                "text": "\n".join(block.text for block in result.content),
                "structured": result.structuredContent,
                "is_error": result.isError,
            }
            for result in results
        ],
    }


print(json.dumps(asyncio.run(converse(sys.argv[1:], json.load(sys.stdin)))))
