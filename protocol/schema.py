"""One declaration of a JSON object: a frozen dataclass with annotated fields.

    type  := str | Literal["a", "b"] | int | float | bool
           | tuple[type, ...]                     an array
           | a dataclass                          an object
    field := name: Annotated[type, Field("what it is", ...)]
           | name: Annotated[type | None, Field(...)] = None         may be absent
           | name: Annotated[type, Field(...)] = a scalar            has a default

From it follow the JSON Schema that hosts see and the rows of the generated documentation
(here), and the argument object, checked (``arguments``). The schema keeps to what every
known host accepts: one type word per property, nothing but plain keywords, no ``null``.

A declaration that breaks these rules is a mistake in the program: TypeError, when the
declaration is first used.
"""

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, dataclass, is_dataclass
from dataclasses import fields as members_of
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, assert_never, get_type_hints
from typing import get_args as args_of
from typing import get_origin as origin_of

_BYTES_PER_CODE_POINT_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Field:
    """What a declaration says of a value beside its type.

    ``minimum`` and ``maximum`` are of a number, inclusive; ``bytes_min`` and ``bytes_max``
    of a string, in UTF-8; ``items_max`` of an array. A string may hold U+0000 unless
    ``allow_nul`` is false, and an integer may stand for its digits where ``takes_integer``.
    """

    description: str
    minimum: int | None = None
    maximum: int | None = None
    bytes_min: int = 0
    bytes_max: int | None = None
    allow_nul: bool = True
    items_max: int | None = None
    takes_integer: bool = False


@dataclass(frozen=True, slots=True)
class Scalar:
    """``choices`` are the only values of a string, if there are any."""

    type: Literal["string", "integer", "number", "boolean"]
    field: Field
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Array:
    """A list whose every item is of one kind."""

    field: Field
    item: "Kind"


@dataclass(frozen=True, slots=True)
class Object:
    """``declaration`` is called with the properties that are present."""

    field: Field
    declaration: type
    properties: tuple["Property", ...]


@dataclass(frozen=True, slots=True)
class Property:
    """``default`` is None where absence has no other meaning than absence."""

    name: str
    kind: "Kind"
    required: bool
    default: str | int | float | None


_SCALARS: Final[Mapping[type, Literal["string", "integer", "number", "boolean"]]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}

Kind: TypeAlias = Scalar | Array | Object


@dataclass(frozen=True, slots=True)
class Row:
    """One property for the documentation: dotted name, type and limits in words."""

    name: str
    type: str
    required: bool
    description: str


def declared(declaration: type) -> Object:
    """The declaration as a tree. TypeError if it is not one."""
    return _declared(declaration)


def json_schema(declaration: type) -> dict[str, object]:
    """What a host is told of the arguments: JSON Schema, in the order of the declaration."""
    return _object_schema(declared(declaration), closed=True)


def result_schema(declaration: type) -> dict[str, object]:
    """The same of a result, open: a later version may say more without breaking a client."""
    return _object_schema(declared(declaration), closed=False)


def fields(declaration: type) -> list[Row]:
    """Every property, nested ones after their parent, for the generated documentation."""
    return _rows(declared(declaration), "")


def words(kind: Kind) -> str:
    """The type and its limits, as an error message and the documentation say it."""
    field = kind.field
    match kind:
        case Scalar("boolean"):
            return "true or false"
        case Scalar("string", _, choices) if choices:
            return "one of " + ", ".join(choices)
        case Scalar("string"):
            size = _range(field.bytes_min or None, field.bytes_max)
            nul = "" if field.allow_nul else " without U+0000"
            return (f"string of {size} bytes" if size else "string") + nul
        case Scalar(number):
            return f"{number} {_range(field.minimum, field.maximum)}".rstrip()
        case Array():
            most = f" of at most {field.items_max}" if field.items_max is not None else ""
            return f"array{most}, each {words(kind.item)}"
        case Object():
            return "object"
        case _:
            assert_never(kind)


@cache
def _declared(declaration: Hashable) -> Object:
    return _object(declaration, Field(""))


