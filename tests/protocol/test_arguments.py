"""Arguments: what is understood, what is refused and how it is said, and what is never changed."""

import contextlib
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.protocol import Field, InvalidArguments, parse

from .requirements import proves


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    id: Annotated[str, Field("Id.", bytes_min=1, bytes_max=8, allow_nul=False)]
    weight: Annotated[int | None, Field("Weight.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class All:
    text: Annotated[str, Field("Text.", bytes_max=12)] = "none"
    note: Annotated[str | None, Field("Note.")] = None
    page: Annotated[str | None, Field("Never empty.", bytes_min=1)] = None
    count: Annotated[int, Field("Count.", minimum=1, maximum=100)] = 10
    big: Annotated[int | None, Field("Big.")] = None
    share: Annotated[float | None, Field("Share.", minimum=-1)] = None
    loud: Annotated[bool, Field("Loud.")] = False
    mode: Annotated[Literal["fast", "slow", ""], Field("Mode.")] = "fast"
    way: Annotated[Literal["up", "down"] | None, Field("Way.")] = None
    tags: Annotated[
        tuple[Annotated[str, Field("Tag.", bytes_max=4)], ...] | None,
        Field("Tags.", items_max=3),
    ] = None
    part: Annotated[Part | None, Field("Part.")] = None
    parts: Annotated[tuple[Annotated[Part, Field("Part.")], ...] | None, Field("Parts.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    text: Annotated[str, Field("Text.")]
    count: Annotated[int, Field("Count.")]


# arguments as they arrive, and what differs from the defaults
UNDERSTOOD: list[tuple[object, dict[str, Any]]] = [
    (None, {}),
    ({}, {}),
    ("{}", {}),
    ('{"count": 7}', {"count": 7}),
    ({"unknown": object}, {}),
    (dict.fromkeys(("text", "count", "loud", "mode", "tags", "part")), {}),
    (dict.fromkeys(("count", "share", "loud", "way", "tags", "part"), ""), {}),
    (dict.fromkeys(("count", "share", "loud", "mode", "tags", "part"), "null"), {}),
    ({"text": "", "note": "null", "mode": ""}, {"text": "", "note": "null", "mode": ""}),
    ({"page": ""}, {}),
    ({"page": "null"}, {"page": "null"}),
    ({"text": "5"}, {"text": "5"}),
    ({"text": "{}"}, {"text": "{}"}),
    ({"text": "a\0b\u2028"}, {"text": "a\0b\u2028"}),
    ({"text": "\U0001f600" * 3}, {"text": "\U0001f600" * 3}),
    ({"count": 5.0}, {"count": 5}),
    ({"count": "5"}, {"count": 5}),
    ({"count": "5.0"}, {"count": 5}),
    ({"big": 2**53 - 1}, {"big": 2**53 - 1}),
    ({"big": "-9007199254740991"}, {"big": -(2**53) + 1}),
    ({"share": 1}, {"share": 1.0}),
    ({"share": "0.5"}, {"share": 0.5}),
    ({"share": "-1e-3"}, {"share": -0.001}),
    ({"loud": True}, {"loud": True}),
    ({"loud": "true"}, {"loud": True}),
    ({"loud": "false"}, {"loud": False}),
    ({"tags": ["a", "5"]}, {"tags": ("a", "5")}),
    ({"tags": '["a"]'}, {"tags": ("a",)}),
    ({"tags": []}, {"tags": ()}),
    ({"part": {"id": "x", "weight": None}}, {"part": Part(id="x")}),
    ({"part": '{"id": "x", "weight": "3"}'}, {"part": Part(id="x", weight=3)}),
    ({"parts": [{"id": "x"}, '{"id": "y"}']}, {"parts": (Part(id="x"), Part(id="y"))}),
]


@proves("CALL-05", "CALL-06", "CALL-08", "CALL-09")
@pytest.mark.parametrize(("arguments", "changed"), UNDERSTOOD, ids=repr)
def test_understood(arguments: object, changed: dict[str, Any]) -> None:
    assert parse(All, arguments) == All(**changed)


# arguments as they arrive, and the one problem
REFUSED: list[tuple[object, str]] = [
    ([], "arguments: expected object, got an array"),
    (5, "arguments: expected object, got 5"),
    ("words", 'arguments: expected object, got "words"'),
    ("[" * 100_000, 'arguments: expected object, got "' + "[" * 79 + "…"),
    ({"text": 5}, "text: expected string of at most 12 bytes, got 5"),
    ({"text": True}, "text: expected string of at most 12 bytes, got true"),
    ({"text": ["a"]}, "text: expected string of at most 12 bytes, got an array"),
    ({"text": "x" * 13}, "text: expected string of at most 12 bytes, got 13 bytes"),
    ({"text": "é" * 7}, "text: expected string of at most 12 bytes, got 14 bytes"),
    (
        {"text": "ab\ud800"},
        "text: expected string of at most 12 bytes, "
        "got invalid Unicode (a lone surrogate) at character 2",
    ),
    ({"count": 0}, "count: expected integer 1-100, got 0"),
    ({"count": 101}, "count: expected integer 1-100, got 101"),
    ({"count": 1.5}, "count: expected integer 1-100, got 1.5"),
    ({"count": "abc"}, 'count: expected integer 1-100, got "abc"'),
    ({"count": "\u0665"}, 'count: expected integer 1-100, got "\u0665"'),
    ({"count": "\ud800"}, 'count: expected integer 1-100, got "\ufffd"'),
    ({"count": True}, "count: expected integer 1-100, got true"),
    ({"count": float("nan")}, "count: expected integer 1-100, got NaN"),
    ({"count": {}}, "count: expected integer 1-100, got an object"),
    ({"big": 2**53}, f"big: expected integer, got {2**53}"),
    ({"big": float("inf")}, "big: expected integer, got Infinity"),
    ({"share": float("nan")}, "share: expected number at least -1, got NaN"),
    ({"share": "1e999"}, 'share: expected number at least -1, got "1e999"'),
    ({"share": -2}, "share: expected number at least -1, got -2"),
    ({"loud": 1}, "loud: expected true or false, got 1"),
    ({"loud": "yes"}, 'loud: expected true or false, got "yes"'),
    ({"mode": "FAST"}, 'mode: expected one of fast, slow, , got "FAST"'),
    ({"way": []}, "way: expected one of up, down, got an array"),
    (
        {"tags": "a"},
        'tags: expected array of at most 3, each string of at most 4 bytes, got "a"',
    ),
    (
        {"tags": ["a"] * 4},
        "tags: expected array of at most 3, each string of at most 4 bytes, got 4 items",
    ),
    ({"tags": ["a", 5]}, "tags[1]: expected string of at most 4 bytes, got 5"),
    ({"tags": ["a", None]}, "tags[1]: expected string of at most 4 bytes, got null"),
    ({"part": []}, "part: expected object, got an array"),
    ({"part": {}}, "part.id: required"),
    (
        {"part": {"id": "a\0"}},
        "part.id: expected string of 1-8 bytes without U+0000, got U+0000 at character 1",
    ),
    (
        {"parts": [{"id": "x"}, {"id": ""}]},
        "parts[1].id: expected string of 1-8 bytes without U+0000, got 0 bytes",
    ),
]


@proves("CALL-10", "CALL-11")
@pytest.mark.parametrize(("arguments", "problem"), REFUSED, ids=lambda case: repr(case)[:60])
def test_refused(arguments: object, problem: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse(All, arguments)
    assert caught.value.problems == [problem]


@proves("CALL-02")
def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse(Needed, {"count": "abc"})
    assert str(caught.value) == 'text: required; count: expected integer, got "abc"'


@proves("CALL-09")
@pytest.mark.parametrize("value", [None, "", "null", [], {}])
def test_what_is_needed_is_never_taken_for_absent(value: object) -> None:
    with pytest.raises(InvalidArguments, match="count"):
        parse(Needed, {"text": "x", "count": value})


@proves("CALL-08")
@given(st.text())
def test_text_comes_through_as_it_is(text: str) -> None:
    assert parse(All, json.loads(json.dumps({"note": text}))).note == text


@proves("CALL-11")
@given(st.text(), st.characters(categories=["Cs"]), st.text())
def test_text_that_is_not_unicode_is_never_repaired(before: str, lone: str, after: str) -> None:
    with pytest.raises(InvalidArguments, match=f"at character {len(before)}$"):
        parse(All, {"note": before + lone + after})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
NAMES = ["text", "note", "count", "big", "share", "loud", "mode", "way", "tags", "part", "parts"]


@given(st.dictionaries(st.sampled_from(NAMES), JSON) | JSON)
def test_any_json_is_an_object_or_invalid(arguments: object) -> None:
    with contextlib.suppress(InvalidArguments):
        assert isinstance(parse(All, arguments), All)
