"""What a person may pick in a host: texts that begin a conversation, with arguments.

Declared like tools; every argument is a string, as the protocol has it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from .arguments import parse
from .errors import ErrorCode, InvalidArguments, RpcError
from .lifecycle import TITLE_SINCE
from .resources import Complete
from .schema import fields
from .tools import Call

A = TypeVar("A")


class ServedPrompt(Protocol):
    """What a server needs of a prompt. ``Prompt`` is one that is declared."""

    @property
    def name(self) -> str: ...

    @property
    def complete(self) -> Mapping[str, Complete]: ...

    def listed(self, version: str) -> Mapping[str, object]:
        """The entry of ``prompts/list`` for a protocol version."""

    async def answer(self, params: Mapping[str, object], call: Call) -> Mapping[str, object]:
        """The result of ``prompts/get``. RpcError if the arguments are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt(Generic[A]):
    """A prompt: ``arguments`` is a declaration of strings, ``render`` gives the user's text."""

    name: str
    title: str
    description: str
    arguments: type[A]
    render: Callable[[A, Call], Awaitable[str]]
    complete: Mapping[str, Complete] = field(default_factory=dict)

    async def answer(self, params: Mapping[str, object], call: Call) -> Mapping[str, object]:
        """The result of ``prompts/get``. RpcError for arguments that are not as declared."""
        try:
            arguments = parse(self.arguments, params.get("arguments"))
        except InvalidArguments as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from error
        text = await self.render(arguments, call)
        return {
            "description": self.description,
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }

    def listed(self, version: str) -> Mapping[str, object]:
        """The entry of ``prompts/list``."""
        title = {"title": self.title} if version >= TITLE_SINCE else {}
        arguments = [
            {"name": row.name, "description": row.description, "required": row.required}
            for row in fields(self.arguments)
        ]
        return {
            "name": self.name,
            **title,
            "description": self.description,
            "arguments": arguments,
        }
