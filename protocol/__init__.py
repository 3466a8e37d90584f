"""The Model Context Protocol over stdio, by hand: a server and a raw client.

Standard library only. ``Server`` and ``Tool`` are for programs that offer tools, ``Client``
and ``BlockingClient`` for programs that call them, ``Field`` and what is about it for
declarations. Everything else is exported for tests and for whoever builds another transport.
"""

from typing import TYPE_CHECKING

from .arguments import parse
from .connection import Cancelled, Connection, Event, EventBatch
from .errors import (
    ClientError,
    ErrorCode,
    InvalidArguments,
    LineTooLong,
    ProtocolError,
    RequestFailed,
    RequestTimedOut,
    RpcError,
    ServerGone,
    ToolError,
)
from .framing import LineReader
from .lifecycle import HANDSHAKE_VERSIONS, MODERN_VERSIONS, Era
from .limits import (
    AT_ONCE_BYTES_MAX,
    BACKLOG_BYTES_MAX,
    CLOSE_TIMEOUT_S,
    LINE_BYTES_MAX,
    NESTING_MAX,
    PARSE_ERRORS_ANSWERED_MAX,
    READ_BYTES,
    REPLY_BYTES_MAX,
    REQUESTS_IN_FLIGHT_MAX,
    SUBSCRIPTIONS_MAX,
    URI_CHARS_MAX,
)
from .message import (
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    encode,
)
from .pipes import PipeTransport
from .portability import schema_problems
from .prompts import Prompt, ServedPrompt
from .resources import Resource, ResourceNotFound
from .schema import Field, Row, fields, json_schema, result_schema
from .server import Server, serve_stdio
from .session import OnCall
from .tools import Call, ServedTool, Tool
from .transport import Transport, memory_pair

if TYPE_CHECKING:
    from .answers import Answers
    from .blocking import BlockingClient
    from .client import Client, ToolResult
    from .exchange import Exchange, OnProgress

__all__ = [
    "AT_ONCE_BYTES_MAX",
    "BACKLOG_BYTES_MAX",
    "CLOSE_TIMEOUT_S",
    "HANDSHAKE_VERSIONS",
    "LINE_BYTES_MAX",
    "MODERN_VERSIONS",
    "NESTING_MAX",
    "PARSE_ERRORS_ANSWERED_MAX",
    "READ_BYTES",
    "REPLY_BYTES_MAX",
    "REQUESTS_IN_FLIGHT_MAX",
    "SUBSCRIPTIONS_MAX",
    "URI_CHARS_MAX",
    "Answers",
    "BlockingClient",
    "Call",
    "Cancelled",
    "Client",
    "ClientError",
    "Connection",
    "Era",
    "ErrorCode",
    "ErrorResponse",
    "Event",
    "EventBatch",
    "Exchange",
    "Field",
    "InvalidArguments",
    "LineReader",
    "LineTooLong",
    "Malformed",
    "Message",
    "Notification",
    "OnCall",
    "OnProgress",
    "PipeTransport",
    "Prompt",
    "ProtocolError",
    "Request",
    "RequestFailed",
    "RequestTimedOut",
    "Resource",
    "ResourceNotFound",
    "Response",
    "Row",
    "RpcError",
    "ServedPrompt",
    "ServedTool",
    "Server",
    "ServerGone",
    "Tool",
    "ToolError",
    "ToolResult",
    "Transport",
    "decode",
    "encode",
    "fields",
    "json_schema",
    "memory_pair",
    "parse",
    "result_schema",
    "schema_problems",
    "serve_stdio",
]


def __getattr__(name: str) -> object:
    """The client's names, on first use: a server must not pay for its start."""
    match name:
        case "BlockingClient":
            from . import blocking

            return blocking.BlockingClient
        case "Client" | "ToolResult":
            from . import client

            return getattr(client, name)
        case "Exchange" | "OnProgress":
            from . import exchange

            return getattr(exchange, name)
        case "Answers":
            from . import answers

            return answers.Answers
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
