"""One end of a conversation as a value: bytes in, events out; messages in, bytes out.

                 receive_data                         answer, progress
    peer's request ---------> in flight (theirs) -----------------------> gone
                                   | notifications/cancelled -----------> gone
                 request                              receive_data
    our request  ---------> in flight (ours) ---------------------------> gone
                                   | cancel ----------------------------> gone

Owns both tables of ids in flight and so keeps what hosts insist on: each request gets at
most one answer, nothing follows an answer or a cancellation, progress only rises and never
says that all is done. The same object serves a server and a client.

Not here: what methods mean, time, and input or output.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .errors import ErrorCode, LineTooLong
from .framing import LineReader
from .limits import LINE_BYTES_MAX, REPLY_BYTES_MAX, REQUESTS_IN_FLIGHT_MAX
from .message import (
    ErrorResponse,
    Id,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    encode,
    is_id,
)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The peer no longer wants the answer to a request of its own."""

    id: Id


Event: TypeAlias = Message | Malformed | Cancelled
"""A message that asks for something, or what is wrong with it. Answers to no request of
ours, cancellations of no request in flight and blank lines are no events."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events that came as one array and are answered by one."""

    events: tuple[Event, ...]


class _Theirs:
    """A request of the peer that we have not answered."""

    def __init__(self, token: Id | None) -> None:
        self.token = token
        self.done = float("-inf")


class Connection:
    """``batches`` says whether arrays are welcome now; the owner may change it."""

    def __init__(self, *, batches: bool, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self.batches = batches
        self._line_bytes_max = line_bytes_max
        self._lines = LineReader(line_bytes_max)
        self._theirs: dict[Id, _Theirs] = {}
        self._ours: set[int] = set()
        self._last_id = 0

    def receive_data(self, data: bytes) -> Iterator[Event | EventBatch]:
        """What ``data`` completes; ``b""`` is the end, where an unfinished line counts.

        A line is read when its event is taken, under the rules that the event before it made.
        """
        lines = self._lines.feed(data) if data else self._lines.close()
        return (event for line in lines if (event := self._event_of(line)) is not None)

    def send(self, message: Message) -> bytes:
        """The line to write: empty for an answer that nobody waits for.

        LineTooLong if the peer could not take it, ValueError or TypeError if it is not JSON;
        the request then still waits for its answer.
        """
        if not isinstance(message, Response | ErrorResponse):
            return _line(message)
        if message.id not in self._theirs:
            return b""
        line = _line(message)
        del self._theirs[message.id]
        return line

    def refuse(self, malformed: Malformed) -> bytes:
        """The error that answers what is not a message."""
        id_ = None if malformed.id in self._theirs else malformed.id
        return _line(ErrorResponse(id_, malformed.code, malformed.reason))

    def request(
        self, method: str, params: Mapping[str, object], *, progress: bool = False
    ) -> tuple[int, bytes]:
        """A new request of ours: its id, and its line. ``progress`` asks for reports."""
        self._last_id += 1
        id_ = self._last_id
        if progress:
            meta = params.get("_meta")
            known = meta if isinstance(meta, Mapping) else {}
            params = {**params, "_meta": {**known, "progressToken": id_}}
        line = _line(Request(id_, method, params))
        self._ours.add(id_)
        return id_, line

    def cancel(self, id_: int, reason: str) -> bytes:
        """Give up a request of ours: its answer will be no event."""
        self._ours.discard(id_)
        return _line(Notification("notifications/cancelled", {"requestId": id_, "reason": reason}))

    def progress(self, id_: Id, done: float, total: float | None, message: str | None) -> bytes:
        """The line that reports progress on a request of the peer.

        Empty if it did not ask, has its answer, heard as much before, or will hear the
        answer next because all is done.
        """
        request = self._theirs.get(id_)
        if request is None or request.token is None or done <= request.done:
            return b""
        if total is not None and done >= total:
            return b""
        request.done = done
        said = {
            "progressToken": request.token,
            "progress": done,
            "total": total,
            "message": message,
        }
        params = {name: value for name, value in said.items() if value is not None}
        return _line(Notification("notifications/progress", params))

    def _event_of(self, line: bytes | None) -> Event | EventBatch | None:
        if line is None:
            reason = f"a line longer than {self._line_bytes_max} bytes"
            return Malformed(None, ErrorCode.INVALID_REQUEST, reason)
        message = decode(line)
        if message is None:
            return None
        if isinstance(message, list):
            return self._batch(message)
        return self._event(message)

    def _batch(self, batch: list[Message | Malformed]) -> EventBatch | Malformed:
        if not self.batches:
            return Malformed(None, ErrorCode.INVALID_REQUEST, "batches are not in this revision")
        if not 0 < len(batch) <= REQUESTS_IN_FLIGHT_MAX:
            reason = f"a batch must hold 1-{REQUESTS_IN_FLIGHT_MAX} messages"
            return Malformed(None, ErrorCode.INVALID_REQUEST, reason)
        found = [self._event(item) for item in batch]
        return EventBatch(tuple(event for event in found if event is not None))

    def _event(self, message: Message | Malformed) -> Event | None:
        match message:
            case Request(id_, _, params):
                if id_ in self._theirs:
                    reason = "the id of a request in flight"
                    return Malformed(None, ErrorCode.INVALID_REQUEST, reason)
                self._theirs[id_] = _Theirs(_progress_token(params))
                return message
            case Notification("notifications/cancelled", params):
                return self._cancelled(params.get("requestId"))
            case Response(id_) | ErrorResponse(id_):
                return self._answer(message)
            case _:
                return message

    def _cancelled(self, id_: object) -> Cancelled | None:
        if not isinstance(id_, int | str) or not is_id(id_):
            return None
        return Cancelled(id_) if self._theirs.pop(id_, None) else None

    def _answer(self, message: Response | ErrorResponse) -> Event | None:
        # Some servers answer 5 with "5". Our own ids are integers, so nothing is confused.
        id_ = message.id
        if isinstance(id_, str) and id_.isascii() and id_.isdecimal() and len(id_) < 20:
            id_ = int(id_)
        if not isinstance(id_, int) or id_ not in self._ours:
            return None
        self._ours.discard(id_)
        match message:
            case Response(_, result):
                return Response(id_, result)
            case ErrorResponse(_, code, text, data):
                return ErrorResponse(id_, code, text, data)


def _line(message: Message) -> bytes:
    line = encode(message)
    if len(line) > REPLY_BYTES_MAX:
        raise LineTooLong(len(line))
    return line


def _progress_token(params: Mapping[str, object]) -> Id | None:
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    return token if isinstance(token, int | str) and is_id(token) else None
