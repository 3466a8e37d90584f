"""What a server promises beyond single answers: full shapes, progress, cancellation, limits."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from convmem.protocol import PARSE_ERRORS_ANSWERED_MAX, REQUESTS_IN_FLIGHT_MAX, Server, Tool

from .checks import error, result, says
from .example import TOOLS, example
from .requirements import proves
from .wire import (
    HANDSHAKE_2025_11,
    MODERN_META,
    Json,
    call,
    cancel,
    conversation,
    initialize,
    request,
    served,
)

PING = request("ping", id_=9)
PONG = result(9, {})


def talk(*messages: object) -> list[Any]:
    return conversation(example(), *messages)


@proves("LIFE-08")
def test_the_handshake_in_full() -> None:
    assert talk(HANDSHAKE_2025_11) == [
        {
            "id": 0,
            "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": "example", "title": "Example", "version": "1.2.3"},
                "instructions": "Ask it.",
            },
        }
    ]


@proves("ERA-02")
def test_discovery_in_full() -> None:
    assert talk(request("server/discover", {"_meta": MODERN_META})) == [
        {
            "id": 1,
            "result": {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": False}},
                "instructions": "Ask it.",
                "ttlMs": 3_600_000,
                "cacheScope": "public",
                "_meta": {
                    "io.modelcontextprotocol/serverInfo": {
                        "name": "example",
                        "title": "Example",
                        "version": "1.2.3",
                    }
                },
            },
        }
    ]


@proves("ERA-04")
def test_an_unsupported_modern_version_names_the_supported_ones() -> None:
    meta = MODERN_META | {"io.modelcontextprotocol/protocolVersion": "1900-01-01"}
    (answer,) = talk(request("tools/list", {"_meta": meta}))
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": "1900-01-01"}


@proves("ERA-05")
@pytest.mark.parametrize("method", ["tools/list", "resources/list", "prompts/list", "tools/call"])
def test_a_modern_result_carries_what_its_clients_demand(method: str) -> None:
    params = {"name": "say", "arguments": {"text": "x"}, "_meta": MODERN_META}
    (answer,) = talk(request(method, params))
    assert answer["result"]["resultType"] == "complete"
    assert (
        ("ttlMs" in answer["result"])
        is ("cacheScope" in answer["result"])
        is (method != "tools/call")
    )


@proves("LIFE-09", "LIST-01")
@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("2024-11-05", {"name", "description", "inputSchema"}),
        ("2025-03-26", {"name", "description", "inputSchema", "annotations"}),
        (
            "2025-06-18",
            {"name", "title", "description", "inputSchema", "outputSchema", "annotations"},
        ),
    ],
)
def test_a_list_has_the_fields_of_its_revision(version: str, fields: set[str]) -> None:
    _, answer = talk(initialize(version), request("tools/list"))
    assert set(answer["result"]["tools"][0]) == fields
    assert [tool["name"] for tool in answer["result"]["tools"]][:2] == ["say", "fail"]
    assert "nextCursor" not in answer["result"]


@proves("CALL-07")
def test_text_and_structure_each_hold_the_whole_result() -> None:
    text = 'ü\U0001f600\u2028"\\'
    _, answer = talk(HANDSHAKE_2025_11, call("say", {"text": text}))
    expected = {"said": text, "client": "wire"}
    assert answer["result"] == {
        "content": [
            {
                "type": "text",
                "text": json.dumps(expected, ensure_ascii=False, separators=(",", ":")),
            }
        ],
        "structuredContent": expected,
        "isError": False,
    }


@proves("LIFE-09")
def test_old_revisions_get_text_only() -> None:
    _, answer = talk(initialize("2025-03-26"), call("say", {"text": "x"}))
    assert set(answer["result"]) == {"content", "isError"}


def test_details_of_a_refusal_are_for_programs() -> None:
    (answer,) = talk(call("fail", {"how": "politely"}))
    assert answer["result"]["content"][0]["text"] == (
        "CONFLICT: it is 3 by now: read it again\n"
        '{"error":{"code":"CONFLICT","message":"it is 3 by now: read it again","revision":3}}'
    )


@proves("CALL-03")
def test_an_unexpected_exception_gives_nothing_away() -> None:
    (answer,) = talk(call("fail", {"how": "badly"}))
    text = answer["result"]["content"][0]["text"]
    assert "secret" not in text
    assert "ValueError" in text


def test_every_call_is_reported_with_what_ended_it() -> None:
    calls: list[tuple[str, str]] = []
    server = example(lambda name, took_s, raised: calls.append((name, str(raised))))
    conversation(server, call("say", {"text": "x"}), call("fail", {"how": "badly"}), call("say"))
    assert calls == [("say", "None"), ("fail", "the secret"), ("say", "text: required")]


def test_a_log_that_fails_costs_no_answer() -> None:
    def full(name: str, took_s: float, raised: BaseException | None) -> None:
        raise OSError("the disk is full")

    (answer,) = conversation(example(full), call("say", {"text": "x"}))
    assert says("x")(answer)


@proves("LINE-06")
def test_unreadable_lines_are_answered_only_so_often() -> None:
    answers = talk(*[b"noise\n"] * (PARSE_ERRORS_ANSWERED_MAX + 5), PING)
    assert [answer["id"] for answer in answers] == [None] * PARSE_ERRORS_ANSWERED_MAX + [9]


@proves("MSG-05")
def test_an_id_in_flight_is_refused_and_free_again_after_its_answer() -> None:
    async def scenario() -> None:
        async with served(example()) as peer:
            peer.send(call("wait", {"seconds": 0.05}, 5), call("say", {"text": "x"}, 5))
            assert error(-32600)(await peer.next())
            assert result(5, None)(await peer.next())
            peer.send(call("say", {"text": "x"}, 5))
            assert says("x", 5)(await peer.next())

    asyncio.run(scenario())


@proves("CANCEL-01", "CANCEL-02")
def test_a_cancelled_call_gets_no_answer_and_its_id_is_free() -> None:
    async def scenario() -> None:
        async with served(example()) as peer:
            peer.send(call("wait", {"seconds": 100}, 5), cancel("5"), cancel(5))
            peer.send(call("say", {"text": "x"}, 5), PING)
            assert says("x", 5)(await peer.next())
            assert PONG(await peer.next())

    asyncio.run(scenario())


@proves("PROG-01", "PROG-02", "PROG-03")
def test_progress_rises_starts_late_and_stops_before_the_end() -> None:
    tokens: dict[int, object] = {1: 0, 2: "", 3: "t", 4: 1.5, 5: None, 6: {}, 7: True}

    async def scenario() -> dict[int, list[Json]]:
        told: dict[int, list[Json]] = {id_: [] for id_ in tokens}
        ids = {repr(token): id_ for id_, token in tokens.items()}
        async with served(example()) as peer:
            for id_, token in tokens.items():
                peer.send(call("wait", {"seconds": 2.1}, id_, progressToken=token))
            unanswered = set(tokens)
            while unanswered:
                message = await peer.next()
                if "result" in message:
                    unanswered.remove(message["id"])
                else:
                    assert message["method"] == "notifications/progress"
                    params = message["params"]
                    id_ = ids[repr(params.pop("progressToken"))]
                    assert id_ in unanswered, "progress after the answer"
                    told[id_].append(params)
        return told

    heard = [
        {"progress": 5, "total": 10, "message": "half"},
        {"progress": 9, "total": 10, "message": "nearly"},
    ]
    assert asyncio.run(scenario()) == {id_: heard if id_ <= 3 else [] for id_ in tokens}


@proves("PROC-01")
def test_calls_in_flight_when_the_input_ends_are_finished() -> None:
    answers = talk(*(call("wait", {"seconds": 0.1}, n) for n in range(REQUESTS_IN_FLIGHT_MAX * 2)))
    assert sorted(answer["id"] for answer in answers) == list(range(REQUESTS_IN_FLIGHT_MAX * 2))


@proves("PROC-01")
def test_calls_that_do_not_end_are_given_up_when_the_input_ends() -> None:
    assert talk(call("wait", {"seconds": 100}), PING) == [{"id": 9, "result": {}}]


@proves("LIFE-10")
def test_tools_are_not_asked_for_before_they_are_needed() -> None:
    def forbidden() -> Iterator[Tool[Any]]:
        raise AssertionError("asked for the tools")
        yield

    server = Server("lazy", "Lazy", "1", forbidden())
    assert len(conversation(server, HANDSHAKE_2025_11, PING)) == 2


def test_two_tools_of_one_name_are_refused() -> None:
    server = Server("double", "Double", "1", [*TOOLS, TOOLS[0]])
    (answer,) = conversation(server, request("tools/list"))
    assert error(-32603, 1)(answer)
