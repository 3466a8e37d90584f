"""The interface that the tools speak: two verbs, whoever answers.

A memory may lie in this process (``convmem.engine``) or be reached another way; who asks does
not know. Answers are JSON objects: what a reply carries is decided once, below this line.
"""

from typing import Protocol

from convmem.operations import Command, JsonObject, Query


class Memory(Protocol):
    """Where messages are kept and found."""

    async def execute(self, command: Command) -> JsonObject:
        """Grant a command and answer when it is durable. Raises Refusal."""
        ...

    async def query(self, query: Query) -> JsonObject:
        """Answer a query. Writes nothing. Raises Refusal."""
        ...
