"""A small server with one tool for each way a call can go. ``python -m tests.protocol.example``
serves it on stdin and stdout; ``--notes FILE`` has it write down there when it opens and
closes, ``--opening fails`` and ``--closing hangs`` make that go wrong."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from convmem.protocol import Call, Field, OnCall, Server, Tool, ToolError, serve_stdio


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    text: Annotated[str, Field("What to say.", bytes_max=16 * 1024 * 1024)]
    times: Annotated[int, Field("How often.", minimum=1, maximum=100)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    how: Annotated[
        Literal["politely", "badly", "not a number", "no json", "cancelled"], Field("How.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    size: Annotated[int, Field("Bytes of the text in the answer.", minimum=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    seconds: Annotated[float, Field("How long.", minimum=0, maximum=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    said: Annotated[str, Field("What was said.")]
    client: Annotated[str | None, Field("Who asked.")] = None


async def say(arguments: Say, call: Call) -> Mapping[str, object]:
    said = {"said": arguments.text * arguments.times}
    return said | ({"client": call.client_name} if call.client_name else {})


async def fail(arguments: Fail, call: Call) -> Mapping[str, object]:
    match arguments.how:
        case "politely":
            raise ToolError("CONFLICT", "it is 3 by now: read it again", revision=3)
        case "badly":
            raise ValueError("the secret")
        case "not a number":
            return {"value": float("nan")}
        case "no json":
            return {"value": object()}
        case "cancelled":
            raise asyncio.CancelledError  # as one that waits for a future of somebody else


async def fill(arguments: Fill, call: Call) -> Mapping[str, object]:
    return {"text": "x" * arguments.size}


async def wait(arguments: Wait, call: Call) -> Mapping[str, object]:
    """Reports progress before, in the middle, twice the same, backwards, and at its end."""
    half_s = arguments.seconds / 2
    await call.progress(1, 10, "begun")
    await asyncio.sleep(half_s)
    await call.progress(5, 10, "half")
    await call.progress(5, 10, "half")
    await call.progress(4, 10, "back")
    await asyncio.sleep(half_s)
    await call.progress(9, 10, "nearly")
    await call.progress(10, 10, "done")
    return {}


async def chatter(arguments: Nothing, call: Call) -> Mapping[str, object]:
    """Prints, and starts a process that prints and reads."""
    print("noise")
    await asyncio.to_thread(subprocess.run, ["sh", "-c", "cat; echo noise"], check=True)
    return {}


async def none(arguments: Nothing, call: Call) -> Mapping[str, object]:
    return {}


def _tool(name: str, arguments: type[Any], handler: Any, result: type | None = None) -> Tool[Any]:
    return Tool(
        name=name,
        title=name.capitalize(),
        description=f"Does {name}.",
        arguments=arguments,
        handler=handler,
        read_only=True,
        destructive=False,
        idempotent=True,
        result=result,
    )


TOOLS = [
    _tool("say", Say, say, result=Said),
    _tool("fail", Fail, fail),
    _tool("fill", Fill, fill),
    _tool("wait", Wait, wait),
    _tool("none", Nothing, none),
    _tool("chatter", Nothing, chatter),
]


def example(on_call: OnCall | None = None) -> Server:
    return Server("example", "Example", "1.2.3", TOOLS, "Ask it.", on_call)


def main() -> int:
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    notes = Path(options.get("--notes", os.devnull))

    def note(text: str) -> None:
        with notes.open("a") as file:
            file.write(text + "\n")

    async def opening() -> None:
        note("opening")
        if "--opening" in options:
            raise OSError("the store is not there")

    async def closing() -> None:
        note("closing")
        if "--closing" in options:
            await asyncio.Event().wait()

    return serve_stdio(example(), opening=opening, closing=closing)


if __name__ == "__main__":
    sys.exit(main())
