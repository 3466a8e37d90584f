r"""JSON-RPC 2.0 messages and their one-line form.

    line    := message | batch                   JSON, without line breaks
    batch   := "[" message ("," message)* "]"    MCP 2025-03-26 only
    message := request | notification | response | error response

In, this is lenient: a byte order mark, blank lines, ``params: null``, ids like ``1.0``,
unknown keys, control characters in strings and ``NaN`` are accepted; bytes that are not
UTF-8 become lone surrogates, which whoever uses a string must refuse or replace. Whatever
cannot be read is a value, ``Malformed``, never an exception: the reader goes on.

Out, this is strict, the intersection of what known clients read: ASCII, finite numbers, no
lone surrogate, no ``null`` for what is absent. Not here: which ids are in flight, which
methods exist, and whether a batch is welcome.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

from .errors import ErrorCode
from .limits import ID_CHARS_MAX, NESTING_MAX, QUOTE_CHARS_MAX

Id: TypeAlias = int | str
"""Of a request. 5 and "5" are two ids; as keys of a dict they are so in Python too."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call that wants an answer of the same ``id``."""

    id: Id
    method: str
    params: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Notification:
    """A call that wants no answer."""

    method: str
    params: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request that went well."""

    id: Id
    result: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """``id`` is None where the request's could not be read."""

    id: Id | None
    code: int
    message: str
    data: object = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """What is not a message: the error that a server answers, and to which id."""

    id: Id | None
    code: ErrorCode
    reason: str


Message: TypeAlias = Request | Notification | Response | ErrorResponse


_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# A NUL before or after a line is half of a UTF-16 line break: without it the next line is whole.
_BLANK: Final = b" \t\r\0"
# Patterns are compiled when first used, which a server's start need not wait for.
_STRING: Final = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_NOT_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_SURROGATE: Final = "[\ud800-\udfff]"
# In JSON text: a high surrogate without a low one, the reverse, or an escaped backslash where
# it could be taken for the start of either. What it finds, the second pattern tells apart.
_MAYBE_LONE: Final = (
    r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])"
    r"|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]"
    r"|\\\\ud[89ab]"
)
_ESCAPE: Final = r"\\(?:\\|ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2}))"


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts: infinite, as 1e999 is
        return float(digits)


_DECODER: Final = json.JSONDecoder(strict=False, parse_int=_integer)
_ASCII: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode(line: bytes) -> Message | Malformed | list[Message | Malformed] | None:
    """What one line says: a list for a batch, None for a blank line."""
    line = line.strip(_BLANK).removeprefix(_BYTE_ORDER_MARK).strip(_BLANK)
    if not line:
        return None
    if nesting(line) > NESTING_MAX:
        reason = f"nested deeper than {NESTING_MAX} levels"
        return Malformed(None, ErrorCode.INVALID_REQUEST, reason)
    try:
        value: object = _DECODER.decode(line.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        return Malformed(None, ErrorCode.PARSE_ERROR, f"not JSON: {error}")
    if isinstance(value, list):
        return [parse(item) for item in value]
    return parse(value)


def parse(value: object) -> Message | Malformed:
    """The message that a JSON value is."""
    if not isinstance(value, dict):
        return Malformed(None, ErrorCode.INVALID_REQUEST, "a message must be an object")
    id_ = _id(value.get("id"))
    if value.get("jsonrpc") != "2.0":
        return Malformed(id_, ErrorCode.INVALID_REQUEST, 'jsonrpc must be "2.0"')
    if "method" not in value:
        return _answer(id_, value)
    method = value["method"]
    if not isinstance(method, str):
        return Malformed(id_, ErrorCode.INVALID_REQUEST, "method must be a string")
    params = value.get("params")
    if "id" not in value:
        return Notification(method, params if isinstance(params, dict) else {})
    if id_ is None:
        return Malformed(None, ErrorCode.INVALID_REQUEST, "id must be a string or an integer")
    if params is not None and not isinstance(params, dict):
        return Malformed(id_, ErrorCode.INVALID_PARAMS, "params must be an object")
    return Request(id_, method, params or {})


def encode(message: Message) -> bytes:
    """The line of a message, with its end. ValueError or TypeError if it holds what is not JSON."""
    return _line(_wire(message))


def compact(value: object) -> str:
    """JSON text for people and models: one line, but not restricted to ASCII."""
    return _COMPACT.encode(value)


def well_formed(text: str) -> str:
    """Text that may be stored or shown: what is not Unicode becomes U+FFFD."""
    return re.sub(_SURROGATE, "\ufffd", text)


def excerpt(text: str) -> str:
    """The start of a peer's own words, fit for an error message."""
    short = text if len(text) <= QUOTE_CHARS_MAX else text[:QUOTE_CHARS_MAX] + "…"
    return well_formed(short)


def is_id(value: object) -> bool:
    """Whether a JSON value can be an id or a progress token: a string or an integer."""
    return _id(value) is not None and not isinstance(value, float)


def nesting(line: bytes) -> int:
    """How deep the arrays and objects of JSON text go, before anything parses it.

    May be too high, never too low, while it stays within the limit.
    """
    # No text is deeper than it has opening brackets; few have more than the limit.
    bound = line.count(b"[") + line.count(b"{")
    if bound <= NESTING_MAX:
        return bound
    steps = re.sub(_STRING, b"", line).translate(_STEP, _NOT_BRACKET)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _id(value: object) -> Id | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    if isinstance(value, str) and len(value) > ID_CHARS_MAX:
        return None
    return value


def _answer(id_: Id | None, value: dict[str, object]) -> Message | Malformed:
    error = value.get("error")
    if isinstance(error, dict):
        code, text = error.get("code"), error.get("message")
        return ErrorResponse(
            id_,
            code if isinstance(code, int) else ErrorCode.INTERNAL_ERROR,
            text if isinstance(text, str) else "an error without a message",
            error.get("data"),
        )
    if "result" not in value:
        return Malformed(id_, ErrorCode.INVALID_REQUEST, "neither method, result nor error")
    result = value["result"]
    if id_ is None or not isinstance(result, dict):
        return ErrorResponse(id_, ErrorCode.INTERNAL_ERROR, "a malformed result")
    return Response(id_, result)


def _wire(message: Message) -> dict[str, object]:
    wire: dict[str, object] = {"jsonrpc": "2.0"}
    match message:
        case Request(id_, method, params):
            wire |= {"id": id_, "method": method}
            if params:
                wire["params"] = params
        case Notification(method, params):
            wire["method"] = method
            if params:
                wire["params"] = params
        case Response(id_, result):
            wire |= {"id": id_, "result": result}
        case ErrorResponse(id_or_none, code, text, data):
            error = {"code": code, "message": text}
            wire |= {"id": id_or_none, "error": error if data is None else error | {"data": data}}
    return wire


def _line(value: object) -> bytes:
    text = _ASCII.encode(value)
    if r"\ud" in text and re.search(_MAYBE_LONE, text):
        text = re.sub(_ESCAPE, lambda escape: r"\ufffd" if escape[1] else escape[0], text)
    return text.encode("ascii") + b"\n"
