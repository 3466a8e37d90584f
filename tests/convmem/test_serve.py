"""``convmem serve`` as a host meets it: a process, its pipes, and a folder that may be bad."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from convmem.cli import arguments
from convmem.debug_log import DebugLog
from convmem.protocol import BlockingClient, RequestFailed
from convmem.tools import TOOL_GROUPS
from tests.protocol.requirements import proves

SERVE = [sys.executable, "-m", "convmem", "serve"]
MESSAGE = {"session_id": "s", "role": "user", "content": "text"}
WAIT_S = 30


def client_of(data_dir: Path | None, **environment: str) -> BlockingClient:
    command = SERVE if data_dir is None else [*SERVE, "--data-dir", str(data_dir)]
    inherited = {name: value for name, value in os.environ.items() if "CONVMEM" not in name}
    return BlockingClient(command, env=inherited | environment)


def call(client: BlockingClient, tool: str, **arguments: Any) -> dict[str, Any]:
    result = client.call_tool(tool, arguments)
    assert not result.is_error, result.text
    assert result.structured is not None
    return dict(result.structured)


def refused(client: BlockingClient, tool: str, **arguments: Any) -> str:
    result = client.call_tool(tool, arguments)
    assert result.is_error
    return result.text


def test_a_new_folder_is_made_and_its_messages_outlive_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "some where" / "日本語 🎌"
    with client_of(folder) as client:
        written = call(client, "write_message", **MESSAGE)
    with client_of(folder) as client:
        (message,) = call(client, "read_messages", view="history", session_id="s")["messages"]
        assert message["message_id"] == written["message_id"]
        assert message["written_by"] == "convmem"
        health = call(client, "get_system_health")
        assert health["recovery"] == {"outcome": "clean"}
        assert health["store"]["directory"] == str(folder)
        assert health["log_io"]["flushes"] == 1  # the sync at open; reading wrote nothing
    if os.name == "posix":
        assert folder.stat().st_mode & 0o077 == 0, "others may read the memory"


def test_the_folder_and_the_client_may_come_from_the_environment(tmp_path: Path) -> None:
    environment = {"CONVMEM_DATA_DIR": str(tmp_path), "MCP_CLIENT_ID": "desk"}
    with client_of(None, **environment) as client:
        call(client, "write_message", **MESSAGE)
        (message,) = call(client, "read_messages", view="history", session_id="s")["messages"]
        assert message["written_by"] == "desk"


def test_a_name_that_cannot_be_one_costs_no_host_its_server(tmp_path: Path) -> None:
    with client_of(tmp_path, CONVMEM_CLIENT_ID="x" * 129, MCP_CLIENT_ID="") as client:
        call(client, "write_message", **MESSAGE)
        (message,) = call(client, "read_messages", view="history", session_id="s")["messages"]
        assert message["written_by"] == "convmem"  # as our client calls itself
    (told,) = client.stderr_tail.splitlines()
    assert told.startswith("convmem: CONVMEM_CLIENT_ID is not used: longer than 128 bytes")


class TestAFolderThatCannotBeOpened:
    """The server lives, says what is wrong with every call, and works once it is mended."""

    def test_none_was_named(self) -> None:
        with client_of(None) as client:
            assert len(client.list_tools()) == 13
            text = refused(client, "write_message", **MESSAGE)
            assert text.startswith("STORE_FAILED: no data directory")
            health = call(client, "get_system_health")
            assert (health["status"], health["error"]["code"]) == ("unavailable", "STORE_FAILED")

    def test_it_is_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text("a user's own")
        with client_of(path) as client:
            text = refused(client, "write_message", **MESSAGE)
            assert text.startswith("STORE_FAILED")
            assert str(path) in text
            assert path.read_text() == "a user's own"
            path.unlink()
            call(client, "write_message", **MESSAGE)

    @pytest.mark.skipif(
        os.name != "posix" or os.geteuid() == 0, reason="root may write where nobody may"
    )
    def test_it_is_not_writable(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with client_of(tmp_path / "new") as client:
            assert refused(client, "write_message", **MESSAGE).startswith("STORE_FAILED")

    @pytest.mark.skipif(os.name != "posix", reason="a path of POSIX systems")
    def test_the_system_refuses_it(self) -> None:
        with client_of(Path("/dev/null/memory")) as client:
            text = refused(client, "write_message", **MESSAGE)
            assert text.startswith("STORE_FAILED")
            assert "/dev/null" in text

    def test_it_is_damaged(self, tmp_path: Path) -> None:
        log, data = damaged_log(tmp_path)
        for snapshot in tmp_path.glob("*.cvs"):
            snapshot.unlink()
        with client_of(tmp_path) as client:
            told = json.loads(refused(client, "write_message", **MESSAGE).partition("\n")[2])
            assert told["error"]["code"] == "STORE_FAILED"
            assert told["error"]["file"] == log.name
            assert told["error"]["offset"] == 216
        assert log.read_bytes() == data, "evidence was touched"


def damaged_log(data_dir: Path) -> tuple[Path, bytes]:
    """The log of two messages, a bit of the first one flipped."""
    with client_of(data_dir) as client:
        call(client, "write_message", **MESSAGE)
        call(client, "write_message", **MESSAGE)
    (log,) = data_dir.glob("log-*.cvl")
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    return log, bytes(data)


def test_a_damaged_message_behind_a_snapshot_is_refused_when_it_is_read(tmp_path: Path) -> None:
    log, data = damaged_log(tmp_path)
    with client_of(tmp_path) as client:
        asked = {"view": "history", "session_id": "s", "limit": 1}
        newest = call(client, "read_messages", **asked)  # the other one is whole
        text = refused(client, "read_messages", **asked, cursor=newest["next_cursor"])
        told = json.loads(text.partition("\n")[2])["error"]
        assert (told["code"], told["file"], told["offset"]) == ("STORE_FAILED", log.name, 216)
    assert log.read_bytes() == data, "evidence was touched"


@pytest.mark.skipif(os.name != "posix", reason="elsewhere an open file cannot be removed")
def test_a_log_that_was_removed_takes_no_more_writes(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        call(client, "write_message", **MESSAGE)
        (log,) = tmp_path.glob("log-*.cvl")
        log.unlink()
        for _ in range(2):
            text = refused(client, "write_message", **MESSAGE)
            assert text.startswith("STORE_FAILED")
            assert "removed" in text
        assert call(client, "get_system_health")["status"] == "failed"
        assert call(client, "read_messages", view="history", session_id="s")["messages"]


def test_bad_requests_are_answered_each_and_the_server_lives(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        with pytest.raises(RequestFailed, match="Unknown tool") as failed:
            client.call_tool("forget_everything", {})
        assert failed.value.code == -32602
        with pytest.raises(RequestFailed) as failed:
            client.request("memory/forget")
        assert failed.value.code == -32601
        assert "INVALID_ARGUMENT" in refused(client, "read_messages", view="everything")
        assert "INVALID_ARGUMENT" in refused(client, "write_message", **MESSAGE | {"role": 5})
        over = "x" * (1 << 20) + "x"
        assert "1048576" in refused(client, "write_message", **MESSAGE | {"content": over})
        assert call(client, "get_system_health")["messages"] == 0


def exchange(data_dir: Path, *lines: bytes) -> list[dict[str, Any]]:
    """Bytes to a server's stdin, then its end; what came back, line by line."""
    ended = subprocess.run(
        [*SERVE, "--data-dir", str(data_dir)],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        timeout=WAIT_S,
        check=True,
    )
    assert ended.stderr == b""
    return [json.loads(line) for line in ended.stdout.splitlines()]


