"""What a server says unasked: log messages, changed resources, questions to the client."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from convmem.protocol import (
    SUBSCRIPTIONS_MAX,
    URI_CHARS_MAX,
    Call,
    ErrorCode,
    RequestFailed,
    Resource,
    RpcError,
    Server,
)

from .checks import error, result
from .example import example
from .raw import RawTool, text
from .requirements import proves
from .wire import (
    HANDSHAKE_2025_11,
    MODERN_META,
    Json,
    Peer,
    call,
    cancel,
    conversation,
    request,
    served,
)

URI, OTHER = "lib://all", "lib://other"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


async def log(params: Mapping[str, object], call: Call) -> Mapping[str, object]:
    await call.log("info", {"n": 1}, "store")
    await call.log("error", "two")
    return text("logged")


async def ask(params: Mapping[str, object], call: Call) -> Mapping[str, object]:
    try:
        answer = await call.ask("elicitation/create", {"message": "Sure?"})
    except RequestFailed as failed:
        return text(f"refused {failed.code}")
    return text(f"heard {answer['action']}")


async def demand(params: Mapping[str, object], call: Call) -> Mapping[str, object]:
    if "sampling" in call.client_capabilities:
        return {"resultType": "input_required", "inputRequests": {}}
    needed: Json = {"sampling": {}}
    raise RpcError(ErrorCode.MISSING_CAPABILITY, "needs sampling", {"requiredCapabilities": needed})


async def read(values: Mapping[str, str], call: Call) -> bytes:
    return b"\xff\x00"


def server(*, subscriptions: bool = True, logging: bool = True) -> Server:
    tools = [RawTool(name=reply.__name__, reply=reply) for reply in (log, ask, demand)]
    whole = Resource(
        uri=URI,
        name="all",
        title="All",
        description="All.",
        mime_type="application/octet-stream",
        read=read,
    )
    return Server(
        "lib",
        "Lib",
        "1",
        tools,
        resources=[whole],
        on_subscribe=(lambda: None) if subscriptions else None,
        logging=logging,
    )


def listen(id_: object, **notifications: object) -> Json:
    params = {"_meta": MODERN_META, "notifications": notifications}
    return request("subscriptions/listen", params, id_)


def converse(scenario: Callable[[Peer, Server], Awaitable[None]]) -> None:
    async def run() -> None:
        serving = server()
        async with served(serving) as peer:
            await scenario(peer, serving)

    asyncio.run(run())


def test_what_is_offered_is_announced() -> None:
    (answer,) = conversation(server(), HANDSHAKE_2025_11)
    assert answer["result"]["capabilities"] == {
        "tools": {"listChanged": False},
        "resources": {"subscribe": True, "listChanged": False},
        "completions": {},
        "logging": {},
    }


@proves("RES-03")
def test_bytes_are_read_as_base64() -> None:
    (answer,) = conversation(server(), request("resources/read", {"uri": URI}))
    assert answer["result"]["contents"] == [
        {"uri": URI, "mimeType": "application/octet-stream", "blob": "/wA="}
    ]


LOGGED_INFO = {"level": "info", "logger": "store", "data": {"n": 1}}
LOGGED_ERROR = {"level": "error", "data": "two"}


@proves("LOG-01", "LOG-02")
@pytest.mark.parametrize(
    ("level", "heard"),
    [
        (None, []),
        ("debug", [LOGGED_INFO, LOGGED_ERROR]),
        ("info", [LOGGED_INFO, LOGGED_ERROR]),
        ("warning", [LOGGED_ERROR]),
        ("emergency", []),
    ],
)
def test_logs_are_heard_from_the_level_asked_for(level: str | None, heard: list[Json]) -> None:
    levels = [] if level is None else [request("logging/setLevel", {"level": level}, 7)]
    handshake = conversation(server(), *levels, call("log"))
    assert [each["params"] for each in handshake if "method" in each] == heard
    key = "io.modelcontextprotocol/logLevel"
    meta = MODERN_META | ({} if level is None else {key: level})
    modern = conversation(server(), call("log", **meta))
    assert [each["params"] for each in modern if "method" in each] == heard
    assert "result" in modern[-1]


@proves("LOG-02")
def test_a_level_holds_for_its_era_and_request_only() -> None:
    levels = request("logging/setLevel", {"level": "debug"}, 7)
    assert len(conversation(server(), levels, call("log", **MODERN_META))) == 2


@proves("RES-04")
def test_subscribers_hear_of_changes_and_of_nothing_else() -> None:
    async def scenario(peer: Peer, server: Server) -> None:
        peer.send(request("resources/subscribe", {"uri": URI}))
        assert result(1, {})(await peer.next())
        server.resource_updated(OTHER)
        server.resource_updated(URI)
        server.resource_updated(URI)
        told = {"method": "notifications/resources/updated", "params": {"uri": URI}}
        assert await peer.next() == told
        peer.send(request("resources/unsubscribe", {"uri": URI}))
        assert result(1, {})(await peer.next())
        server.resource_updated(URI)
        assert await peer.end() == []

    converse(scenario)


@proves("RES-05")
def test_a_listener_is_acknowledged_told_and_answered_at_the_end() -> None:
    async def scenario(peer: Peer, server: Server) -> None:
        peer.send(listen(5, toolsListChanged=True, resourceSubscriptions=[URI]))
        assert await peer.next() == {
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "_meta": {SUBSCRIPTION: 5},
                "notifications": {"resourceSubscriptions": [URI]},
            },
        }
        peer.send(listen("x", promptsListChanged=True))
        assert (await peer.next())["params"] == {"_meta": {SUBSCRIPTION: "x"}, "notifications": {}}
        server.resource_updated(URI)
        told = await peer.next()
        assert told["params"] == {"_meta": {SUBSCRIPTION: 5}, "uri": URI}
        rest = {answer["id"]: answer["result"] for answer in await peer.end()}
        assert rest == {
            id_: {"resultType": "complete", "_meta": {SUBSCRIPTION: id_}} for id_ in (5, "x")
        }

    converse(scenario)


@proves("CANCEL-01")
def test_a_listener_that_is_cancelled_hears_nothing_more_and_its_id_is_free() -> None:
    async def scenario(peer: Peer, server: Server) -> None:
        peer.send(listen(5, resourceSubscriptions=[URI]))
        await peer.next()
        peer.send(listen(5), cancel(5), request("ping", id_=5))
        assert error(-32600)(await peer.next())
        assert result(5, {})(await peer.next())
        server.resource_updated(URI)
        assert await peer.end() == []

    converse(scenario)


def test_listeners_hold_up_no_requests() -> None:
    async def scenario(peer: Peer, server: Server) -> None:
        for id_ in range(200):
            peer.send(listen(id_))
            await peer.next()
        peer.send(request("ping", id_="p"))
        assert result("p", {})(await peer.next())

    converse(scenario)


@pytest.mark.parametrize("plain", [example(), server(subscriptions=False)])
def test_where_nothing_changes_listening_is_granted_nothing(plain: Server) -> None:
    ack, answer = conversation(plain, listen(1, resourceSubscriptions=[URI]))
    assert ack["params"]["notifications"] == {}
    assert result(1)(answer)


MANY = [f"lib://{n}" for n in range(SUBSCRIPTIONS_MAX)]
LONG = "x" * (URI_CHARS_MAX + 1)


@proves("LOG-03", "ERA-06", "ERA-07")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        (request("logging/setLevel", {"level": "loud"}), -32602),
        (request("logging/setLevel"), -32602),
        (request("logging/setLevel", {"level": "info", "_meta": MODERN_META}), -32601),
        (request("resources/subscribe"), -32602),
        (request("resources/subscribe", {"uri": LONG}), -32602),
        (request("resources/subscribe", {"uri": URI, "_meta": MODERN_META}), -32601),
        (request("resources/unsubscribe", {"uri": 5}), -32602),
        (request("subscriptions/listen", {"notifications": {}}), -32601),
        (request("subscriptions/listen", {"_meta": MODERN_META}), -32602),
        (listen(1, resourceSubscriptions=URI), -32602),
        (listen(1, resourceSubscriptions=[5]), -32602),
        (listen(1, resourceSubscriptions=MANY), -32602),
        (call("demand", **MODERN_META), -32021),
    ],
)
def test_requests_that_cannot_be_granted(message: Json, code: int) -> None:
    (answer,) = conversation(server(), message)
    assert error(code, 1)(answer)


@proves("RES-08")
def test_subscriptions_are_bounded() -> None:
    messages = [
        request("resources/subscribe", {"uri": uri}, id_) for id_, uri in enumerate([*MANY, URI])
    ]
    answers = conversation(server(), *messages, request("resources/subscribe", {"uri": MANY[0]}))
    assert [answer["id"] for answer in answers if "error" in answer] == [SUBSCRIPTIONS_MAX]


@proves("MSG-09")
@pytest.mark.parametrize(
    "method", ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
def test_what_is_not_offered_is_no_method(method: str) -> None:
    plain = server(subscriptions=False, logging=False)
    (answer,) = conversation(plain, request(method, {"level": "info", "uri": URI}))
    assert error(-32601, 1)(answer)


@proves("ASK-01")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"result": {"action": "accept"}}, "heard accept"),
        ({"error": {"code": -1, "message": "no"}}, "refused -1"),
    ],
)
def test_a_client_is_asked_and_answers(answer: Json, said: str) -> None:
    async def scenario(peer: Peer, server: Server) -> None:
        peer.send(call("ask", id_=7))
        asked = await peer.next()
        assert asked["method"] == "elicitation/create"
        assert asked["params"] == {"message": "Sure?"}
        peer.send({"jsonrpc": "2.0", "id": "other", "result": {}})
        peer.send({"jsonrpc": "2.0", "id": asked["id"]} | answer)
        assert result(7, text(said))(await peer.next())

    converse(scenario)


@proves("ASK-02")
def test_a_call_cancelled_while_it_asks_withdraws_its_question() -> None:
    async def scenario(peer: Peer, server: Server) -> None:
        peer.send(call("ask", id_=7))
        asked = await peer.next()
        peer.send(cancel(7))
        withdrawn = await peer.next()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == asked["id"]
        assert await peer.end() == []

    converse(scenario)


@proves("ERA-08", "ERA-09")
def test_a_modern_client_is_not_asked_but_told_what_is_required() -> None:
    (answer,) = conversation(server(), call("ask", **MODERN_META))
    assert answer["result"]["content"][0]["text"] == "refused -32601"
    able: Any = MODERN_META | {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
    (answer,) = conversation(server(), call("demand", **able))
    assert answer["result"]["resultType"] == "input_required"


@proves("OUT-05")
@pytest.mark.parametrize("method", ["resources/read", "server/discover"])
def test_an_error_too_long_for_a_line_is_a_short_one(method: str) -> None:
    long = "x" * 9_000_000
    version = {"io.modelcontextprotocol/protocolVersion": long}
    params = {"uri": long} if method == "resources/read" else {"_meta": version}
    (answer,) = conversation(server(), request(method, params))
    assert error(-32603, 1)(answer)
