"""A tool that is not declared: it lists and answers what a test gives it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from convmem.protocol import Call

Answer = Callable[[Mapping[str, object], Call], Awaitable[Mapping[str, object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTool:
    """``reply`` gets the request's params and gives its result. A ``ServedTool``."""

    name: str
    reply: Answer
    description: str = "A tool for tests."
    schema: Mapping[str, object] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )

    def listed(self, version: str) -> Mapping[str, object]:
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.schema,
        }

    async def answer(self, params: Mapping[str, object], call: Call) -> Mapping[str, object]:
        return await self.reply(params, call)


def text(said: str) -> dict[str, object]:
    """A result that says this."""
    return {"content": [{"type": "text", "text": said}], "isError": False}
