"""Whatever arrives, every line that leaves is valid, and each request has one answer."""

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from .example import example
from .wire import MODERN_META, call, conversation, initialize, line, request

IDS = st.integers(-3, 3) | st.sampled_from(["", "1", "é", 2**60, "\ud800"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
METHODS = ["ping", "tools/list", "resources/list", "server/discover", "tools/call", "x"]
REQUESTS = st.one_of(
    st.builds(request, st.sampled_from(METHODS), JSON, IDS),
    st.builds(
        call,
        st.sampled_from(["say", "fail", "none", "x"]),
        JSON | st.fixed_dictionaries({"text": st.text(max_size=9)}, optional={"times": JSON}),
        IDS,
    ),
    st.builds(initialize, st.sampled_from(["2025-03-26", "2025-11-25"]) | JSON),
    st.builds(lambda id_: request("tools/list", {"_meta": MODERN_META}, id_), IDS),
)
NOISE = st.one_of(
    JSON,
    st.lists(REQUESTS | JSON, max_size=3),
    st.builds(lambda id_: {"jsonrpc": "2.0", "id": id_, "result": {}}, IDS),
    st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"") + b"\n"),
)


@settings(max_examples=300)
@given(st.lists(REQUESTS | NOISE, max_size=8), st.binary(max_size=5))
def test_every_line_out_is_valid_whatever_comes_in(messages: list[object], end: bytes) -> None:
    conversation(example(), *messages, end)  # which judges every line


@settings(max_examples=200)
@given(st.lists(REQUESTS, max_size=8, unique_by=lambda message: repr(_heard(message["id"]))))
def test_each_request_has_exactly_one_answer(messages: list[Any]) -> None:
    answers = conversation(example(), *messages)
    asked = Counter(repr(_heard(message["id"])) for message in messages)
    assert Counter(repr(answer["id"]) for answer in answers) == asked


@settings(max_examples=100)
@given(st.lists(REQUESTS, min_size=1, max_size=4), st.data())
def test_a_broken_line_costs_no_other(messages: list[Any], data: st.DataObject) -> None:
    broken = line(data.draw(st.sampled_from(messages)))
    cut = data.draw(st.integers(1, len(broken) - 2))
    whole = conversation(example(), *messages)
    assert conversation(example(), broken[:cut] + b"\n", *messages)[1:] == whole


def _heard(id_: object) -> object:
    """An id as it comes back: without half a surrogate pair."""
    return json.loads(json.dumps(id_).replace(r"\ud800", r"\ufffd"))
