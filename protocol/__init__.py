"""The Model Context Protocol over stdio, by hand: a server and a raw client.

Standard library only. ``Server`` and ``Tool`` are for programs that offer tools, ``Client``
and ``BlockingClient`` for programs that call them, ``Field`` and what is about it for
declarations. Everything else is exported for tests and for whoever builds another transport.
"""

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

__all__ = [
    "Call",
    "ClientError",
    "ErrorCode",
    "Field",
    "InvalidArguments",
    "ProtocolError",
    "RequestFailed",
    "RequestTimedOut",
    "Row",
    "RpcError",
    "Server",
    "ServerGone",
    "Tool",
    "ToolError",
    "Transport",
    "fields",
    "json_schema",
    "memory_pair",
    "parse",
    "result_schema",
    "serve_stdio",
]
