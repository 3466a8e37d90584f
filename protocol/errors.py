"""Error codes of the wire, and every exception of this package.

Sorted by who must act: the peer (``RpcError``), the model (``ToolError``,
``InvalidArguments``), the user of a client (``ClientError`` and its kinds), whoever wrote
an answer too large for a line (``LineTooLong``). Where they become messages is decided in
``server``; nothing here knows JSON.
"""

from collections.abc import Sequence
from enum import IntEnum


class ErrorCode(IntEnum):
    """JSON-RPC 2.0, section 5.1; the last three are of MCP."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    RESOURCE_NOT_FOUND = -32002  # of the revisions with a handshake; later it is INVALID_PARAMS
    MISSING_CAPABILITY = -32021  # this and the next since revision 2026-07-28
    UNSUPPORTED_VERSION = -32022


class ProtocolError(Exception):
    """The root of what this package raises."""


class RpcError(ProtocolError):
    """A request that gets a JSON-RPC error for an answer."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ToolError(ProtocolError):
    """A call that fails in a way the model can read and act upon.

    ``code`` is a word in capitals, ``message`` says what, where and what to do, ``details``
    are further fields for programs.
    """

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details = details


class InvalidArguments(ProtocolError):
    """Arguments that do not fit their declaration: every problem, not only the first."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class LineTooLong(ProtocolError):
    """A message to be sent that is longer than ``REPLY_BYTES_MAX``."""

    def __init__(self, bytes_count: int) -> None:
        super().__init__(f"a line of {bytes_count} bytes")
        self.bytes_count = bytes_count


class ClientError(ProtocolError):
    """The root of what a client raises."""


class RequestFailed(ClientError):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class RequestTimedOut(ClientError):
    """The server did not answer in time; it was told that the request is cancelled."""

    def __init__(self, method: str, timeout_s: float) -> None:
        super().__init__(f"no answer to {method} within {timeout_s:g} s")
        self.method = method
        self.timeout_s = timeout_s


class ServerGone(ClientError):
    """The server is not there: it could not be started, closed its output, or ended.

    ``returncode`` is negative for a signal, and None if the process is not known to have
    ended. ``stderr_tail`` holds its last words.
    """

    def __init__(self, returncode: int | None, stderr_tail: str) -> None:
        last = stderr_tail.strip().rpartition("\n")[2]
        super().__init__(f"the server is gone (exit status {returncode})" + (last and f": {last}"))
        self.returncode = returncode
        self.stderr_tail = stderr_tail
