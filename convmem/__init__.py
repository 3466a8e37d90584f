"""Durable, searchable conversation memory for MCP hosts."""

from pathlib import Path

__version__ = "0.1.0"

# The folders storage/ and protocol/ are the packages convmem.storage and convmem.protocol.
# pyproject.toml installs them so; in a checkout they lie one folder up.
if not (Path(__file__).parent / "storage").is_dir():
    __path__.append(str(Path(__file__).parents[1]))
