"""The Model Context Protocol over stdio, by hand: a server and a raw client.

Standard library only. ``Server`` and ``Tool`` are for programs that offer tools, ``Client``
and ``BlockingClient`` for programs that call them, ``Field`` and what is about it for
declarations. Everything else is exported for tests and for whoever builds another transport.
"""

from typing import TYPE_CHECKING

from .arguments import parse
from .errors import (
    ClientError,
    ErrorCode,
    InvalidArguments,
    ProtocolError,
    RequestFailed,
    RequestTimedOut,
    RpcError,
    ServerGone,
    ToolError,
)
from .schema import Field, Row, fields, json_schema, result_schema
from .server import Server, serve_stdio
from .tools import Call, Tool
from .transport import Transport, memory_pair

if TYPE_CHECKING:
    from .client import BlockingClient, Client, OnProgress, ToolResult

__all__ = [
    "BlockingClient",
    "Call",
    "Client",
    "ClientError",
    "ErrorCode",
    "Field",
    "InvalidArguments",
    "OnProgress",
    "ProtocolError",
    "RequestFailed",
    "RequestTimedOut",
    "Row",
    "RpcError",
    "Server",
    "ServerGone",
    "Tool",
    "ToolError",
    "ToolResult",
    "Transport",
    "fields",
    "json_schema",
    "memory_pair",
    "parse",
    "result_schema",
    "serve_stdio",
]


def __getattr__(name: str) -> object:
    """The client's names, on first use: a server must not pay for its start."""
    if name not in ("BlockingClient", "Client", "OnProgress", "ToolResult"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import client

    return getattr(client, name)
