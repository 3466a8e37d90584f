"""What a server answers to what a host may send, row by row.

Each row is one conversation over a transport in memory: lines in, every message out, judged
by the strict rules of ``wire``. The rows follow the edges that hosts and the official
implementations are known for; each name begins with what the row proves (``requirements``).
"""

import json

import pytest

from convmem.protocol import (
    HANDSHAKE_VERSIONS,
    LINE_BYTES_MAX,
    NESTING_MAX,
    REPLY_BYTES_MAX,
)

from .checks import Check, agrees, error, refuses, result, says
from .example import example
from .wire import MODERN_META, call, cancel, conversation, initialize, line, request


def nested(depth: int) -> bytes:
    """A call whose line has this depth."""
    inner = b"[" * (depth - 3) + b"]" * (depth - 3)
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"say","arguments":{"text":"x","more":' + inner + b"}}}\n"
    )


PING = request("ping", id_=9)
PONG = result(9, {})
UTF16 = json.dumps(PING).encode("utf-16-le") + "\n".encode("utf-16-le")
OLD = initialize("2025-03-26")

# name: lines in, checks on what comes out
ROWS: dict[str, tuple[list[object], list[Check]]] = {
    # lines
    "LINE-05 garbage": ([b"garbage\n", PING], [error(-32700), PONG]),
    "LINE-05 two objects on a line": ([b"{}{}\n", PING], [error(-32700), PONG]),
    "LINE-03 blank lines": ([b"\n  \n\t\r\n", PING], [PONG]),
    "LINE-02 CRLF": ([json.dumps(PING).encode() + b"\r\n"], [PONG]),
    "LINE-01 a carriage return inside": ([b'{"jsonrpc":"2.0",\r"id":9,"method":"ping"}\n'], [PONG]),
    "LINE-04 byte order mark": ([b"\xef\xbb\xbf" + line(PING)], [PONG]),
    "LINE-04 byte order mark on a later line": ([PING, b"\xef\xbb\xbf" + line(PING)], [PONG, PONG]),
    "LINE-05 UTF-16": ([UTF16, PING], [error(-32700), PONG]),
    "LINE-07 no end of line at the end": ([json.dumps(PING).encode()], [PONG]),
    "LINE-08 a line at the limit": ([line(PING)[:-1].ljust(LINE_BYTES_MAX) + b"\n"], [PONG]),
    "LINE-08 a line over the limit": (
        [line(PING)[:-1].ljust(LINE_BYTES_MAX + 1) + b"\n", PING],
        [error(-32600), PONG],
    ),
    "LINE-09 nesting at the limit": ([nested(NESTING_MAX)], [says("x")]),
    "LINE-09 nesting over the limit": ([nested(NESTING_MAX + 1), PING], [error(-32600), PONG]),
    "LINE-09 nesting far over the limit": ([nested(100_000), PING], [error(-32600), PONG]),
    "LINE-09 brackets in a string are no nesting": (
        [call("say", {"text": '[{"\\' * 200})],
        [says('[{"\\' * 200)],
    ),
    # messages
    "MSG-01 a number": ([b"42\n"], [error(-32600)]),
    "MSG-01 a string": ([b'"x"\n'], [error(-32600)]),
    "MSG-01 an empty array": ([b"[]\n"], [error(-32600)]),
    "MSG-01 an empty object": ([b"{}\n"], [error(-32600)]),
    "MSG-01 no jsonrpc": ([b'{"id":1,"method":"ping"}\n'], [error(-32600, 1)]),
    "MSG-01 jsonrpc 1.0": ([b'{"jsonrpc":"1.0","id":"a","method":"ping"}\n'], [error(-32600, "a")]),
    "MSG-01 method is a number": ([request("ping") | {"method": 1}], [error(-32600, 1)]),
    "MSG-02 id null": ([request("ping", id_=None)], [error(-32600)]),
    "MSG-02 id 1.5": ([request("ping", id_=1.5)], [error(-32600)]),
    "MSG-02 id true": ([request("ping", id_=True)], [error(-32600)]),
    "MSG-02 id {}": ([request("ping", id_={})], [error(-32600)]),
    "MSG-02 id of 5000 digits": (
        [b'{"jsonrpc":"2.0","method":"ping","id":' + b"9" * 5000 + b"}\n"],
        [error(-32600)],
    ),
    "MSG-02 id far too long": ([request("ping", id_="x" * 70_000)], [error(-32600)]),
    "MSG-03 id 1.0": ([request("ping", id_=1.0)], [result(1, {})]),
    "MSG-03 id empty": ([request("ping", id_="")], [result("", {})]),
    "MSG-03 id negative": ([request("ping", id_=-5)], [result(-5, {})]),
    "MSG-03 id beyond 2^53": ([request("ping", id_=2**70)], [result(2**70, {})]),
    "MSG-04 ids 1 and '1'": (
        [request("ping", id_=1), request("ping", id_="1")],
        [result(1, {}), result("1", {})],
    ),
    "MSG-05 an id used again": ([PING, PING], [PONG, PONG]),
    "MSG-11 id with a lone surrogate": ([request("ping", id_="\ud800")], [result("\ufffd", {})]),
    "MSG-11 id with an escaped backslash": (
        [request("ping", id_="\\ud800")],
        [result("\\ud800", {})],
    ),
    "MSG-06 params null": ([request("ping") | {"params": None}], [result(1, {})]),
    "MSG-07 params array": ([request("ping", [1])], [error(-32602, 1)]),
    "MSG-07 params string": ([request("ping", "x")], [error(-32602, 1)]),
    "MSG-08 unknown key": ([request("ping") | {"extra": 1}], [result(1, {})]),
    "MSG-09 unknown method": ([request("no/such")], [error(-32601, 1)]),
    "MSG-09 method with a lone surrogate": ([request("\udfff")], [error(-32601, 1)]),
    "MSG-09 methods of other capabilities": (
        [request("logging/setLevel", id_=1), request("resources/read", id_=2)],
        [error(-32601, 1), error(-32601, 2)],
    ),
    "LIST-03 lists that hosts ask for anyway": (
        [
            request("resources/list", id_=1),
            request("resources/templates/list", {}, 2),
            request("prompts/list", id_=3),
        ],
        [
            result(1, {"resources": []}),
            result(2, {"resourceTemplates": []}),
            result(3, {"prompts": []}),
        ],
    ),
    "MSG-10 nothing to answer": (
        [
            {"jsonrpc": "2.0", "method": "notifications/unknown"},
            {"jsonrpc": "2.0", "method": "notifications/initialized", "params": [1]},
            {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "say"}},
            {"jsonrpc": "2.0", "id": 4, "result": {}},
            {"jsonrpc": "2.0", "id": 4, "result": None},
            {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "x"}},
            {"jsonrpc": "2.0", "id": 4, "error": "odd"} | {"result": 1},
            cancel(77),
            cancel("77"),
            cancel(None),
            cancel([]),
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
            PING,
        ],
        [PONG],
    ),
    # lifecycle
    "LIFE-06 ping before initialize": ([PING, OLD], [PONG, agrees("2025-03-26")]),
    "LIFE-06 tools/list before initialize": ([request("tools/list")], [result(1)]),
    "LIFE-07 a call before initialized": (
        [initialize("2025-11-25"), call("say", {"text": "x"})],
        [agrees("2025-11-25"), says("x")],
    ),
    "LIFE-05 initialize twice": (
        [initialize("2024-11-05"), initialize("2025-06-18")],
        [agrees("2024-11-05"), agrees("2025-06-18")],
    ),
    **{
        f"LIFE-01 initialize with {version}": ([initialize(version)], [agrees(version)])
        for version in HANDSHAKE_VERSIONS
    },
    **{
        f"LIFE-02 initialize with {version!r}": ([initialize(version)], [agrees("2025-11-25")])
        for version in ("banana", "", "2026-07-28", "2099-01-01", "2024-10-07")
    },
    "LIFE-03 initialize with a number": ([initialize(20251125)], [error(-32602, 0)]),
    "LIFE-03 initialize without version": ([request("initialize", {}, 0)], [error(-32602, 0)]),
    "LIFE-03 initialize without params": ([request("initialize", None, 0)], [error(-32602, 0)]),
    "LIFE-04 initialize with odd clientInfo": (
        [initialize("2025-11-25", clientInfo=value) for value in (None, 1, {}, {"name": 1})],
        [agrees("2025-11-25")] * 4,
    ),
    # modern
    "ERA-03 discover without _meta": ([request("server/discover")], [error(-32602, 1)]),
    "ERA-01 discover, then initialize": (
        [request("server/discover", {"_meta": MODERN_META}), initialize("2025-06-18"), PING],
        [result(1), agrees("2025-06-18"), PONG],
    ),
    "ERA-01 initialize, then modern, then handshake": (
        [OLD, request("ping", {"_meta": MODERN_META}), PING],
        [agrees("2025-03-26"), error(-32601, 1), PONG],
    ),
    "ERA-06 initialize is not of the modern era": (
        [OLD, request("initialize", {"_meta": MODERN_META}), PING],
        [agrees("2025-03-26"), error(-32601, 1), PONG],
    ),
    "ERA-01 initialize with _meta that names a revision": (
        [initialize("2025-06-18", _meta=MODERN_META)],
        [agrees("2025-06-18")],
    ),
    "ERA-03 modern without capabilities": (
        [
            request(
                "tools/list",
                {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}},
            )
        ],
        [error(-32602, 1)],
    ),
    "ERA-03 modern version is a number": (
        [request("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": 1}})],
        [error(-32602, 1)],
    ),
    "ERA-03 discover is not of the handshake": (
        [OLD, request("server/discover")],
        [result(0), error(-32602, 1)],
    ),
    # calls
    "CALL-01 unknown tool": ([call("nosuch")], [error(-32602, 1)]),
    "CALL-01 unknown tool with a long odd name": ([call("\ud800" * 2_000_000)], [error(-32602, 1)]),
    "CALL-01 no tool name": ([request("tools/call", {})], [error(-32602, 1)]),
    "CALL-02 arguments wrong": ([call("say", {"text": 5})], [refuses("INVALID_ARGUMENT")]),
    "CALL-04 arguments absent": (
        [request("tools/call", {"name": "say"})],
        [refuses("INVALID_ARGUMENT")],
    ),
    "CALL-04 arguments null": (
        [request("tools/call", {"name": "none", "arguments": None})],
        [
            result(
                1,
                {
                    "content": [{"type": "text", "text": "{}"}],
                    "structuredContent": {},
                    "isError": False,
                },
            )
        ],
    ),
    "CALL-05 arguments as JSON text": ([call("say", '{"text":"x"}')], [says("x")]),
    "CALL-02 arguments as other text": ([call("say", "x")], [refuses("INVALID_ARGUMENT")]),
    "CALL-06 unknown argument": ([call("say", {"text": "x", "more": 1})], [says("x")]),
    "LINE-10 bytes that are not UTF-8": (
        [line(call("say", {"text": "?"})).replace(b"?", b"\xff")],
        [refuses("INVALID_ARGUMENT")],
    ),
    "CALL-11 a lone surrogate": ([call("say", {"text": "a\ud800"})], [refuses("INVALID_ARGUMENT")]),
    "LINE-13 a raw tab and NUL": (
        [line(call("say", {"text": "?"})).replace(b"?", b"\t\0")],
        [says("\t\0")],
    ),
    "LINE-01 raw line separators": (
        [line(call("say", {"text": "?"})).replace(b"?", "\u2028\u0085".encode())],
        [says("\u2028\u0085")],
    ),
    "CALL-10 NaN": (
        [call("say", {"text": "x", "times": float("nan")})],
        [refuses("INVALID_ARGUMENT")],
    ),
    "CALL-10 1e999": (
        [line(call("say", {"text": "x", "times": 7})).replace(b"7", b"1e999")],
        [refuses("INVALID_ARGUMENT")],
    ),
    "CALL-10 5000 digits": (
        [line(call("say", {"text": "x", "times": 7})).replace(b"7", b"9" * 5000)],
        [refuses("INVALID_ARGUMENT")],
    ),
    "CALL-03 the tool refuses": ([call("fail", {"how": "politely"})], [refuses("CONFLICT")]),
    "CALL-03 the tool breaks": ([call("fail", {"how": "badly"})], [refuses("INTERNAL")]),
    "CALL-03 the tool says it was cancelled": (
        [call("fail", {"how": "cancelled"})],
        [refuses("INTERNAL")],
    ),
    "CALL-12 the result is not JSON": ([call("fail", {"how": "no json"})], [refuses("INTERNAL")]),
    "CALL-12 the result is not finite": (
        [call("fail", {"how": "not a number"})],
        [refuses("INTERNAL")],
    ),
    "CALL-12 the answer is too long": (
        [call("fill", {"size": REPLY_BYTES_MAX // 2})],
        [refuses("LIMIT_EXCEEDED")],
    ),
    "LIST-02 cursor of another list": (
        [request("tools/list", {"cursor": "x"})],
        [error(-32602, 1)],
    ),
    "LIST-01 cursor null": ([request("tools/list", {"cursor": None})], [result(1)]),
    "LIST-02 cursor empty": ([request("tools/list", {"cursor": ""})], [error(-32602, 1)]),
}


@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    sent, checks = ROWS[row]
    answers = conversation(example(), *sent)
    assert len(answers) == len(checks), answers
    for answer, check in zip(answers, checks, strict=True):
        assert check(answer), answer
