"""What a tool is, how a list shows it, and how its outcome looks on the wire.

A tool is a declaration with a handler. Its outcome has two forms, both complete, because
some hosts show a model only the text and some only the structure:

    success   text: the object as compact JSON           structuredContent: the object
    failure   text: "CODE: message" and, on the next line, {"error": {...}}    isError

Not here: which tool is called, in what task, and what becomes of an unexpected exception.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from .arguments import parse
from .errors import ToolError
from .lifecycle import (
    ANNOTATIONS_SINCE,
    STRUCTURED_CONTENT_SINCE,
    TITLE_SINCE,
)
from .message import compact
from .portability import schema_problems, tool_problems
from .schema import json_schema, result_schema

A = TypeVar("A")


class Call(Protocol):
    """What a handler may know about a call, and say while it works."""

    @property
    def client_name(self) -> str | None: ...

    @property
    def client_capabilities(self) -> Mapping[str, object]: ...

    @property
    def protocol_version(self) -> str: ...

    async def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the host how far the work is, if it wants to know; costs nothing otherwise."""

    async def log(self, level: str, data: object, logger: str | None = None) -> None:
        """Tell the host something of a level (``LOG_LEVELS``), if it wants to know."""

    async def ask(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """The client's answer to a request of ours, which must be in its capabilities.

        RequestFailed if it refuses, or if the revision has no such requests: since 2026-07-28
        a result says instead what input is required. Waits as long as the call may.
        """


class ServedTool(Protocol):
    """What a server needs of a tool. ``Tool`` is one that is declared and safe for all hosts."""

    @property
    def name(self) -> str: ...

    def listed(self, version: str) -> Mapping[str, object]:
        """The entry of ``tools/list`` for a protocol version."""

    async def answer(self, params: Mapping[str, object], call: Call) -> Mapping[str, object]:
        """The result of a ``tools/call``. ToolError, InvalidArguments, RpcError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A]):
    """A tool: ``arguments`` and ``result`` are declarations (``schema``).

    The handler returns the JSON object of the result, or raises ToolError. The three flags
    are hints for the host's user interface; none of our tools reaches an open world.
    ValueError, with all problems, if a host would refuse the tool.
    """

    name: str
    title: str
    description: str
    arguments: type[A]
    handler: Callable[[A, Call], Awaitable[Mapping[str, object]]]
    read_only: bool
    destructive: bool
    idempotent: bool
    result: type | None = None

    def __post_init__(self) -> None:
        problems = list(tool_problems(self.name, self.title, self.description))
        problems += schema_problems(json_schema(self.arguments))
        if self.result is not None:
            problems += schema_problems(result_schema(self.result))
        if problems:
            raise ValueError(f"tool {self.name!r}: " + "; ".join(problems))

    async def answer(self, params: Mapping[str, object], call: Call) -> Mapping[str, object]:
        """The result of a call. ToolError, InvalidArguments, or what else the handler raises."""
        arguments = parse(self.arguments, params.get("arguments"))
        return success(await self.handler(arguments, call), call.protocol_version)

    def listed(self, version: str) -> Mapping[str, object]:
        """The entry of ``tools/list`` for a protocol version."""
        entry: dict[str, object] = {"name": self.name}
        if version >= TITLE_SINCE:
            entry["title"] = self.title
        entry |= {"description": self.description, "inputSchema": json_schema(self.arguments)}
        if self.result is not None and version >= STRUCTURED_CONTENT_SINCE:
            entry["outputSchema"] = result_schema(self.result)
        if version >= ANNOTATIONS_SINCE:
            entry["annotations"] = {
                "title": self.title,
                "readOnlyHint": self.read_only,
                "destructiveHint": self.destructive,
                "idempotentHint": self.idempotent,
                "openWorldHint": False,
            }
        return entry


def success(result: Mapping[str, object], version: str) -> dict[str, object]:
    """The result of a call that went well. ValueError or TypeError if it is not JSON."""
    outcome: dict[str, object] = {"content": [_text(compact(result))], "isError": False}
    if version >= STRUCTURED_CONTENT_SINCE:
        outcome["structuredContent"] = result
    return outcome


def failure(error: ToolError) -> dict[str, object]:
    """The result of a call that failed."""
    told = {"error": {"code": error.code, "message": error.message, **error.details}}
    return {"content": [_text(f"{error}\n{compact(told)}")], "isError": True}


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}
