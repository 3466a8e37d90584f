"""Lines and messages: each codec case both ways, each stream read however it is cut."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.protocol import (
    ErrorResponse,
    LineReader,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    encode,
)

from .requirements import proves

# A message and its line; each must come of the other.
CASES: list[tuple[Message, bytes]] = [
    (Request(1, "ping", {}), b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'),
    (
        Request("a", "tools/call", {"name": "x"}),
        b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x"}}\n',
    ),
    (Notification("n", {}), b'{"jsonrpc":"2.0","method":"n"}\n'),
    (Notification("n", {"a": [1]}), b'{"jsonrpc":"2.0","method":"n","params":{"a":[1]}}\n'),
    (Response(1, {}), b'{"jsonrpc":"2.0","id":1,"result":{}}\n'),
    (
        Response("", {"text": "\u00e9\u2028\U0001f600"}),
        rb'{"jsonrpc":"2.0","id":"","result":{"text":"\u00e9\u2028\ud83d\ude00"}}' + b"\n",
    ),
    (
        ErrorResponse(None, -32700, "bad"),
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}\n',
    ),
    (
        ErrorResponse(2**70, -1, "bad", {"a": 1}),
        b'{"jsonrpc":"2.0","id":1180591620717411303424,'
        b'"error":{"code":-1,"message":"bad","data":{"a":1}}}\n',
    ),
]


@pytest.mark.parametrize(("message", "line"), CASES, ids=repr)
def test_a_message_and_its_line_come_of_each_other(message: Message, line: bytes) -> None:
    assert encode(message) == line
    assert decode(line[:-1]) == message
    assert decode(b"\xef\xbb\xbf " + line[:-1] + b"\r") == message


@proves("LINE-11")
def test_a_stream_is_read_the_same_however_it_is_cut() -> None:
    stream = b"".join(line for _, line in CASES)
    lines = [line[:-1] for _, line in CASES]
    assert LineReader().feed(stream) == lines
    reader = LineReader()
    assert [line for byte in stream for line in reader.feed(bytes([byte]))] == lines
    assert reader.close() == []
    assert reader.feed(stream + b"begun") == lines
    assert reader.close() == [b"begun"]


@proves("LINE-01", "LINE-08")
@given(st.lists(st.binary(max_size=12).map(lambda data: data[:9] + b"\n" * (data[9:] > b"a"))))
def test_lines_depend_on_the_stream_alone(pieces: list[bytes]) -> None:
    limit = 6
    reader = LineReader(limit)
    lines: list[bytes | None] = [line for piece in pieces for line in reader.feed(piece)]
    lines += reader.close()
    *whole, rest = b"".join(pieces).split(b"\n")
    ended = whole + ([rest] if rest else [])
    assert lines == [line if len(line) <= limit else None for line in ended]


# Half a pair in every neighbourhood that escaped JSON text can give it.
PARTS = st.sampled_from(
    ["\ud800", "\udbff", "\udc00", "\udfff", "\\", "\\ud800", '"', "u", "é", "😀"]
)


@proves("OUT-02")
@settings(max_examples=500)
@given(st.lists(PARTS).map("".join))
def test_no_lone_surrogate_leaves_and_nothing_else_changes(text: str) -> None:
    line = encode(Notification("n", {"text": text}))
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(line)["params"]["text"] == paired


@proves("OUT-03")
@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), object(), {1: {2}}],
    ids=["nan", "infinity", "object", "set"],
)
def test_what_is_not_json_is_not_sent(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        encode(Response(1, {"value": value}))


@given(st.binary())
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
LOOSE = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.just("ping") | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)


@given(LOOSE)
def test_what_is_read_can_be_written_and_read_again(value: dict[str, Any]) -> None:
    read = decode(json.dumps(value).encode())
    assert read is not None
    assert not isinstance(read, list)
    if not isinstance(read, Malformed):
        try:
            line = encode(read)
        except ValueError:  # an infinite number came in and must not go out
            return
        assert decode(line) == read
