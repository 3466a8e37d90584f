"""Servers that are odd on purpose. ``python -m tests.protocol.fakes KIND`` is one.

Each is written by hand, with nothing of the library under test.
"""

import json
import os
import signal
import subprocess
import sys
from typing import Any


def say(message: Any) -> None:
    data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def answer(id_: Any, result: Any) -> None:
    say({"jsonrpc": "2.0", "id": id_, "result": result})


def heard() -> Any:
    """The next message. The end of the input ends the server."""
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def refuse(id_: Any, code: int, **data: Any) -> None:
    error = {"code": code, "message": "no"} | ({"data": data} if data else {})
    say({"jsonrpc": "2.0", "id": id_, "error": error})


def greet(version: str = "2025-11-25", **more: Any) -> None:
    """As a server that has not heard of ``server/discover``."""
    hello = heard()
    if hello["method"] == "server/discover":
        refuse(hello["id"], -32601)
        hello = heard()
    assert hello["method"] == "initialize"
    server = {"name": "fake", "version": "7"}
    result = {"protocolVersion": version, "capabilities": {}, "serverInfo": server}
    answer(hello["id"], result | more)
    assert heard() == {"jsonrpc": "2.0", "method": "notifications/initialized"}


def discovered(id_: Any, *versions: str) -> None:
    who = {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "8"}}
    answer(id_, {"resultType": "complete", "supportedVersions": versions, "_meta": who})


def echo() -> None:
    """Answers every request with what it asked."""
    while True:
        message = heard()
        if "id" in message:
            answer(message["id"], {"heard": message})


def silent() -> None:
    while True:
        heard()


def mute() -> None:
    """Answers only a report, with all it heard before, after answering that too, late."""
    greet()
    told = []
    while (message := heard()).get("method") != "report":
        told.append(message)
    for late in told:
        if "id" in late:
            answer(late["id"], {"late": True})
    answer(message["id"], {"told": told})
    silent()


def modern() -> None:
    """Speaks the modern era; asks what a server must not, and waits for an answer in vain."""
    discovered(heard()["id"], "2026-07-28", "2099-01-01")
    say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    echo()


def other_version() -> None:
    """Does not speak the first version it is asked for, until it is asked again."""
    refuse(heard()["id"], -32022, supported=["2026-07-28"], requested="?")
    modern()


def later_version() -> None:
    """Knows discovery, but no modern version of ours."""
    refuse(heard()["id"], -32022, supported=["2099-01-01"])
    greet()
    echo()


def without_version() -> None:
    discovered(heard()["id"], "2099-01-01")
    greet()
    echo()


def shy() -> None:
    """Says nothing before it knows who is there, as some old servers."""
    assert heard()["method"] == "server/discover"
    greet()
    echo()


def nervous() -> None:
    """Leaves when the first request is not the one it knows."""
    hello = heard()
    if hello["method"] != "initialize":
        sys.exit("expected initialize")
    answer(hello["id"], {"protocolVersion": "2025-06-18", "capabilities": {}})
    heard()
    echo()


def demanding() -> None:
    """Requires input three times over, with and without a state, then gives what it heard."""
    discovered(heard()["id"], "2026-07-28")
    told = []
    for state in ({"requestState": "s1"}, {}, {"requestState": ""}):
        request = heard()
        told.append(request)
        wanted = {"a": {"method": "roots/list"}, "b": {"method": "roots/list", "params": {"n": 1}}}
        answer(request["id"], {"resultType": "input_required", "inputRequests": wanted} | state)
    request = heard()
    answer(request["id"], {"resultType": "complete", "told": [*told, request]})
    silent()


def insatiable() -> None:
    discovered(heard()["id"], "2026-07-28")
    while True:
        answer(heard()["id"], {"resultType": "input_required", "requestState": "again"})


def noisy() -> None:
    greet()
    say(b"Starting...\n\n\xff\xfe\n[]\n42\n{}\n\xef\xbb\xbf\n")
    say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}})
    say({"jsonrpc": "2.0", "id": 999, "result": {}})
    say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "you?"}})
    message = heard()
    reply = {"jsonrpc": "2.0", "id": str(message["id"]), "result": {"heard": message}}
    say(b"\xef\xbb\xbf" + json.dumps(reply).encode() + b"\r\n")
    echo()


def asking() -> None:
    """Asks the client, and gives as its own answer what it was told."""
    greet()
    request = heard()
    say({"jsonrpc": "2.0", "id": "p", "method": "ping"})
    first = heard()
    told = [first]
    for method in ("roots/list", "sampling/createMessage", "elicitation/create"):
        say({"jsonrpc": "2.0", "id": 5, "method": method, "params": {"n": 1}})
        told.append(heard())
    answer(request["id"], {"told": told})
    silent()


def paged() -> None:
    greet()
    pages: dict[Any, Any] = {None: ("a", ""), "": ("b", "x"), "x": ("c", "x")}
    while True:
        request = heard()
        name, cursor = pages[request.get("params", {}).get("cursor")]
        answer(request["id"], {"tools": [{"name": name}], "nextCursor": cursor})


def reporting() -> None:
    greet()
    request = heard()
    token = request["params"]["_meta"]["progressToken"]
    for progress in ({"progress": 1, "total": 4, "message": "so far"}, {"progress": 2.5}):
        params = {"progressToken": token} | progress
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    say({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 77}})
    answer(request["id"], {"content": [{"type": "text", "text": "done"}]})
    silent()


def lavish() -> None:
    """Answers with a line longer than any server of ours may send, not all of it UTF-8."""
    greet()
    text = b"z" * 17_000_000 + b"\xff"
    content = b'{"content":[{"type":"text","text":"%b"}]}' % text
    say(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (heard()["id"], content))
    silent()


def failing() -> None:
    greet()
    error = {"code": -32602, "message": "Unknown tool", "data": {"name": "x"}}
    say({"jsonrpc": "2.0", "id": heard()["id"], "error": error})
    say({"jsonrpc": "2.0", "id": heard()["id"], "result": None})
    silent()


def dying() -> None:
    greet()
    heard()
    sys.stderr.write("x" * 100_000 + "last words")
    sys.stderr.flush()
    os._exit(3)


def chatty() -> None:
    """Fills stderr, which only a client that drains it survives."""
    greet()
    while True:
        sys.stderr.write("y" * 100)
        sys.stderr.flush()
        answer(heard()["id"], {})


def wordless() -> None:
    sys.exit("no credentials")


def future() -> None:
    greet(version="2099-01-01")


def stubborn() -> None:
    """Ignores the end of its input and SIGTERM, and has a child that does the same."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    greet(instructions=str(child.pid))
    while True:
        signal.pause()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
