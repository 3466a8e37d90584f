"""What hosts refuse in a tool list, as a linter.

One tool that breaks a rule takes the whole list down in some hosts, so every ``Tool`` is
checked when it is made. The rules are the intersection of what the known hosts and the APIs
behind them accept; the JSON Schema keywords allowed are those that all of them read.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from .limits import DEPTH_MAX, DESCRIPTION_CHARS_MAX, PROPERTIES_MAX

NAME: Final = r"[a-z][a-z0-9_]{0,39}"
"""Of tools and properties: hosts put their own prefix before it and stop at 60 or 64."""

_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object")
_KEYWORDS: Final = frozenset(
    {"type", "description", "properties", "required", "additionalProperties", "items", "enum"}
    | {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "default"}
)
_ROOT_KEYWORDS: Final = frozenset({"type", "properties", "required", "additionalProperties"})


def tool_problems(name: str, title: str, description: str) -> Iterator[str]:
    """What is wrong with the texts of a tool."""
    if not re.fullmatch(NAME, name):
        yield f"name {name!r} must match {NAME}"
    if not title:
        yield "the title is empty"
    if not 0 < len(description) <= DESCRIPTION_CHARS_MAX:
        yield f"the description must have 1-{DESCRIPTION_CHARS_MAX} characters"


def schema_problems(schema: Mapping[str, object]) -> Iterator[str]:
    """What is wrong with the schema of arguments or of a result."""
    if schema.get("type") != "object":
        yield "the root must be of type object"
    for keyword in sorted(set(schema) - _ROOT_KEYWORDS):
        yield f"the root must not have {keyword}"
    yield from _object_problems(schema, "", 1)


def _problems(schema: object, where: str, depth: int) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        yield f"{where}: must be a schema object"
        return
    if schema.get("type") not in _TYPES:
        yield f"{where}: type must be one of {', '.join(_TYPES)}"
    if not schema.get("description"):
        yield f"{where}: has no description"
    for keyword in sorted(set(schema) - _KEYWORDS):
        yield f"{where}: {keyword} is not understood everywhere"
    enum = schema.get("enum", [""])
    if not isinstance(enum, list) or not enum or not all(isinstance(word, str) for word in enum):
        yield f"{where}: enum must be a list of strings"
    if "default" in schema and not isinstance(schema["default"], str | int | float):
        yield f"{where}: default must be a scalar"
    if schema.get("type") == "array":
        yield from _problems(schema.get("items"), where + "[]", depth)
    if schema.get("type") == "object":
        yield from _object_problems(schema, where, depth)


def _object_problems(schema: Mapping[str, object], where: str, depth: int) -> Iterator[str]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        yield f"{where or 'the root'}: properties must be an object"
        return
    if depth > DEPTH_MAX:
        yield f"{where}: nested deeper than {DEPTH_MAX} objects"
        return
    if len(properties) > PROPERTIES_MAX:
        yield f"{where or 'the root'}: more than {PROPERTIES_MAX} properties"
    required = schema.get("required", [])
    if not isinstance(required, list) or not set(required) <= set(properties):
        yield f"{where or 'the root'}: required must list declared properties"
    for name, member in properties.items():
        path = f"{where}.{name}" if where else str(name)
        if not re.fullmatch(NAME, name):
            yield f"{path}: a property must match {NAME}"
        yield from _problems(member, path, depth + 1)
