"""Resources, prompts and completion: declared, listed, read; over the client and the server."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from convmem.protocol import (
    Call,
    Client,
    Era,
    Field,
    Prompt,
    RequestFailed,
    Resource,
    ResourceNotFound,
    Server,
    memory_pair,
)

from .requirements import proves

WAIT_S = 10.0
META = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    name: Annotated[str, Field("Whom to greet.", bytes_max=20)]
    how: Annotated[str | None, Field("How.")] = None


async def read_all(values: Mapping[str, str], call: Call) -> str:
    return "everything"


async def read_one(values: Mapping[str, str], call: Call) -> str:
    if values["shelf"] == "none":
        raise ResourceNotFound
    return f"{values['shelf']}:{values['book']}"


async def greet(arguments: Greeting, call: Call) -> str:
    return f"{arguments.how or 'Hello'}, {arguments.name}"


async def names(beginning: str) -> Sequence[str]:
    return [f"{beginning}{number}" for number in range(150)]


ALL = Resource(
    uri="lib://all",
    name="all",
    title="All",
    description="All there is.",
    mime_type="text/plain",
    read=read_all,
)
ONE = Resource(
    uri="lib://{shelf}/books/{book}",
    name="book",
    title="Book",
    description="One book.",
    mime_type="text/plain",
    read=read_one,
    complete={"shelf": names},
)
GREETING = Prompt(
    name="greeting",
    title="Greeting",
    description="Greets.",
    arguments=Greeting,
    render=greet,
    complete={"name": names},
)


def ask(method: str, params: Mapping[str, Any] | None = None, **offered: Any) -> dict[str, Any]:
    """The result of one request to a server that offers this. Raises RequestFailed."""
    given: dict[str, Any] = {"resources": [ALL, ONE], "prompts": [GREETING]} | offered

    async def conversation() -> dict[str, Any]:
        ours, theirs = memory_pair()
        server = Server("lib", "Lib", "1", [], **given)
        serving = asyncio.create_task(server.serve(theirs))
        client = await Client.connect(ours, era=Era.HANDSHAKE)
        try:
            if method == "capabilities":
                return dict(client.capabilities)
            return dict(await client.request(method, params))
        finally:
            serving.cancel()
            await theirs.close()
            await client.close()

    return asyncio.run(asyncio.wait_for(conversation(), WAIT_S))


def refused(method: str, params: Mapping[str, Any], **offered: Any) -> int:
    with pytest.raises(RequestFailed) as failed:
        ask(method, params, **offered)
    return failed.value.code


@proves("LIFE-08")
def test_only_what_is_offered_is_announced() -> None:
    tools = {"tools": {"listChanged": False}}
    resources = {"resources": {"subscribe": False, "listChanged": False}}
    prompts = {"prompts": {"listChanged": False}}
    completions: dict[str, Any] = {"completions": {}}
    assert ask("capabilities") == tools | resources | prompts | completions
    assert ask("capabilities", prompts=None) == tools | resources | completions
    assert ask("capabilities", prompts=None, resources=None) == tools


@proves("RES-01")
def test_fixed_resources_and_templates_are_listed_apart() -> None:
    shared = {"mimeType": "text/plain"}
    assert ask("resources/list") == {
        "resources": [
            {"uri": "lib://all", "name": "all", "title": "All", "description": "All there is."}
            | shared
        ]
    }
    assert ask("resources/templates/list") == {
        "resourceTemplates": [
            {
                "uriTemplate": "lib://{shelf}/books/{book}",
                "name": "book",
                "title": "Book",
                "description": "One book.",
            }
            | shared
        ]
    }


@proves("RES-01")
@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("lib://all", "everything"),
        ("lib://a/books/b", "a:b"),
        ("lib://a%2Fb/books/%E6%97%A5%20%F0%9F%8E%8C", "a/b:日 🎌"),
    ],
)
def test_what_is_there_is_read(uri: str, text: str) -> None:
    expected = [{"uri": uri, "mimeType": "text/plain", "text": text}]
    assert ask("resources/read", {"uri": uri}) == {"contents": expected}


@proves("RES-02")
@pytest.mark.parametrize(
    "uri",
    [
        "",
        "x",
        "lib://",
        "lib://all/",
        "lib://a/books/",
        "lib://a/b/books/c",
        "lib://%ff/books/a",
        "lib://none/books/a",
    ],
)
def test_what_is_not_there_is_told_as_the_era_has_it(uri: str) -> None:
    assert refused("resources/read", {"uri": uri}) == -32002
    assert refused("resources/read", {"uri": uri} | META) == -32602


@proves("ERA-05")
def test_a_modern_read_carries_what_every_modern_result_does() -> None:
    read = ask("resources/read", {"uri": "lib://all"} | META)
    assert read["resultType"] == "complete"
    assert (read["ttlMs"], read["cacheScope"]) == (0, "private")


@proves("PROMPT-01")
def test_a_prompt_is_listed_with_its_arguments_and_rendered() -> None:
    assert ask("prompts/list") == {
        "prompts": [
            {
                "name": "greeting",
                "title": "Greeting",
                "description": "Greets.",
                "arguments": [
                    {"name": "name", "description": "Whom to greet.", "required": True},
                    {"name": "how", "description": "How.", "required": False},
                ],
            }
        ]
    }
    got = ask("prompts/get", {"name": "greeting", "arguments": {"name": "Mika"}})
    assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello, Mika"}}]


@proves("COMPLETE-01")
def test_completion_gives_a_hundred_values_at_most() -> None:
    argument = {"name": "name", "value": "m"}
    for reference in (
        {"type": "ref/prompt", "name": "greeting"},
        {"type": "ref/resource", "uri": "lib://{shelf}/books/{book}"},
    ):
        named = argument | ({"name": "shelf"} if "uri" in reference else {})
        got = ask("completion/complete", {"ref": reference, "argument": named})["completion"]
        assert got["values"] == [f"m{number}" for number in range(100)]
        assert (got["total"], got["hasMore"]) == (150, True)
        other = {"ref": reference, "argument": {"name": "other", "value": ""}}
        assert ask("completion/complete", other)["completion"] == {
            "values": [],
            "total": 0,
            "hasMore": False,
        }


@proves("PROMPT-02")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {}),
        ("resources/read", {"uri": 5}),
        ("prompts/get", {"name": "nothing"}),
        ("prompts/get", {"name": "greeting"}),
        ("prompts/get", {"name": "greeting", "arguments": {"name": "x" * 21}}),
        ("completion/complete", {}),
        (
            "completion/complete",
            {"ref": {"type": "ref/tool"}, "argument": {"name": "", "value": ""}},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "no"}, "argument": {"name": "", "value": ""}},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "no"}, "argument": {"name": "", "value": ""}},
        ),
    ],
)
def test_bad_requests_are_told(method: str, params: dict[str, Any]) -> None:
    assert refused(method, params) == -32602


@proves("MSG-09")
@pytest.mark.parametrize(
    "method", ["resources/read", "prompts/get", "completion/complete", "resources/subscribe"]
)
def test_what_is_not_offered_is_no_method(method: str) -> None:
    assert refused(method, {"uri": "lib://all"}, resources=None, prompts=None) == -32601
