"""A server of the official Python SDK 1.x: what ``test_real_servers`` asks every server for.

Runs in an environment that has the SDK and nothing of ours.
"""

import asyncio

from mcp.server.fastmcp import FastMCP  # type: ignore[import-not-found]

server = FastMCP("real", instructions="Ask it.")
cancelled = 0


@server.tool()  # type: ignore[untyped-decorator]
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()  # type: ignore[untyped-decorator]
async def refuse() -> str:
    """Fail."""
    raise ValueError("not today")


@server.tool()  # type: ignore[untyped-decorator]
async def sleep() -> str:
    """Take a minute, unless cancelled."""
    global cancelled
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        cancelled += 1
        raise
    return "slept"


@server.tool()  # type: ignore[untyped-decorator]
async def count_cancelled() -> int:
    """How many sleeps were cancelled."""
    return cancelled


@server.resource("note://static")  # type: ignore[untyped-decorator]
def static() -> str:
    return "a note"


@server.resource("note://by/{name}")  # type: ignore[untyped-decorator]
def by(name: str) -> str:
    return f"a note by {name}"


@server.prompt()  # type: ignore[untyped-decorator]
def greet(name: str) -> str:
    return f"Greet {name}."


server.run()
