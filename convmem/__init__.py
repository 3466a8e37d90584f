"""Durable, searchable conversation memory for MCP hosts."""

from pathlib import Path
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# The folders storage/ and protocol/ are the packages convmem.storage and convmem.protocol.
# pyproject.toml installs them so; in a checkout they lie one folder up.
if not (Path(__file__).parent / "storage").is_dir():
    __path__.append(str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from convmem.api import Memory
    from convmem.api import open_memory as open
    from convmem.errors import Refusal

__all__ = ["Memory", "Refusal", "__version__", "open"]


def __getattr__(name: str) -> object:
    """The names for Python programs, on first use: a server must not pay for its start."""
    match name:
        case "open":
            from convmem.api import open_memory

            return open_memory
        case "Memory":
            from convmem.api import Memory

            return Memory
        case "Refusal":
            from convmem.errors import Refusal

            return Refusal
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
