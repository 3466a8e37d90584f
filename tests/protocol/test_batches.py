"""Batches: arrays of messages, which exactly one revision has."""

from typing import Any

import pytest

from convmem.protocol import REPLY_BYTES_MAX, REQUESTS_IN_FLIGHT_MAX

from .example import example
from .requirements import proves
from .wire import call, cancel, conversation, initialize, request

OLD = initialize("2025-03-26")
PING = request("ping", id_=9)
NOTE = {"jsonrpc": "2.0", "method": "x"}

# name: the batch, and of the one array that answers: each id with its error code
ROWS: dict[str, tuple[list[object], list[tuple[object, int | None]]]] = {
    "BATCH-01 requests and a notification": (
        [PING, NOTE, call("say", {"text": "b"})],
        [(9, None), (1, None)],
    ),
    "BATCH-01 odd members": (
        [1, request("ping", [1], 5), PING, PING],
        [(None, -32600), (5, -32602), (None, -32600), (9, None)],
    ),
    "BATCH-03 initialize": ([initialize("2025-06-18"), PING], [(0, -32600), (9, None)]),
    "BATCH-01 a call cancelled by its neighbour": (
        [call("wait", {"seconds": 100}, 5), cancel(5), PING],
        [(9, None)],
    ),
}


def outline(answers: list[Any]) -> list[tuple[object, int | None]]:
    return [(each["id"], each.get("error", {}).get("code")) for each in answers]


@pytest.mark.parametrize("row", ROWS)
def test_one_array_answers_a_batch(row: str) -> None:
    batch, expected = ROWS[row]
    _, answers = conversation(example(), OLD, batch)
    assert outline(answers) == expected


@proves("BATCH-05")
@pytest.mark.parametrize("batch", [[NOTE], [NOTE, cancel(5)]], ids=str)
def test_where_nothing_is_due_nothing_is_written(batch: list[object]) -> None:
    _, answer = conversation(example(), OLD, batch, PING)
    assert answer == {"id": 9, "result": {}}


@proves("BATCH-04")
@pytest.mark.parametrize(
    "batch", [[], [request("ping", id_=n) for n in range(REQUESTS_IN_FLIGHT_MAX + 1)]], ids=len
)
def test_the_size_of_a_batch_is_bounded(batch: list[object]) -> None:
    _, answer, _ = conversation(example(), OLD, batch, PING)
    assert outline([answer]) == [(None, -32600)]


@proves("BATCH-02")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_revisions_refuse_and_go_on(version: str) -> None:
    _, answer, pong = conversation(example(), initialize(version), [PING, NOTE], PING)
    assert outline([answer, pong]) == [(None, -32600), (9, None)]


@proves("OUT-05")
def test_answers_that_do_not_fit_one_line_together_are_told_apart() -> None:
    size = REPLY_BYTES_MAX // 5
    _, answers = conversation(
        example(), OLD, [call("fill", {"size": size}, n) for n in range(6)] + [PING]
    )
    assert outline(answers) == [(n, None) for n in range(4)] + [(4, -32603), (5, -32603), (9, None)]
