"""Declarations: the schema that hosts see, the words that people see, what is no declaration."""

from dataclasses import dataclass, make_dataclass
from dataclasses import field as member
from typing import Annotated, Any, Literal

import pytest

from convmem.protocol import Call, Field, Tool, fields, json_schema, result_schema, schema_problems

from .requirements import proves


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    to: Annotated[str, Field("Whom.", bytes_min=1, bytes_max=26, allow_nul=False)]
    type: Annotated[Literal["up", "down"], Field("Which way.")] = "up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    text: Annotated[str, Field("Text.", bytes_min=5, bytes_max=9)]
    count: Annotated[int, Field("Count.", minimum=1, maximum=100)] = 10
    share: Annotated[float | None, Field("Share.", minimum=0)] = None
    loud: Annotated[bool, Field("Loud.")] = False
    tags: Annotated[
        tuple[Annotated[str, Field("One tag.", bytes_max=8)], ...] | None,
        Field("Tags.", items_max=3),
    ] = None
    links: Annotated[tuple[Annotated[Link, Field("One link.")], ...] | None, Field("Links.")] = None
    link: Annotated[Link | None, Field("A link.")] = None


LINK = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "Whom.", "minLength": 1, "maxLength": 26},
        "type": {
            "type": "string",
            "description": "Which way.",
            "enum": ["up", "down"],
            "default": "up",
        },
    },
    "required": ["to"],
    "additionalProperties": False,
}
EVERYTHING = {
    "type": "object",
    "properties": {
        # At least five bytes may be two characters of three bytes each.
        "text": {"type": "string", "description": "Text.", "minLength": 2, "maxLength": 9},
        "count": {
            "type": "integer",
            "description": "Count.",
            "minimum": 1,
            "maximum": 100,
            "default": 10,
        },
        "share": {"type": "number", "description": "Share.", "minimum": 0},
        "loud": {"type": "boolean", "description": "Loud.", "default": False},
        "tags": {
            "type": "array",
            "description": "Tags.",
            "items": {"type": "string", "description": "One tag.", "maxLength": 8},
            "maxItems": 3,
        },
        "links": {
            "type": "array",
            "description": "Links.",
            "items": LINK | {"description": "One link."},
        },
        "link": LINK | {"description": "A link."},
    },
    "required": ["text"],
    "additionalProperties": False,
}


def test_the_schema_in_full() -> None:
    assert json_schema(Everything) == EVERYTHING
    assert list(schema_problems(json_schema(Everything))) == []


def test_a_result_is_open() -> None:
    closed = json_schema(Link)
    del closed["additionalProperties"]
    assert result_schema(Link) == closed


def test_the_words_in_full() -> None:
    assert [(row.name, row.type, row.required) for row in fields(Everything)] == [
        ("text", "string of 5-9 bytes", True),
        ("count", "integer 1-100", False),
        ("share", "number at least 0", False),
        ("loud", "true or false", False),
        ("tags", "array of at most 3, each string of at most 8 bytes", False),
        ("links", "array, each object", False),
        ("links.to", "string of 1-26 bytes without U+0000", True),
        ("links.type", "one of up, down", False),
        ("link", "object", False),
        ("link.to", "string of 1-26 bytes without U+0000", True),
        ("link.type", "one of up, down", False),
    ]


def declaration(hint: Any, *default: Any) -> type:
    return make_dataclass(
        "Made", [("name", hint, member(default=default[0]))] if default else [("name", hint)]
    )


