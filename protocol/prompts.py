"""What a person may pick in a host: texts that begin a conversation, with arguments.

Declared like tools; every argument is a string, as the protocol has it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .arguments import parse
from .errors import ErrorCode, InvalidArguments, RpcError
from .lifecycle import TITLE_SINCE
from .resources import Complete
from .schema import fields
from .tools import Call

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt(Generic[A]):
    """A prompt: ``arguments`` is a declaration of strings, ``render`` gives the user's text."""

    name: str
    title: str
    description: str
    arguments: type[A]
    render: Callable[[A, Call], Awaitable[str]]
    complete: Mapping[str, Complete] = field(default_factory=dict)

    def listed(self, version: str) -> dict[str, object]:
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


async def get(prompt: Prompt[Any], arguments: object, call: Call) -> dict[str, object]:
    """The result of ``prompts/get``. RpcError for arguments that are not as declared."""
    try:
        checked = parse(prompt.arguments, arguments)
    except InvalidArguments as error:
        raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from error
    text = await prompt.render(checked, call)
    return {
        "description": prompt.description,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }
