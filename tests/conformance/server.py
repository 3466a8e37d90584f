"""The server that the official suite examines: its fixtures, served by our library.

``python -m tests.conformance.server`` serves it on stdin and stdout. The tools that the suite
asks for return blocks that ours never do and ask the client for things, so they are served
tools of their own; resources and the plain prompts are declared as everybody declares them.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from convmem.protocol import (
    Call,
    ErrorCode,
    Field,
    Prompt,
    Resource,
    RpcError,
    ServedPrompt,
    Server,
    ToolError,
    serve_stdio,
)

from . import inputs
from .content import (
    AUDIO,
    EVERY_DEFAULT,
    EVERY_ENUM,
    IMAGE,
    PNG,
    RICH_SCHEMA,
    Json,
    content,
    elicitation,
    resource,
    sampling,
    text,
)

Params = Mapping[str, object]
Answer = Callable[[Params, Call], Awaitable[Mapping[str, object]]]

# The suite's descriptions ask for about this long between two messages.
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class FixtureTool:
    """A tool by the result it gives."""

    name: str
    given: Answer
    schema: Mapping[str, object] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )

    async def answer(self, params: Params, call: Call) -> Mapping[str, object]:
        return await self.given(params, call)

    def listed(self, version: str) -> Mapping[str, object]:
        description = "A fixture of the conformance suite."
        return {"name": self.name, "description": description, "inputSchema": self.schema}


@dataclass(frozen=True, slots=True)
class FixturePrompt:
    """A prompt by the result it gives."""

    name: str
    given: Answer
    arguments: Sequence[str] = ()
    complete: Mapping[str, Callable[[str], Awaitable[Sequence[str]]]] = field(default_factory=dict)

    async def answer(self, params: Params, call: Call) -> Mapping[str, object]:
        return await self.given(params, call)

    def listed(self, version: str) -> Mapping[str, object]:
        arguments = [{"name": name, "required": True} for name in self.arguments]
        description = "A fixture of the conformance suite."
        return {"name": self.name, "description": description, "arguments": arguments}


def _always(result: Json) -> Answer:
    async def answer(params: Params, call: Call) -> Mapping[str, object]:
        return result

    return answer


def _asking(method: str, ask: Json | Callable[[Mapping[str, object]], Json]) -> Answer:
    """A tool that asks the client and shows what it says."""

    async def answer(params: Params, call: Call) -> Mapping[str, object]:
        if method.partition("/")[0] not in call.client_capabilities:
            raise ToolError("UNSUPPORTED", f"the client does not announce {method}")
        arguments = params.get("arguments")
        asked = ask(arguments if isinstance(arguments, dict) else {}) if callable(ask) else ask
        return content(text(f"Response: {json.dumps(await call.ask(method, asked))}"))

    return answer


async def _log(params: Params, call: Call) -> Mapping[str, object]:
    await call.log("info", "Tool execution started")
    for said in ("Tool processing data", "Tool execution completed"):
        await asyncio.sleep(PAUSE_S)
        await call.log("info", said)
    return content(text("Logged."))


async def _progress(params: Params, call: Call) -> Mapping[str, object]:
    # One more than the suite asks for: that all is done, our library lets the answer say.
    for done in (0, 30, 60, 100):
        await call.progress(done, 100)
        await asyncio.sleep(PAUSE_S)
    return content(text("Done."))


async def _fail(params: Params, call: Call) -> Mapping[str, object]:
    raise ToolError("INTENDED", "This tool intentionally returns an error for testing")


async def _needs_sampling(params: Params, call: Call) -> Mapping[str, object]:
    if "sampling" not in call.client_capabilities:
        needed: Json = {"requiredCapabilities": {"sampling": {}}}
        raise RpcError(ErrorCode.MISSING_CAPABILITY, "The tool needs sampling", needed)
    return content(text("The client can sample."))


def _string(name: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


TOOLS = [
    FixtureTool(
        "test_simple_text",
        _always(content(text("This is a simple text response for testing."))),
    ),
    FixtureTool("test_image_content", _always(content(IMAGE))),
    FixtureTool("test_audio_content", _always(content(AUDIO))),
    FixtureTool(
        "test_embedded_resource",
        _always(
            content(
                resource(
                    "test://embedded-resource",
                    "text/plain",
                    "This is an embedded resource content.",
                )
            )
        ),
    ),
    FixtureTool(
        "test_multiple_content_types",
        _always(
            content(
                text("Multiple content types test:"),
                IMAGE,
                resource(
                    "test://mixed-content-resource",
                    "application/json",
                    '{"test":"data","value":123}',
                ),
            )
        ),
    ),
    FixtureTool("test_tool_with_logging", _log),
    FixtureTool("test_logging_tool", _log),
    FixtureTool("test_tool_with_progress", _progress),
    FixtureTool("test_error_handling", _fail),
    FixtureTool("test_missing_capability", _needs_sampling),
    FixtureTool(
        "test_sampling",
        _asking("sampling/createMessage", lambda given: sampling(str(given.get("prompt")))),
        _string("prompt"),
    ),
    FixtureTool(
        "test_elicitation",
        _asking(
            "elicitation/create",
            lambda given: elicitation(
                str(given.get("message")),
                username={"type": "string", "description": "User's response"},
                email={"type": "string", "description": "User's email address"},
            ),
        ),
        _string("message"),
    ),
    FixtureTool("test_elicitation_sep1034_defaults", _asking("elicitation/create", EVERY_DEFAULT)),
    FixtureTool("test_elicitation_sep1330_enums", _asking("elicitation/create", EVERY_ENUM)),
    FixtureTool("json_schema_2020_12_tool", _always(content(text("ok"))), RICH_SCHEMA),
    *(FixtureTool(name, answer) for name, answer in inputs.TOOLS.items()),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArguments:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoArguments:
    arg1: Annotated[str, Field("First test argument.")]
    arg2: Annotated[str, Field("Second test argument.")]


async def _simple(arguments: NoArguments, call: Call) -> str:
    return "This is a simple prompt for testing."


async def _with_arguments(arguments: TwoArguments, call: Call) -> str:
    return f"Prompt with arguments: arg1='{arguments.arg1}', arg2='{arguments.arg2}'"


async def _places(begun: str) -> Sequence[str]:
    return [place for place in ("paris", "park", "party", "rome") if place.startswith(begun)]


async def _embedding(params: Params, call: Call) -> Mapping[str, object]:
    arguments = params.get("arguments")
    uri = str(arguments.get("resourceUri")) if isinstance(arguments, dict) else ""
    embedded = resource(uri, "text/plain", "Embedded resource content for testing.")
    request = text("Please process the embedded resource above.")
    return {"messages": [{"role": "user", "content": block} for block in (embedded, request)]}


PROMPTS: list[ServedPrompt] = [
    Prompt(
        name="test_simple_prompt",
        title="Simple",
        description="A prompt without arguments.",
        arguments=NoArguments,
        render=_simple,
    ),
    Prompt(
        name="test_prompt_with_arguments",
        title="With arguments",
        description="A prompt with two arguments.",
        arguments=TwoArguments,
        render=_with_arguments,
        complete={"arg1": _places},
    ),
    FixturePrompt("test_prompt_with_embedded_resource", _embedding, ["resourceUri"]),
    FixturePrompt(
        "test_prompt_with_image",
        _always(
            {
                "messages": [
                    {"role": "user", "content": IMAGE},
                    {"role": "user", "content": text("Please analyze the image above.")},
                ]
            }
        ),
    ),
    FixturePrompt("test_input_required_result_prompt", inputs.prompt),
]


def _resource(
    uri: str, mime_type: str, read: Callable[[Mapping[str, str]], str | bytes]
) -> Resource:
    async def read_later(values: Mapping[str, str], call: Call) -> str | bytes:
        return read(values)

    return Resource(
        uri=uri,
        name=uri.removeprefix("test://"),
        title=uri,
        description="A fixture of the conformance suite.",
        mime_type=mime_type,
        read=read_later,
    )


def _templated(values: Mapping[str, str]) -> str:
    id_ = values["id"]
    return json.dumps({"id": id_, "templateTest": True, "data": f"Data for ID: {id_}"})


RESOURCES = [
    _resource(
        "test://static-text",
        "text/plain",
        lambda _: "This is the content of the static text resource.",
    ),
    _resource("test://static-binary", "image/png", lambda _: PNG),
    _resource("test://watched-resource", "text/plain", lambda _: "Watched."),
    _resource("test://template/{id}/data", "application/json", _templated),
]


def main() -> int:
    server = Server(
        "conformance",
        "Conformance fixtures",
        "1.0.0",
        TOOLS,
        resources=RESOURCES,
        prompts=PROMPTS,
        on_subscribe=lambda: None,  # nothing ever changes
        logging=True,
        progress_delay_s=0.0,
    )
    return serve_stdio(server)


if __name__ == "__main__":
    sys.exit(main())
