"""Everything that the server offers a host: tools, resources and prompts, in their order."""

from typing import Any

from convmem.memory import Memory
from convmem.protocol import Tool
from convmem.tools.facts import fact_tools
from convmem.tools.maintenance import maintenance_tools
from convmem.tools.messages import message_tools
from convmem.tools.resources import all_prompts, all_resources, changed_uris

__all__ = ["all_prompts", "all_resources", "all_tools", "changed_uris"]


def all_tools(memory: Memory, client_id: str | None = None) -> list[Tool[Any]]:
    """The tools over a memory. ``client_id`` is who writes, where the host is not to be asked."""
    return [
        *message_tools(memory, client_id),
        *fact_tools(memory, client_id),
        *maintenance_tools(memory),
    ]
