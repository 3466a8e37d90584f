"""The suite's HTTP server as a stdio server, for our client.

    our client  --stdio-->  HttpBack  --HTTP-->  the suite's server

``python -m tests.conformance.http_back URL`` is what the client starts. Every message passes as
it is; the headers that the specification asks for are added.
"""

import http
import http.client
import json
import sys
import threading
import urllib.error
import urllib.request

from .http_front import META, STREAM_TIMEOUT_S, Json, meta

Response = http.client.HTTPResponse | urllib.error.HTTPError


class HttpBack:
    """Sends what arrives on stdin to a URL, each on a thread of its own; prints what it says."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: dict[str, str] = {}
        self._printing = threading.Lock()

    def forward(self, line: bytes) -> None:
        message = json.loads(line)
        self._show(self._open(line.strip(), self._headers(message)))
        if message.get("method") == "notifications/initialized":
            # Where a server says what belongs to no request; open before anything is asked.
            stream = self._open(None, self._session)
            if stream.status == http.HTTPStatus.OK:
                threading.Thread(target=self._show, args=(stream,), daemon=True).start()

    def _open(self, body: bytes | None, headers: dict[str, str]) -> Response:
        accept = {"Accept": "application/json, text/event-stream"}
        request = urllib.request.Request(self._url, body, {**accept, **headers})
        try:
            response: Response = urllib.request.urlopen(request, timeout=STREAM_TIMEOUT_S)
        except urllib.error.HTTPError as refused:
            return refused
        return response

    def _headers(self, message: Json) -> dict[str, str]:
        headers = {"Content-Type": "application/json", **self._session}
        if method := message.get("method"):
            headers["Mcp-Method"] = method
        if name := message.get("params", {}).get("name"):
            headers["Mcp-Name"] = name
        if version := meta(message).get(META + "protocolVersion"):
            headers["MCP-Protocol-Version"] = version
        return headers

    def _show(self, response: Response) -> None:
        if session := response.headers.get("Mcp-Session-Id"):
            self._session = {"Mcp-Session-Id": session}
        if response.headers.get_content_type() == "text/event-stream":
            for row in response:
                if row.startswith(b"data:"):
                    self._print(row.removeprefix(b"data:").strip())
        else:
            self._print(response.read().strip())

    def _print(self, text: bytes) -> None:
        if text:
            with self._printing:
                sys.stdout.buffer.write(text.replace(b"\n", b" ") + b"\n")
                sys.stdout.buffer.flush()


def main() -> None:
    back = HttpBack(sys.argv[1])
    for line in sys.stdin.buffer:
        thread = threading.Thread(target=back.forward, args=(line,), daemon=True)
        thread.start()
        if b'"id"' not in line:  # what follows may depend on a notification having arrived
            thread.join()


if __name__ == "__main__":
    main()
