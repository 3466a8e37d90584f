"""The tools that look after the store itself."""

from dataclasses import dataclass
from typing import Any

from convmem.memory import Memory
from convmem.operations import JsonObject, ReadHealth, RebuildIndex
from convmem.protocol import Call, Tool
from convmem.tools.arguments import RebuildIndexResult
from convmem.tools.replies import refusing


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArguments:
    """A tool that takes none."""


def maintenance_tools(memory: Memory) -> list[Tool[Any]]:
    """The tools that tidy the store up and report on it."""

    async def health(arguments: NoArguments, call: Call) -> JsonObject:
        return await memory.query(ReadHealth())

    async def rebuild(arguments: NoArguments, call: Call) -> JsonObject:
        return await memory.execute(RebuildIndex(), call.progress)

    return [
        Tool(
            name="rebuild_index",
            title="Tidy up the memory",
            description=(
                "Write the store anew with only what counts: deleted messages and replaced "
                "texts leave the disk, links to what is gone are removed, indexes are built "
                "again. Writes wait meanwhile. Does nothing when there is nothing to tidy up. "
                "Use it after deleting what must not stay, or when asked to."
            ),
            arguments=NoArguments,
            result=RebuildIndexResult,
            handler=refusing(rebuild),
            read_only=False,
            destructive=False,
            idempotent=True,
        ),
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
        ),
    ]
