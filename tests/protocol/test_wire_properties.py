"""Whatever arrives, each request has one answer, and every line that leaves is valid.

The lines are made of requests of both eras, batches, noise and what readers of JSON are known
to stumble over; then cut, joined, overwritten and torn. A model of some lines, ``owed``, says
which ids must be answered; the judge of ``wire`` holds every line that leaves to its rules.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.protocol import NESTING_MAX, PARSE_ERRORS_ANSWERED_MAX, REQUESTS_IN_FLIGHT_MAX

from .example import example
from .process import EXAMPLE, ServerProcess
from .requirements import proves
from .wire import MODERN_META, call, conversation, initialize, line, request

IDS = st.integers(-3, 3) | st.sampled_from(["", "1", "é", 2**60, "\ud800"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
METHODS = ["ping", "tools/list", "resources/list", "server/discover", "tools/call", "x"]
PARAMS = JSON | st.fixed_dictionaries({"_meta": st.just(MODERN_META) | JSON})
REQUESTS = st.one_of(
    st.builds(request, st.sampled_from(METHODS), PARAMS, IDS),
    st.builds(
        call,
        st.sampled_from(["say", "fail", "none", "x"]),
        JSON | st.fixed_dictionaries({"text": st.text(max_size=9)}, optional={"times": JSON}),
        IDS,
    ),
)
OPENINGS: list[list[object]] = [
    [],
    [initialize("2025-03-26")],
    [initialize("2025-11-25")],
    [request("server/discover", {"_meta": MODERN_META}, 0)],
]
# Values as a peer may write them and no encoder of ours would.
HOSTILE = st.sampled_from(
    [
        b"[" * 100_000,
        b"[" * NESTING_MAX + b"]" * NESTING_MAX,
        b'{"a":' * 200 + b"1" + b"}" * 200,
        b'"' + b"[{" * 500 + b'"',
        b"9" * 5_000,
        b"-1e400",
        b"1.0000000000000000000000000000000001",
        b"NaN",
        rb'"\ud800"',
        rb'"\udfff\\\""',
        b'"\xff\xfe"',
        b'"\xc3"',
        b'"\0\x1f\x7f"',
        b"\xef\xbb\xbf",
        '"\u2028\x85"'.encode(),
        b'{"text":"a","text":"b"}',
        b'{"text":"a","\\u0074ext":5}',
        b'{"":null}',
        b"{",
        b'"',
    ]
)
HOSTILE_LINES = st.one_of(
    HOSTILE,
    st.builds(
        lambda value, id_: (
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",'
            b'"params":{"name":"say","arguments":%b}}' % (id_, value)
        ),
        HOSTILE,
        st.integers(-3, 3),
    ),
    st.builds(b'{"jsonrpc":"2.0","id":1,"method":"ping","id":%b}'.__mod__, HOSTILE),
    st.builds(b'%b{"jsonrpc":"2.0","id":"x","method":"ping"}'.__mod__, HOSTILE),
).map(lambda data: data + b"\n")
NOISE = st.one_of(
    JSON.map(line),
    st.lists(REQUESTS | JSON, max_size=3).map(line),
    st.builds(lambda id_: line({"jsonrpc": "2.0", "id": id_, "result": {}}), IDS),
    st.binary(max_size=20),
    HOSTILE_LINES,
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Bytes that were a conversation before some of them were lost, doubled or overwritten."""
    stream = b"".join(draw(st.lists(REQUESTS.map(line) | NOISE, max_size=8)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(stream)))
        end = draw(st.integers(start, min(len(stream), start + 40)))
        middle = draw(st.sampled_from([b"", b"\n", stream[start:end] * 2]) | st.binary(max_size=4))
        stream = stream[:start] + middle + stream[end:]
    return stream


def owed(written: bytes, *, batches: bool) -> list[object]:
    """The ids that the answers to a line must have; None where none can be read."""
    text = written.strip(b" \t\r\0").removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\0")
    if not text:
        return []
    if _depth(text) > NESTING_MAX:
        return [None]
    try:
        value = json.loads(text.decode(errors="surrogateescape"), strict=False, parse_int=_integer)
    except ValueError:
        return [None]
    if not isinstance(value, list):
        return list(_owed_to_message(value))
    if not batches or not 0 < len(value) <= REQUESTS_IN_FLIGHT_MAX:
        return [None]
    return [id_ for message in value for id_ in _owed_to_message(message)]


