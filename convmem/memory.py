"""The interface that the tools speak: two verbs, whoever answers.

A memory may lie in this process (``convmem.engine``) or be reached another way; who asks does
not know. Answers are JSON objects: what a reply carries is decided once, below this line.
"""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from convmem.operations import Command, JsonObject, Query

OnProgress = Callable[[int, int], Coroutine[Any, Any, None]]


class MessageChange(NamedTuple):
    """A message that was written, changed or deleted."""

    session_id: str
    message_id: bytes


class FactChange(NamedTuple):
    """A key that was given a value, or has none any more."""

    key: str


Change = MessageChange | FactChange
OnChange = Callable[[Change], None]


class Memory(Protocol):
    """Where messages are kept and found."""

    async def execute(self, command: Command, on_progress: OnProgress | None = None) -> JsonObject:
        """Grant a command and answer when it is durable. Raises Refusal.

        A long command tells ``on_progress`` how much is done, and of how much.
        """
        ...

    async def query(self, query: Query) -> JsonObject:
        """Answer a query. Writes nothing. Raises Refusal."""
        ...
