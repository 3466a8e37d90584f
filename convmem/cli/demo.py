"""``convmem demo``: the promise, acted out with the real server.

Starts the server as a host would, writes a short conversation, kills the server right after
its last acknowledgement, starts it again and reads everything back.
"""

import json
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from convmem.cli.launch import host_configuration, server_command
from convmem.limits import DEMO_TIMEOUT_S
from convmem.protocol import BlockingClient, ClientError

SESSION = "demo"
CONVERSATION = Path(__file__).with_name("demo.jsonl")


class DemoFailed(Exception):
    """What was read back is not what was written."""


def demo(data_dir: Path | None) -> int:
    """Run the demonstration; the exit status."""
    folder = data_dir or Path(tempfile.mkdtemp(prefix="convmem-demo-"))
    command = server_command(folder)
    print("convmem demo: what happens to a memory when its server is killed\n")
    try:
        written = _write_and_kill(command)
        _read_back(command, written)
    except (ClientError, DemoFailed) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    print(f"\nThe data lies in {folder}\nDelete that folder to forget the demo.")
    print("\nTo give your own assistant a memory, add this to your host's MCP configuration; the")
    print("README names the file of each host. The folder is a suggestion, any will do:\n")
    print(host_configuration(Path.home() / ".convmem"))
    return 0


def _write_and_kill(command: list[str]) -> list[dict[str, Any]]:
    """Write the conversation and kill the server at once; the messages as acknowledged."""
    with BlockingClient(command, timeout_s=DEMO_TIMEOUT_S) as client:
        print(f"1. Started a server, as a host would (process {client.pid}):")
        print(f"     {shlex.join(command)}")
        written = []
        for line in CONVERSATION.read_text(encoding="utf-8").splitlines():
            message = json.loads(line)
            written.append(message | _call(client, "write_message", session_id=SESSION, **message))
        print(f"2. Wrote {len(written)} messages. Each was on disk before it was acknowledged.")
        client.kill()
        name = "SIGKILL" if hasattr(signal, "SIGKILL") else "TerminateProcess"
        print(f"3. Killed the server with {name}, right after the last acknowledgement.")
    return written


def _read_back(command: list[str], written: list[dict[str, Any]]) -> None:
    with BlockingClient(command, timeout_s=DEMO_TIMEOUT_S) as client:
        print(f"4. Started it again (process {client.pid}) and read the conversation back:\n")
        # The newest ones: a folder that is used again holds those of earlier runs as well.
        history = _call(
            client, "read_messages", view="history", session_id=SESSION, limit=len(written)
        )
        found = {message["message_id"]: message for message in history["messages"]}
        for message in written:
            _check(message, found.get(message["message_id"]))
            _show(message)
        print(f"\n   All {len(written)} messages are there, unchanged to the byte.")
        _show_sessions(_call(client, "read_messages", view="sessions"))
        _show_health(_call(client, "get_system_health"))


def _check(written: dict[str, Any], found: dict[str, Any] | None) -> None:
    if found is None:
        raise DemoFailed(f"message {written['message_id']} was acknowledged and is gone")
    for name in ("role", "content"):
        if found[name] != written[name]:
            raise DemoFailed(f"message {written['message_id']} came back with another {name}")


def _show(message: dict[str, Any]) -> None:
    first, *rest = message["content"].splitlines()
    print(f"     {message['role']:<10} {first}")
    for line in rest:
        print(f"     {'':<10} {line}".rstrip())


def _show_sessions(reply: dict[str, Any]) -> None:
    print("5. The sessions it holds:")
    for session in reply["sessions"]:
        print(f"     {session['session_id']}: {session['messages']} messages. {session['summary']}")


def _show_health(health: dict[str, Any]) -> None:
    store = health["store"]
    print("6. Its health:")
    print(f"     status {health['status']}, {health['messages']} messages")
    print(f"     log of {store['log_bytes']} bytes, generation {store['generation']}")


def _call(client: BlockingClient, tool: str, **arguments: object) -> dict[str, Any]:
    result = client.call_tool(tool, arguments)
    if result.is_error or result.structured is None:
        raise DemoFailed(f"{tool} answered {result.text}")
    return dict(result.structured)
