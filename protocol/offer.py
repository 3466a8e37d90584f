"""What a server offers: its name, its tools, its resources and its prompts.

Answers every method but ``tools/call`` and those that change what one peer hears. Lists are
always whole: hosts are known that never ask for a second page. What is offered is gone
through when it is first asked for, so that a generator may import it then and the handshake
need not wait.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from . import resources
from .errors import ErrorCode, RpcError
from .lifecycle import MODERN_VERSIONS, TITLE_SINCE
from .message import Request, excerpt
from .prompts import ServedPrompt
from .resources import Complete, Resource
from .tools import Call, ServedTool

T = TypeVar("T")


class Offer:
    """``resources`` and ``prompts`` are None where there are none, and then not announced.

    ``on_subscribe`` is given where the server tells of changed resources, and told when a peer
    wants to hear of some; ``logging`` says whether it sends log messages.
    """

    def __init__(
        self,
        name: str,
        title: str,
        version: str,
        instructions: str | None,
        tools: Iterable[ServedTool],
        resources: Iterable[Resource] | None,
        prompts: Iterable[ServedPrompt] | None,
        *,
        on_subscribe: Callable[[], None] | None,
        logging: bool,
    ) -> None:
        self._name = name
        self._title = title
        self._version = version
        self._instructions = instructions
        self._given_tools = tools
        self._given_resources = resources
        self._given_prompts = prompts
        self.on_subscribe = on_subscribe
        self.logging = logging

    def identity(self, version: str) -> Mapping[str, object]:
        """What the server is called, in a protocol version."""
        title = {"title": self._title} if version >= TITLE_SINCE else {}
        return {"name": self._name, **title, "version": self._version}

    def tool(self, request: Request) -> ServedTool:
        """The tool that a ``tools/call`` names. RpcError if there is none."""
        return _named(self._tools, request.params.get("name"), "tool")

    async def answer(self, request: Request, call: Call) -> Mapping[str, object]:
        """The result of any method but ``tools/call``. RpcError if the request is wrong."""
        version = call.protocol_version
        match request.method:
            case "initialize":
                agreed = {"protocolVersion": version, "serverInfo": self.identity(version)}
                return agreed | self._announced()
            case "server/discover":
                return {"supportedVersions": list(MODERN_VERSIONS), **self._announced()}
            case "ping":
                return {}
            case "tools/list":
                return _only_page(
                    request, "tools", [t.listed(version) for t in self._tools.values()]
                )
            case "resources/list":
                fixed = [r.listed(version) for r in self._resources if not r.is_template]
                return _only_page(request, "resources", fixed)
            case "resources/templates/list":
                templates = [r.listed(version) for r in self._resources if r.is_template]
                return _only_page(request, "resourceTemplates", templates)
            case "resources/read" if self._given_resources is not None:
                return await resources.read(self._resources, request.params.get("uri"), call)
            case "prompts/list":
                listed = [prompt.listed(version) for prompt in self._prompts.values()]
                return _only_page(request, "prompts", listed)
            case "prompts/get" if self._given_prompts is not None:
                prompt = _named(self._prompts, request.params.get("name"), "prompt")
                return await prompt.answer(request.params, call)
            case "completion/complete" if self._completes:
                return await self._complete(request)
            case _:
                raise RpcError(ErrorCode.METHOD_NOT_FOUND, "Method not found")

    @cached_property
    def _tools(self) -> Mapping[str, ServedTool]:
        tools = list(self._given_tools)
        named = {tool.name: tool for tool in tools}
        if len(named) < len(tools):
            raise ValueError("two tools have the same name")
        return named

    @cached_property
    def _resources(self) -> Sequence[Resource]:
        return list(self._given_resources or ())

    @cached_property
    def _prompts(self) -> Mapping[str, ServedPrompt]:
        return {prompt.name: prompt for prompt in self._given_prompts or ()}

    @property
    def _completes(self) -> bool:
        return self._given_resources is not None or self._given_prompts is not None

    def _announced(self) -> dict[str, object]:
        capabilities: dict[str, object] = {"tools": {"listChanged": False}}
        if self._given_resources is not None:
            capabilities["resources"] = {
                "subscribe": self.on_subscribe is not None,
                "listChanged": False,
            }
        if self._given_prompts is not None:
            capabilities["prompts"] = {"listChanged": False}
        if self._completes:
            capabilities["completions"] = {}
        if self.logging:
            capabilities["logging"] = {}
        announced: dict[str, object] = {"capabilities": capabilities}
        if self._instructions:
            announced["instructions"] = self._instructions
        return announced

    async def _complete(self, request: Request) -> Mapping[str, object]:
        """The values that the beginning of an argument could become; none where none are known."""
        argument = request.params.get("argument")
        if not isinstance(argument, Mapping) or not isinstance(argument.get("value"), str):
            raise RpcError(ErrorCode.INVALID_PARAMS, "argument must have a name and a value")
        complete = self._completers(request.params.get("ref")).get(str(argument.get("name")))
        values = await complete(argument["value"]) if complete is not None else ()
        return resources.completion(values)

    def _completers(self, reference: object) -> Mapping[str, Complete]:
        match reference:
            case {"type": "ref/prompt", "name": name}:
                return _named(self._prompts, name, "prompt").complete
            case {"type": "ref/resource", "uri": uri}:
                for resource in self._resources:
                    if resource.uri == uri:
                        return resource.complete
                raise RpcError(ErrorCode.INVALID_PARAMS, "Unknown resource template")
            case _:
                raise RpcError(ErrorCode.INVALID_PARAMS, "ref must name a prompt or a resource")


def _named(offered: Mapping[str, T], name: object, kind: str) -> T:
    if not isinstance(name, str):
        raise RpcError(ErrorCode.INVALID_PARAMS, "name must be a string")
    if name not in offered:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"Unknown {kind}: {excerpt(name)}")
    return offered[name]


def _only_page(request: Request, name: str, entries: Sequence[object]) -> Mapping[str, object]:
    if request.params.get("cursor") is not None:
        raise RpcError(ErrorCode.INVALID_PARAMS, "Invalid cursor")
    return {name: entries}