def _owed_to_message(message: object) -> Iterator[object]:
    if not isinstance(message, dict):
        yield None
        return
    is_message = message.get("jsonrpc") == "2.0"
    is_notification = isinstance(message.get("method"), str) and "id" not in message
    is_answer = "method" not in message and (
        "result" in message or isinstance(message.get("error"), dict)
    )
    if not is_message or not (is_notification or is_answer):
        yield _heard(message.get("id"))


def _heard(id_: object) -> object:
    """An id as it comes back, without half a surrogate pair; None for what is no id."""
    if isinstance(id_, float) and id_.is_integer():
        return int(id_)
    if isinstance(id_, bool) or not isinstance(id_, int | str):
        return None
    return (
        id_
        if isinstance(id_, int)
        else id_.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= 4300 else float("inf")


def _depth(text: bytes) -> int:
    """How deep JSON text is nested, read byte by byte."""
    deepest = depth = 0
    in_string = escaped = False
    for byte in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped, in_string = byte == ord("\\"), byte != ord('"')
        elif byte == ord('"'):
            in_string = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def answered(messages: list[Any]) -> Counter[str]:
    flat = [each for item in messages for each in (item if isinstance(item, list) else [item])]
    return Counter(repr(answer["id"]) for answer in flat)


@proves("LINE-12")
@settings(max_examples=400)
@given(st.sampled_from(OPENINGS), streams())
def test_each_request_has_exactly_one_answer(opening: list[object], stream: bytes) -> None:
    answers = conversation(example(), *opening, stream)  # which judges every line
    due: Counter[str] = Counter()
    unreadable = 0
    batches = opening == OPENINGS[1]
    for written in [*map(line, opening), *stream.split(b"\n")]:
        ids = owed(written.rstrip(b"\n"), batches=batches)
        due.update(map(repr, ids))
        unreadable += ids == [None]
    if unreadable > PARSE_ERRORS_ANSWERED_MAX:
        del due["None"]
    told = answered(answers)
    # An id in use again before its answer is refused, and the refusal has no id.
    assert all(told[id_] <= times for id_, times in due.items() if id_ != "None")
    assert all(told[id_] >= 1 for id_ in due)
    if unreadable <= PARSE_ERRORS_ANSWERED_MAX:
        assert told.total() == due.total()


@proves("LINE-11")
@settings(max_examples=200)
@given(st.sampled_from(OPENINGS), streams(), st.lists(st.integers(0, 400), max_size=8))
def test_how_a_stream_is_cut_changes_nothing(
    opening: list[object], stream: bytes, cuts: list[int]
) -> None:
    places = [0, *sorted(min(place, len(stream)) for place in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(places)]
    whole = conversation(example(), *opening, stream)
    assert answered(conversation(example(), *opening, *pieces)) == answered(whole)


@proves("LINE-05")
@settings(max_examples=100)
@given(st.lists(REQUESTS, min_size=1, max_size=4), st.data())
def test_a_broken_line_costs_no_other(messages: list[Any], data: st.DataObject) -> None:
    broken = line(data.draw(st.sampled_from(messages)))
    cut = data.draw(st.integers(1, len(broken) - 2))
    whole = conversation(example(), *messages)
    assert conversation(example(), broken[:cut] + b"\n", *messages)[1:] == whole


@proves("LINE-14", "PROC-10")
@pytest.mark.parametrize("kind", ["example", "convmem"])
def test_a_process_outlives_all_that_it_hears(kind: str, tmp_path: Path) -> None:
    ours = (sys.executable, "-m", "convmem", "serve", "--data-dir", str(tmp_path))
    numbers = count()
    with ServerProcess(command=EXAMPLE if kind == "example" else ours) as server:

        @settings(max_examples=100)
        @given(streams())
        def hears(stream: bytes) -> None:
            mine = f"still there {next(numbers)}"
            server.send(stream, b"\n", request("ping", id_=mine))
            while not _is_answer(server.next(), mine):
                pass

        hears()
        server.stdin.close()
        assert server.rest() == []
        assert server.ends() == (0, "")


def _is_answer(message: Any, id_: str) -> bool:
    assert message is not None, "the server has ended"
    return isinstance(message, dict) and message.get("id") == id_
