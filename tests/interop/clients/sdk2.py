"""Hold a conversation through the official Python SDK 2.x; print what a host sees.

    python sdk2.py MODE SERVER... < calls.json

MODE is the SDK's: auto, legacy, or a modern revision, spoken without asking who the server is.
Runs in an environment that has the SDK and nothing of ours.
"""

import asyncio
import json
import sys
from typing import Any

from mcp import Client, StdioServerParameters  # type: ignore[import-not-found]


async def converse(mode: str, command: list[str], calls: list[dict[str, Any]]) -> dict[str, Any]:
    server = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(server, mode=mode) as client:
        tools = await client.list_tools()
        results = [await client.call_tool(call["tool"], call["arguments"]) for call in calls]
        return {
            "server": client.server_info and client.server_info.name,
            "revision": client.protocol_version,
            "tools": [tool.name for tool in tools.tools],
            "answers": [
                {
                    "text": "\n".join(block.text for block in result.content),
                    "structured": result.structured_content,
                    "is_error": result.is_error,
                }
                for result in results
            ],
        }


print(json.dumps(asyncio.run(converse(sys.argv[1], sys.argv[2:], json.load(sys.stdin)))))
