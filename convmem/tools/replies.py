"""Between the tools and the memory: refusals become tool errors, id texts become ids.

The one place where a domain error turns into what a host sees.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from convmem import ids
from convmem.errors import Code, Refusal
from convmem.limits import CLIENT_ID_BYTES_MAX
from convmem.operations import JsonObject
from convmem.protocol import Call, ToolError

A = TypeVar("A")
Handler = Callable[[A, Call], Awaitable[JsonObject]]


def refusing(handler: Handler[A]) -> Handler[A]:
    """The handler, its refusals told as tool errors."""

    async def told(arguments: A, call: Call) -> JsonObject:
        try:
            return await handler(arguments, call)
        except Refusal as refusal:
            raise ToolError(refusal.code, refusal.message, **refusal.details) from refusal

    return told


def invalid(problems: list[str]) -> Refusal:
    """One refusal for all that is wrong with the arguments."""
    return Refusal(Code.INVALID_ARGUMENT, "; ".join(problems))


def parse_id(text: str, name: str) -> bytes:
    """The id of an argument. Raises Refusal, naming the argument."""
    try:
        return ids.from_text(text)
    except ValueError as error:
        raise invalid([f"{name}: {text!r} is not a message id (a ULID): {error}"]) from error


def client_id(configured: str | None, call: Call) -> str | None:
    """Who a write is attributed to: the configured name, else how the host calls itself."""
    if configured:
        return configured
    name = (call.client_name or "").encode(errors="replace")[:CLIENT_ID_BYTES_MAX]
    return name.decode(errors="ignore") or None
