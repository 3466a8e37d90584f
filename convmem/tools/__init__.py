"""Every tool of the server, in the order that hosts list them."""

from typing import Any

from convmem.memory import Memory
from convmem.protocol import Tool
from convmem.tools.maintenance import maintenance_tools
from convmem.tools.messages import message_tools


def all_tools(memory: Memory, client_id: str | None = None) -> list[Tool[Any]]:
    """The tools over a memory. ``client_id`` is who writes, where the host is not to be asked."""
    return [*message_tools(memory, client_id), *maintenance_tools(memory)]
