"""Commands and queries as JSON, strictly: what a guest sends, and what the owner makes of it.

    operation := {"kind": name of its class, name of a field: value, ...}    defaults left out
    value     := JSON of the field's declared type    bytes: base64    tuple: array
                 a dataclass: an object of its fields, without a kind
    change    := {"session_id", "message_id": hexadecimal} | {"key"}

Every value is checked against the declared type before an operation is made of it: the owner
trusts nothing that comes over a socket, not even from itself of another version.
"""

import base64
import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, assert_never, get_args, get_origin, get_type_hints

from convmem import operations
from convmem.memory import Change, FactChange, MessageChange
from convmem.message import Metadata, Relation
from convmem.operations import Command, JsonObject, Query

_OPERATIONS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (*get_args(Command), *get_args(Query))
}
_HINTS: dict[type[Any], dict[str, Any]] = {
    kind: get_type_hints(kind) for kind in (*_OPERATIONS.values(), Metadata, Relation)
}
# Field names and defaults: the answer of ``dataclasses.fields`` takes a while, each time.
_DEFAULTS: dict[type[Any], list[tuple[str, object]]] = {
    kind: [(field.name, field.default) for field in dataclasses.fields(kind)] for kind in _HINTS
}
# The one field whose declared type does not tell what is in it.
_CHANGES = {"content": str, **_HINTS[Metadata]}


def encode(operation: Command | Query) -> JsonObject:
    """The JSON of an operation."""
    return {"kind": type(operation).__name__, **_fields(operation)}


def decode(value: object) -> Command | Query:
    """The operation of a JSON value. Raises ValueError that says what is wrong."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ValueError("an operation is an object with a kind")
    kind = _OPERATIONS.get(value["kind"])
    if kind is None:
        raise ValueError(f"there is no operation {value['kind']!r}")
    given = {name: each for name, each in value.items() if name != "kind"}
    operation: Command | Query = _object(kind, given)
    return operation


def encode_change(change: Change) -> JsonObject:
    """The JSON of what an owner tells its guests."""
    match change:
        case MessageChange(session_id, message_id):
            return {"session_id": session_id, "message_id": message_id.hex()}
        case FactChange(key):
            return {"key": key}
        case _:
            assert_never(change)


def decode_change(value: Mapping[str, object]) -> Change:
    """What changed. Raises ValueError."""
    match value:
        case {"session_id": str(session_id), "message_id": str(message_id)}:
            return MessageChange(session_id, bytes.fromhex(message_id))
        case {"key": str(key)}:
            return FactChange(key)
    raise ValueError("not a change")


def _fields(value: Any) -> JsonObject:
    found = {}
    for name, default in _DEFAULTS[type(value)]:
        each = getattr(value, name)
        if each != default:
            found[name] = _plain(each)
    return found


def _plain(value: Any) -> object:
    if isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if dataclasses.is_dataclass(value):
        return _fields(value)
    return value


def _object(kind: type[Any], given: Mapping[str, object]) -> Any:
    hints = _HINTS[kind]
    if unknown := given.keys() - hints.keys():
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    try:
        return kind(**{name: _typed(hints[name], value, name) for name, value in given.items()})
    except TypeError as error:  # a field is missing
        raise ValueError(str(error)) from error


def _typed(hint: Any, value: object, name: str) -> Any:
    """The value of a declared type. Raises ValueError."""
    if hint == operations.Changes:
        return _changes(value, name)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        (hint,) = (each for each in arguments if each is not NoneType)
        return _typed(hint, value, name)
    if origin is Literal:
        if value in arguments:
            return value
    elif origin is tuple:
        if isinstance(value, list):
            return tuple(_typed(arguments[0], each, name) for each in value)
    elif hint is bytes:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, dict):
            return _object(hint, value)
    elif type(value) is hint:
        return value
    raise ValueError(f"{name}: not a {hint}")


def _changes(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not value.keys() <= _CHANGES.keys():
        raise ValueError(f"{name}: not fields of a message")
    return {field: _typed(_CHANGES[field], each, field) for field, each in value.items()}
