"""From what a host sends as arguments to the declared object, or every problem at once.

Lenient where hosts are known to bend a value and its meaning is beyond doubt: a whole
object, array, number or boolean that arrives as its JSON text; ``5.0`` for an integer;
``null`` for what is absent, and so ``""`` and ``"null"`` where no string is declared.
Arguments that are not declared are ignored.

Strict with text: a declared string is taken as it is or refused, never converted, cut or
repaired, because what is stored must come back byte-identical.
"""

import json
import math
import re
import sys
from typing import Final, TypeVar, assert_never

from .errors import InvalidArguments
from .limits import INTEGER_MAX, QUOTE_CHARS_MAX
from .message import compact, excerpt
from .schema import (
    Array,
    Field,
    Kind,
    Object,
    Property,
    Scalar,
    declared,
    words,
)

T = TypeVar("T")

_INTEGER: Final = r"-?[0-9]{1,16}(\.0+)?"
_NUMBER: Final = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_FLOAT_MAX: Final = sys.float_info.max
_BOOLEANS: Final = {"true": True, "false": False}


class _Unfit(Exception):
    """A value does not fit its kind; the text says what was found instead."""


def parse(declaration: type[T], arguments: object) -> T:
    """The argument object. InvalidArguments, with all problems, if it cannot be made."""
    problems: list[str] = []
    given = {} if arguments is None else arguments
    value = _object(declared(declaration), given, "", problems)
    if problems:
        raise InvalidArguments(problems)
    assert isinstance(value, declaration)
    return value


def _value(kind: Kind, given: object, where: str, problems: list[str]) -> object:
    """The value to hand on; where there is none, a problem is added."""
    try:
        match kind:
            case Object():
                return _object(kind, given, where, problems)
            case Array():
                return _array(kind, given, where, problems)
            case Scalar():
                return _scalar(kind, given)
            case _:
                assert_never(kind)
    except _Unfit as unfit:
        problems.append(f"{where}: expected {words(kind)}, got {unfit}")
        return None


def _object(kind: Object, given: object, where: str, problems: list[str]) -> object:
    members = _unwrapped(given)
    if not isinstance(members, dict):
        problems.append(f"{where or 'arguments'}: expected object, got {_shown(given)}")
        return None
    before = len(problems)
    values: dict[str, object] = {}
    for each in kind.properties:
        path = f"{where}.{each.name}" if where else each.name
        member = members.get(each.name)
        if not _is_absent(each, member):
            values[each.name] = _value(each.kind, member, path, problems)
        elif each.required:
            problems.append(f"{path}: required")
    return kind.declaration(**values) if len(problems) == before else None


def _is_absent(each: Property, member: object) -> bool:
    if member is None:
        return True
    if each.required or member not in ("", "null"):
        return False
    match each.kind:
        case Scalar("string", field, choices):
            if choices:
                return member not in choices
            return member == "" and field.bytes_min > 0
        case _:
            return True


def _array(kind: Array, given: object, where: str, problems: list[str]) -> object:
    items = _unwrapped(given)
    if not isinstance(items, list):
        raise _Unfit(_shown(given))
    most = kind.field.items_max
    if most is not None and len(items) > most:
        raise _Unfit(f"{len(items)} items")
    return tuple(
        _value(kind.item, item, f"{where}[{index}]", problems) for index, item in enumerate(items)
    )


def _unwrapped(given: object) -> object:
    """An object or array that arrives as its JSON text."""
    if not isinstance(given, str):
        return given
    try:
        # RecursionError: the wire's limit on nesting does not see into strings.
        return json.loads(given, strict=False)
    except (ValueError, RecursionError):
        return given


def _scalar(kind: Scalar, given: object) -> str | int | float | bool:
    match kind.type:
        case "string" if kind.choices:
            return _choice(kind, given)
        case "string":
            return _text(kind.field, given)
        case "integer":
            return _integer(kind.field, given)
        case "number":
            return _number(kind.field, given)
        case "boolean":
            return _boolean(given)
        case _:
            assert_never(kind.type)


def _text(field: Field, given: object) -> str:
    if field.takes_integer and isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str):
        raise _Unfit(_shown(given))
    try:
        size = len(given) if given.isascii() else len(given.encode())
    except UnicodeEncodeError as error:
        problem = f"invalid Unicode (a lone surrogate) at character {error.start}"
        raise _Unfit(problem) from None
    if not field.allow_nul and "\0" in given:
        raise _Unfit(f"U+0000 at character {given.index(chr(0))}")
    if size < field.bytes_min or (field.bytes_max is not None and size > field.bytes_max):
        raise _Unfit(f"{size} bytes")
    return given


def _choice(kind: Scalar, given: object) -> str:
    if not isinstance(given, str) or given not in kind.choices:
        raise _Unfit(_shown(given))
    return given


def _integer(field: Field, given: object) -> int:
    value = given
    if isinstance(value, str) and re.fullmatch(_INTEGER, value):
        value = int(value.partition(".")[0])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # Without declared limits: what every JSON reader keeps exact.
    low = -INTEGER_MAX if field.minimum is None else field.minimum
    high = INTEGER_MAX if field.maximum is None else field.maximum
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _Unfit(_shown(given))
    return value


def _number(field: Field, given: object) -> float:
    value = given
    if isinstance(value, str) and re.fullmatch(_NUMBER, value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit(_shown(given))
    low = -math.inf if field.minimum is None else field.minimum
    high = math.inf if field.maximum is None else field.maximum
    # An integer may be beyond every float, so it is compared before it is converted.
    if not (low <= value <= high and -_FLOAT_MAX <= value <= _FLOAT_MAX):
        raise _Unfit(_shown(given))
    return float(value)


def _boolean(given: object) -> bool:
    value = _BOOLEANS.get(given) if isinstance(given, str) else given
    if not isinstance(value, bool):
        raise _Unfit(_shown(given))
    return value


def _shown(value: object) -> str:
    """A value as JSON, in an error message: short, and finite or not."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, str):
        return excerpt(compact(value[: QUOTE_CHARS_MAX + 1]))
    return excerpt(json.dumps(value))