def _range(low: int | None, high: int | None) -> str:
    match low, high:
        case None, None:
            return ""
        case None, _:
            return f"at most {high}"
        case _, None:
            return f"at least {low}"
        case _:
            return f"{low}-{high}"


def _rows(kind: Object, prefix: str) -> list[Row]:
    found: list[Row] = []
    for each in kind.properties:
        name = prefix + each.name
        found.append(Row(name, words(each.kind), each.required, each.kind.field.description))
        nested = each.kind.item if isinstance(each.kind, Array) else each.kind
        if isinstance(nested, Object):
            found += _rows(nested, name + ".")
    return found


def _schema(kind: Kind, *, closed: bool) -> dict[str, object]:
    field = kind.field
    about = {"description": field.description}
    match kind:
        case Scalar(word, _, choices):
            # A host counts code points, we count bytes: never refuse there what passes here.
            limits = {
                "enum": list(choices) or None,
                "minLength": -(-field.bytes_min // _BYTES_PER_CODE_POINT_MAX) or None,
                "maxLength": field.bytes_max,
                "minimum": field.minimum,
                "maximum": field.maximum,
            }
            return {"type": word, **about, **_present(limits)}
        case Array():
            items = _schema(kind.item, closed=closed)
            limits = {"maxItems": field.items_max}
            return {"type": "array", **about, "items": items, **_present(limits)}
        case Object():
            return _object_schema(kind, closed=closed) | about
        case _:
            assert_never(kind)


def _object_schema(kind: Object, *, closed: bool) -> dict[str, object]:
    properties: dict[str, object] = {}
    for each in kind.properties:
        default = _present({"default": each.default})
        properties[each.name] = _schema(each.kind, closed=closed) | default
    schema: dict[str, object] = {"type": "object", "properties": properties}
    if required := [each.name for each in kind.properties if each.required]:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return schema


def _present(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _object(declaration: object, field: Field) -> Object:
    if not isinstance(declaration, type) or not is_dataclass(declaration):
        raise TypeError(f"{declaration!r} is not a dataclass")
    hints = get_type_hints(declaration, include_extras=True)
    found: list[Property] = []
    for each in members_of(declaration):
        try:
            kind, optional = _annotated(hints[each.name])
        except TypeError as error:
            raise TypeError(f"{declaration.__name__}.{each.name}: {error}") from error
        required = each.default is MISSING
        default: Any = None if required else each.default
        if optional and (required or default is not None):
            raise TypeError(f"{declaration.__name__}.{each.name}: | None goes with = None")
        if not optional and not required and not isinstance(default, str | int | float):
            raise TypeError(f"{declaration.__name__}.{each.name}: a default must be a scalar")
        found.append(Property(each.name, kind, required, default))
    return Object(field, declaration, tuple(found))


def _annotated(hint: Any) -> tuple[Kind, bool]:
    """The kind of a property or item, and whether ``None`` may stand for it."""
    if origin_of(hint) is not Annotated:
        raise TypeError("needs Annotated[..., Field(...)]")
    inner, *metadata = args_of(hint)
    if len(metadata) != 1 or not isinstance(field := metadata[0], Field):
        raise TypeError("needs one Field")
    if origin_of(inner) not in (Union, UnionType):
        return _kind(inner, field), False
    members = [member for member in args_of(inner) if member is not NoneType]
    if len(members) != 1:
        raise TypeError("a union is for None only")
    return _kind(members[0], field), True


def _kind(hint: Any, field: Field) -> Kind:
    if isinstance(hint, type) and hint in _SCALARS:
        return Scalar(_SCALARS[hint], field)
    if origin_of(hint) is Literal and all(isinstance(word, str) for word in args_of(hint)):
        return Scalar("string", field, args_of(hint))
    if origin_of(hint) is tuple and args_of(hint)[1:] == (Ellipsis,):
        item, optional = _annotated(args_of(hint)[0])
        if not optional:
            return Array(field, item)
    if isinstance(hint, type) and is_dataclass(hint):
        return _object(hint, field)
    raise TypeError(f"{hint!r} has no JSON type here")
