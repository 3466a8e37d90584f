"""Everything that the server offers a host: tools, resources and prompts, in their order."""

from collections.abc import Collection
from typing import Any

from convmem.memory import Memory
from convmem.protocol import Tool
from convmem.tools.facts import fact_tools
from convmem.tools.maintenance import maintenance_tools
from convmem.tools.messages import message_tools
from convmem.tools.resources import all_prompts, all_resources, changed_uris

__all__ = ["TOOL_GROUPS", "all_prompts", "all_resources", "all_tools", "changed_uris"]


TOOL_GROUPS = ("messages", "facts", "maintenance")


def all_tools(
    memory: Memory, client_id: str | None = None, groups: Collection[str] = TOOL_GROUPS
) -> list[Tool[Any]]:
    """The tools over a memory, of these groups.

    ``client_id`` is who writes, where the host is not to be asked.
    """
    made = {
        "messages": lambda: message_tools(memory, client_id),
        "facts": lambda: fact_tools(memory, client_id),
        "maintenance": lambda: maintenance_tools(memory),
    }
    return [tool for group in TOOL_GROUPS if group in groups for tool in made[group]()]
