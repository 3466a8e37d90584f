"""Ids in flight both ways, cancellation, and the order of progress: rules without I/O."""

from typing import Any

import pytest

from convmem.protocol import (
    REPLY_BYTES_MAX,
    Cancelled,
    Connection,
    ErrorResponse,
    LineTooLong,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    encode,
)

from .requirements import proves


def receive(connection: Connection, *messages: Message) -> list[Any]:
    return list(connection.receive_data(b"".join(map(encode, messages))))


def asked(token: object = "t", id_: int | str = 1) -> Request:
    return Request(id_, "work", {"_meta": {"progressToken": token}})


def test_both_ends_see_what_the_other_sends() -> None:
    client, server = Connection(batches=False), Connection(batches=False)
    id_, line = client.request("add", {"a": 1})
    assert list(server.receive_data(line)) == [Request(id_, "add", {"a": 1})]
    answer = server.send(Response(id_, {"sum": 1}))
    assert list(client.receive_data(answer)) == [Response(id_, {"sum": 1})]


def test_a_request_gets_one_answer() -> None:
    connection = Connection(batches=False)
    receive(connection, asked())
    assert connection.send(Response(1, {})) != b""
    assert connection.send(Response(1, {})) == b""
    assert connection.send(ErrorResponse(1, -1, "late")) == b""


def test_what_was_never_asked_gets_no_answer() -> None:
    assert Connection(batches=False).send(Response(1, {})) == b""


@proves("MSG-04")
def test_ids_of_two_types_are_two_requests() -> None:
    connection = Connection(batches=False)
    assert receive(connection, asked(id_=1), asked(id_="1")) == [asked(id_=1), asked(id_="1")]
    assert connection.send(Response("1", {})) != b""
    assert connection.send(Response(1, {})) != b""


def test_an_id_in_flight_cannot_be_used_again() -> None:
    connection = Connection(batches=False)
    first, second = receive(connection, asked(), asked())
    assert (first, type(second)) == (asked(), Malformed)
    assert second.id is None


@proves("CANCEL-02")
@pytest.mark.parametrize("id_", ["1", 2, None, [], 1.5])
def test_only_the_very_id_is_cancelled(id_: object) -> None:
    connection = Connection(batches=False)
    receive(connection, asked())
    assert receive(connection, Notification("notifications/cancelled", {"requestId": id_})) == []
    assert connection.send(Response(1, {})) != b""


@proves("CANCEL-01")
def test_nothing_follows_a_cancellation() -> None:
    connection = Connection(batches=False)
    cancelled = Notification("notifications/cancelled", {"requestId": 1})
    assert receive(connection, asked(), cancelled, cancelled) == [asked(), Cancelled(1)]
    assert connection.progress(1, 1, None, None) == b""
    assert connection.send(Response(1, {})) == b""


@proves("PROG-02", "PROG-03")
def test_progress_only_rises_and_never_completes() -> None:
    connection = Connection(batches=False)
    receive(connection, asked(token=0))
    reports = [(1, 9), (1, 9), (0, 9), (2, None), (9, 9), (10, 9), (3, 9)]
    lines = [connection.progress(1, done, total, None) for done, total in reports]
    told = [decode(line) for line in lines if line]
    assert told == [
        Notification("notifications/progress", {"progressToken": 0, "progress": 1, "total": 9}),
        Notification("notifications/progress", {"progressToken": 0, "progress": 2}),
        Notification("notifications/progress", {"progressToken": 0, "progress": 3, "total": 9}),
    ]
    connection.send(Response(1, {}))
    assert connection.progress(1, 4, 9, None) == b""


@proves("PROG-01")
@pytest.mark.parametrize("token", [None, 1.5, True, {}, [], "x" * 70_000], ids=repr)
def test_an_invalid_token_asks_for_nothing(token: object) -> None:
    connection = Connection(batches=False)
    receive(connection, asked(token))
    assert connection.progress(1, 1, None, None) == b""


def test_a_line_too_long_is_not_sent_and_the_request_still_waits() -> None:
    connection = Connection(batches=False)
    receive(connection, asked())
    with pytest.raises(LineTooLong) as caught:
        connection.send(Response(1, {"text": "x" * REPLY_BYTES_MAX}))
    assert caught.value.bytes_count > REPLY_BYTES_MAX
    assert connection.send(Response(1, {})) != b""


@proves("CLIENT-04")
@pytest.mark.parametrize("id_", [1, "1"])
def test_an_answer_is_matched_across_types_once(id_: int | str) -> None:
    connection = Connection(batches=False)
    connection.request("work", {})
    assert receive(connection, Response(id_, {"a": 1}), Response(1, {})) == [Response(1, {"a": 1})]


@proves("CLIENT-03")
def test_answers_to_nothing_are_no_events() -> None:
    connection = Connection(batches=False)
    id_, _ = connection.request("work", {})
    connection.cancel(id_, "tired")
    strays: list[Message] = [Response(id_, {}), Response("x", {}), ErrorResponse(None, -1, "x")]
    assert receive(connection, *strays) == []


def test_a_malformed_result_is_an_error() -> None:
    connection = Connection(batches=False)
    connection.request("work", {})
    (event,) = connection.receive_data(b'{"jsonrpc":"2.0","id":1,"result":null}\n')
    assert isinstance(event, ErrorResponse)