def tool_call(identifier: int, content: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write_message",'
        b'"arguments":{"session_id":"s","role":"user","content":%b}}}' % (identifier, content)
    )


@pytest.mark.parametrize(
    "content", [rb'"\ud800"', b'"\xff\xfe"', b'"caf\xe9"'], ids=["surrogate", "bytes", "latin-1"]
)
def test_text_that_is_not_unicode_is_refused_not_repaired(tmp_path: Path, content: bytes) -> None:
    (answer,) = exchange(tmp_path, tool_call(1, content))
    assert answer["result"]["isError"]
    assert "content" in answer["result"]["content"][0]["text"]


def test_a_line_that_is_not_json_is_answered_and_the_next_one_served(tmp_path: Path) -> None:
    answers = exchange(tmp_path, b"this is not JSON", tool_call(2, b'"text"'))
    assert answers[0]["error"]["code"] == -32700
    assert answers[1]["result"]["structuredContent"]["created"] is True


@proves("LIFE-10")
def test_the_host_is_greeted_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys, convmem.server\n"
        "heavy = {'numpy', 'crc32c', 'ulid'} & set(sys.modules)\n"
        "sys.exit(f'imported too early: {heavy}' if heavy else 0)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=WAIT_S)


def test_a_debug_log_tells_of_every_call_and_never_what_was_said(tmp_path: Path) -> None:
    log = tmp_path / "calls.log"
    command = [*SERVE, "--data-dir", str(tmp_path / "memory"), "--debug-log", str(log)]
    with BlockingClient(command) as client:
        call(client, "write_message", **(MESSAGE | {"content": "SECRET"}))
        refused(client, "read_messages", view="history", session_id="SECRET too")
        refused(client, "write_message", session_id="s", role="SECRET role", content="x")
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["tool"] for each in told] == ["write_message", "read_messages", "write_message"]
    assert [each["outcome"] for each in told] == ["ok", "NOT_FOUND", "InvalidArguments"]
    assert all(each["ms"] > 0 for each in told)
    assert "SECRET" not in log.read_text()
    if os.name == "posix":
        assert log.stat().st_mode & 0o077 == 0


def test_a_debug_log_says_where_the_code_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convmem.debug_log.DEBUG_LOG_BYTES_MAX", 2000)
    log = DebugLog(tmp_path / "calls.log")
    try:
        json.loads("SECRET")
    except ValueError as error:
        for _ in range(10):
            log.note("tool", 0.001, error)
    lines = (tmp_path / "calls.log").read_text().splitlines()
    told = json.loads(lines[-1])
    assert told["outcome"] == "failed: JSONDecodeError"
    assert any("decoder.py" in place for place in told["at_code"])
    assert "SECRET" not in lines[-1]
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 2000


def test_a_debug_log_that_cannot_be_is_told_at_once(tmp_path: Path) -> None:
    command = [*SERVE, "--data-dir", str(tmp_path), "--debug-log", str(tmp_path / "no" / "log")]
    done = subprocess.run(
        command, capture_output=True, timeout=WAIT_S, stdin=subprocess.DEVNULL, text=True
    )
    assert done.returncode == 1
    assert "cannot be opened" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_may_be_offered_some_of_the_tools(tmp_path: Path) -> None:
    assert arguments.TOOL_GROUPS == TOOL_GROUPS
    command = [*SERVE, "--data-dir", str(tmp_path), "--tools", "facts, maintenance"]
    with BlockingClient(command) as client:
        names = {str(tool["name"]) for tool in client.list_tools()}
    assert "memory_set" in names
    assert "rebuild_index" in names
    assert not any("message" in name for name in names)
    command = [*SERVE, "--data-dir", str(tmp_path), "--tools", "fact"]
    done = subprocess.run(command, capture_output=True, timeout=WAIT_S, text=True)
    assert done.returncode == 2
    assert "no group of tools: 'fact'" in done.stderr
