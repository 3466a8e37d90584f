"""The tools that look after the store itself."""

from dataclasses import dataclass
from typing import Any

from convmem.memory import Memory
from convmem.operations import JsonObject, ReadHealth
from convmem.protocol import Call, Tool
from convmem.tools.replies import refusing


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArguments:
    """A tool that takes none."""


def maintenance_tools(memory: Memory) -> list[Tool[Any]]:
    """The tools that report on the store."""

    async def health(arguments: NoArguments, call: Call) -> JsonObject:
        return await memory.query(ReadHealth())

    return [
        Tool(
            name="get_system_health",
            title="Health of the memory",
            description=(
                "Report what the memory holds, where it lies, how it was recovered at start, "
                "what it has written, and whether writes are possible. Use it when a tool "
                "answers STORE_FAILED, DISK_FULL or BUSY, or when asked about the memory itself."
            ),
            arguments=NoArguments,
            handler=refusing(health),
            read_only=True,
            destructive=False,
            idempotent=True,
        )
    ]
