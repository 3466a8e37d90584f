"""Load a real conversation corpus through the running server, and read all of it back.

    python -m bench.load CORPUS.jsonl[.gz] [--data-dir DIR] [--limit N]

The corpus is JSON lines; a line is either one message ({"session_id", "role", "content"}) or
a conversation ({"id", "docs": [{"sess", "spk", "text"}]}). Everything goes over MCP to a real
server process. Exit status 1 if a message does not come back identical. Prints rates and bytes.
"""

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from convmem.cli.launch import server_command
from convmem.limits import PAGE_ITEMS_MAX, REPLY_BYTES_MAX, WINDOW_BYTES_MAX
from convmem.protocol import BlockingClient


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a corpus."""

    session_id: str
    role: str
    content: str


def main() -> int:
    parser = argparse.ArgumentParser(description="Load a corpus over MCP and check it.")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--limit", type=int, help="messages to load, all unless given")
    options = parser.parse_args()
    if options.limit is not None and options.limit < 1:
        parser.error(f"--limit: {options.limit} messages are nothing to load")
    try:
        turns = list(islice(_turns(options.corpus), options.limit))
    except (OSError, EOFError, ValueError) as problem:
        parser.error(f"{options.corpus}: {problem}")
    if not any(turn.content for turn in turns):
        parser.error(f"{options.corpus}: there is no text in it")
    with tempfile.TemporaryDirectory(prefix="convmem-load-") as folder:
        return load(turns, options.data_dir or Path(folder))


def load(turns: list[Turn], data_dir: Path) -> int:
    """Write, read back, compare; the exit status."""
    text_bytes = sum(len(turn.content.encode()) for turn in turns)
    with BlockingClient(server_command(data_dir)) as client:
        began = time.perf_counter()
        written = [_call(client, "write_message", **_arguments(turn)) for turn in turns]
        write_s = time.perf_counter() - began

        began = time.perf_counter()
        found = {
            message["message_id"]: message
            for session_id in dict.fromkeys(turn.session_id for turn in turns)
            for message in _history(client, session_id)
        }
        read_s = time.perf_counter() - began
        store = _call(client, "get_system_health")["store"]

    wrong = [
        receipt["message_id"]
        for turn, receipt in zip(turns, written, strict=True)
        if not _identical(turn, found.get(receipt["message_id"]))
    ]
    count = len(turns)
    print(f"messages       {count} in {len({turn.session_id for turn in turns})} sessions")
    print(f"content        {text_bytes} bytes, {text_bytes / count:.0f} a message")
    print(f"written        {count / write_s:.0f} a second, one call at a time, each flushed")
    print(f"read back      {count / read_s:.0f} a second, in pages")
    ratio = store["log_bytes"] / text_bytes
    print(f"log            {store['log_bytes']} bytes, {ratio:.2f} x content")
    print(f"not identical  {len(wrong)}")
    return 1 if wrong else 0


def _turns(corpus: Path) -> Iterator[Turn]:
    with (
        gzip.open(corpus, "rt", encoding="utf-8")
        if corpus.suffix == ".gz"
        else open(corpus, encoding="utf-8") as lines
    ):
        for number, line in enumerate(lines, start=1):
            try:
                yield from _turns_of(json.loads(line))
            except (ValueError, TypeError, KeyError) as problem:
                reason = f"line {number} is no message or conversation: {problem!r}"
                raise ValueError(reason) from problem


def _turns_of(item: dict[str, Any]) -> Iterator[Turn]:
    if "docs" not in item:
        yield Turn(item["session_id"], item["role"], item["content"])
        return
    for message in item["docs"]:
        role = message["spk"] if message["spk"] in ("user", "assistant", "system") else "user"
        yield Turn(f"{item['id']}/{message['sess']}", role, message["text"])


def _arguments(turn: Turn) -> dict[str, Any]:
    return {"session_id": turn.session_id, "role": turn.role, "content": turn.content}


def _history(client: BlockingClient, session_id: str) -> Iterator[dict[str, Any]]:
    """Every message of a session, whole."""
    cursor: dict[str, Any] = {}
    while True:
        page = _call(
            client,
            "read_messages",
            view="history",
            session_id=session_id,
            order="oldest_first",
            limit=PAGE_ITEMS_MAX,
            max_bytes=REPLY_BYTES_MAX,
            **cursor,
        )
        for message in page["messages"]:
            if message.get("content_truncated"):
                message["content"] = _content(client, message["message_id"])
            yield message
        if "next_cursor" not in page:
            return
        cursor = {"cursor": page["next_cursor"]}


def _content(client: BlockingClient, message_id: str) -> str:
    """A long message, window by window."""
    text, offset = "", 0
    while True:
        window = _call(
            client,
            "read_messages",
            view="content",
            message_id=message_id,
            offset=offset,
            limit=WINDOW_BYTES_MAX,
        )
        text += str(window["content"])
        offset = window["next_offset"]
        if offset == window["total_bytes"]:
            return text


def _identical(turn: Turn, found: dict[str, Any] | None) -> bool:
    if found is None:
        return False
    return (turn.session_id, turn.role, turn.content) == (
        found["session_id"],
        found["role"],
        found["content"],
    )


def _call(client: BlockingClient, tool: str, **arguments: object) -> dict[str, Any]:
    result = client.call_tool(tool, arguments)
    if result.is_error or result.structured is None:
        sys.exit(f"{tool}: {result.text}")
    return dict(result.structured)


if __name__ == "__main__":
    sys.exit(main())