@pytest.mark.parametrize(
    "wrong",
    [
        int,
        declaration(str),
        declaration(Annotated[str, "words"]),
        declaration(Annotated[str, Field("a"), Field("b")]),
        declaration(Annotated[bytes, Field("a")]),
        declaration(Annotated[dict[str, str], Field("a")]),
        declaration(Annotated[str | int, Field("a")]),
        declaration(Annotated[str | None, Field("a")]),
        declaration(Annotated[str | None, Field("a")], "x"),
        declaration(Annotated[str, Field("a")], None),
        declaration(Annotated[Literal[1, 2], Field("a")]),
        declaration(Annotated[tuple[str, ...], Field("a")]),
        declaration(Annotated[tuple[Annotated[str, Field("b")]], Field("a")]),
        declaration(Annotated[tuple[Annotated[str | None, Field("b")], ...], Field("a")]),
    ],
    ids=str,
)
def test_what_is_no_declaration_is_a_mistake_of_the_program(wrong: type) -> None:
    with pytest.raises(TypeError):
        json_schema(wrong)


GOOD = {"type": "string", "description": "x"}


def root(**schema: object) -> dict[str, object]:
    return {"type": "object", "properties": {"name": GOOD}} | schema


def prop(**schema: object) -> dict[str, object]:
    return root(properties={"name": GOOD | schema})


def deep(levels: int) -> dict[str, object]:
    schema = root()
    for _ in range(levels):
        schema = root(properties={"name": schema | {"description": "x"}})
    return schema


REFUSED_BY_HOSTS: dict[str, dict[str, object]] = {
    "root without type": {"properties": {}},
    "root of another type": root(type="array"),
    "root of two types": root(type=["object", "null"]),
    "root with anyOf": root(anyOf=[]),
    "root with $schema": root() | {"$schema": "x"},
    "root with description": root(description="x"),
    "no properties": {"type": "object"},
    "required null": root(required=None),
    "required names no property": root(required=["other"]),
    "property true": root(properties={"name": True}),
    "property {}": root(properties={"name": {}}),
    "no description": root(properties={"name": {"type": "string"}}),
    "a type array": prop(type=["string", "null"]),
    "an unknown type": prop(type="int"),
    "$ref": prop(**{"$ref": "#"}),
    "format": prop(format="email"),
    "exclusiveMinimum": prop(exclusiveMinimum=True),
    "nullable": prop(nullable=True),
    "default null": prop(default=None),
    "enum of numbers": prop(enum=[1]),
    "enum of nothing": prop(enum=[]),
    "array without items": prop(type="array"),
    "tuple items": prop(type="array", items=[GOOD]),
    "object without properties": prop(type="object"),
    "name with a capital": root(properties={"userId": GOOD}),
    "name with a dot": root(properties={"user.id": GOOD}),
    "name too long": root(properties={"x" * 41: GOOD}),
    "too many properties": root(properties={f"p{n}": GOOD for n in range(17)}),
    "too deep": deep(3),
}


@proves("HOST-01")
@pytest.mark.parametrize("case", REFUSED_BY_HOSTS)
def test_the_linter_knows_what_hosts_refuse(case: str) -> None:
    assert list(schema_problems(REFUSED_BY_HOSTS[case])) != []


@pytest.mark.parametrize("schema", [root(), {"type": "object", "properties": {}}, deep(2)], ids=str)
def test_the_linter_accepts_what_hosts_accept(schema: dict[str, object]) -> None:
    assert list(schema_problems(schema)) == []


async def handler(arguments: Link, call: Call) -> dict[str, object]:
    raise AssertionError("not called")


@proves("HOST-02", "HOST-03")
@pytest.mark.parametrize(
    "text",
    [
        {"name": "Write"},
        {"name": "my.tool"},
        {"name": ""},
        {"name": "x" * 41},
        {"title": ""},
        {"description": ""},
        {"description": "x" * 600},
    ],
    ids=str,
)
def test_a_tool_that_a_host_would_refuse_cannot_be_made(text: dict[str, str]) -> None:
    texts = {"name": "write", "title": "Write", "description": "x" * 599}

    def make(name: str, title: str, description: str) -> Tool[Link]:
        return Tool(
            name=name,
            title=title,
            description=description,
            arguments=Link,
            handler=handler,
            read_only=True,
            destructive=False,
            idempotent=True,
        )

    make(**texts)
    with pytest.raises(ValueError, match=next(iter(text))):
        make(**texts | text)
