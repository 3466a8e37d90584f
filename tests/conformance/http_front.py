"""Our stdio server at a URL, for the suite, which speaks HTTP only.

    the suite's client  --HTTP-->  HttpFront  --stdio-->  our server

Owns what the specification says of HTTP alone: sessions, headers, status codes, event streams.
Every message passes as it is. Source: the page basic/transports of both revisions.
"""

import json
import subprocess
import threading
import uuid
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final, Self

Json = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
STREAM_TIMEOUT_S: Final = 20.0
END_TIMEOUT_S: Final = 5.0
META: Final = "io.modelcontextprotocol/"
_HEADER_MISMATCH: Final = -32020
_NOT_FOUND: Final = -32601


class Child:
    """A server process, and who at the front waits for which of its messages."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe)
        self._writing = threading.Lock()
        self._streams: dict[object, SimpleQueue[Json]] = {}
        self._tokens: dict[object, object] = {}
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def is_busy_with(self, id_: object) -> bool:
        return id_ in self._streams

    def send(self, message: Json) -> None:
        assert self._process.stdin
        with self._writing:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def exchange(self, request: Json) -> Iterator[Json]:
        """All that the server says for a request, its answer last. ``Empty`` if it is silent."""
        id_ = request["id"]
        stream = self._streams[id_] = SimpleQueue()
        if (token := meta(request).get("progressToken")) is not None:
            self._tokens[token] = id_
        try:
            self.send(request)
            while True:
                message = stream.get(timeout=STREAM_TIMEOUT_S)
                yield message
                if "method" not in message:
                    return
        finally:
            del self._streams[id_]

    def cancel(self, request: Json) -> None:
        params = {"requestId": request["id"]}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(END_TIMEOUT_S)
        self._reading.join(END_TIMEOUT_S)
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            message = json.loads(line)
            if stream := self._streams.get(self._request_of(message)):
                stream.put(message)

    def _request_of(self, message: Json) -> object:
        """The id of the request that a message is for: if it does not say, of the latest."""
        if "method" not in message:
            return message["id"]
        if (subscription := meta(message).get(META + "subscriptionId")) is not None:
            return subscription
        token = message.get("params", {}).get("progressToken")
        return self._tokens.get(token) if token is not None else next(reversed(self._streams), None)


class HttpFront:
    """A URL at which a stdio server is found: a process a session, one for all without any."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._sessions: dict[str, Child] = {}
        self._shared: list[Child] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://localhost:{self._http.server_port}/mcp"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        for child in (*self._sessions.values(), *self._shared):
            child.close()

    def begin_session(self) -> tuple[str, Child]:
        session, child = uuid.uuid4().hex, Child(self._command)
        self._sessions[session] = child
        return session, child

    def session(self, session: str) -> Child | None:
        return self._sessions.get(session)

    def end_session(self, session: str) -> bool:
        child = self._sessions.pop(session, None)
        if child is not None:
            child.close()
        return child is not None

    def shared(self, id_: object) -> Child:
        """A process that no request with this id is at."""
        with self._lock:
            for child in self._shared:
                if not child.is_busy_with(id_):
                    return child
            child = Child(self._command)
            self._shared.append(child)
            return child


def _handler(front: HttpFront) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._reply(405)

        def do_DELETE(self) -> None:
            self._reply(200 if front.end_session(self.headers.get("mcp-session-id", "")) else 404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            try:
                message = json.loads(body)
            except ValueError:
                return self._reply(400, _error(None, -32700, "Parse error"))
            headers: dict[str, str] = {}
            session = self.headers.get("mcp-session-id")
            version = meta(message).get(META + "protocolVersion")
            if message.get("method") == "initialize" and version is None:
                session, child = front.begin_session()
                headers["Mcp-Session-Id"] = session
            elif session is not None:
                found = front.session(session)
                if found is None:
                    return self._reply(404, _error(message.get("id"), -32001, "No such session"))
                child = found
            elif version is not None and self.headers.get("mcp-protocol-version") != version:
                return self._reply(400, _error(message.get("id"), _HEADER_MISMATCH, "Mismatch"))
            else:
                child = front.shared(message.get("id"))
            if "method" not in message or "id" not in message:
                child.send(message)
                return self._reply(202)
            return self._stream(child, message, headers, sessionless=session is None)

        def _stream(
            self, child: Child, request: Json, headers: dict[str, str], *, sessionless: bool
        ) -> None:
            try:
                messages = child.exchange(request)
                first = next(messages)
                if "method" not in first:
                    return self._reply(_status(first) if sessionless else 200, first, headers)
                self._begin(200, {"Content-Type": "text/event-stream", **headers})
                self._event(first)
                for message in messages:
                    self._event(message)
            except (Empty, ConnectionError):
                child.cancel(request)

        def _event(self, message: Json) -> None:
            self.wfile.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")
            self.wfile.flush()

        def _reply(
            self, status: int, message: Json | None = None, headers: dict[str, str] | None = None
        ) -> None:
            body = b"" if message is None else json.dumps(message).encode()
            kind = {} if message is None else {"Content-Type": "application/json"}
            self._begin(status, {**kind, "Content-Length": str(len(body)), **(headers or {})})
            self.wfile.write(body)

        def _begin(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

    return Handler


def _status(answer: Json) -> int:
    """Of an answer without a session, where the status repeats the error."""
    if "error" not in answer:
        return 200
    return 404 if answer["error"]["code"] == _NOT_FOUND else 400


def _error(id_: object, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}


def meta(message: Json) -> Json:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}
