"""The commands as a person types them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from convmem import __version__

CONVMEM = [sys.executable, "-m", "convmem"]
WAIT_S = 60


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [*CONVMEM, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
        timeout=WAIT_S,
        check=False,
    )


def test_the_demo_shows_what_it_promises(tmp_path: Path) -> None:
    shown = run("demo", "--data-dir", str(tmp_path / "demo"))
    assert (shown.returncode, shown.stderr) == (0, "")
    for words in ("Killed the server", "All 6 messages are there", "ちなみに", "mcpServers"):
        assert words in shown.stdout
    assert str(tmp_path / "demo") in shown.stdout


def test_the_demo_may_be_run_again_on_its_folder(tmp_path: Path) -> None:
    for times in (1, 2):
        shown = run("demo", "--data-dir", str(tmp_path))
        assert (shown.returncode, shown.stderr) == (0, "")
        assert f"status ok, {6 * times} messages" in shown.stdout


def test_the_demo_works_on_a_console_that_knows_only_ascii(tmp_path: Path) -> None:
    shown = run("demo", "--data-dir", str(tmp_path / "demo"), PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\\u3061" in shown.stdout


def test_call_prints_the_result_of_any_servers_tool(tmp_path: Path) -> None:
    server = ["--", *CONVMEM, "serve", "--data-dir", str(tmp_path)]
    message = json.dumps({"session_id": "s", "role": "user", "content": "日本"})
    written = run("call", "write_message", message, *server)
    assert written.returncode == 0
    asked = json.dumps({"view": "history", "session_id": "s"})
    read = json.loads(run("call", "read_messages", asked, *server).stdout)
    assert read["messages"][0]["content"] == "日本"
    assert read["messages"][0]["message_id"] == json.loads(written.stdout)["message_id"]


def test_call_tells_a_tool_error_from_a_protocol_error(tmp_path: Path) -> None:
    server = ["--", *CONVMEM, "serve", "--data-dir", str(tmp_path)]
    tool_error = run("call", "read_messages", '{"view": "history"}', *server)
    assert tool_error.returncode == 1
    assert tool_error.stderr.startswith("INVALID_ARGUMENT")
    protocol_error = run("call", "nothing", *server)
    assert protocol_error.returncode == 1
    assert "-32602" in protocol_error.stderr


def test_tools_lists_every_tool_with_its_arguments(tmp_path: Path) -> None:
    listed = run("tools", "--", *CONVMEM, "serve", "--data-dir", str(tmp_path))
    assert listed.returncode == 0
    for words in ("write_message", "get_system_health", "content: string, required"):
        assert words in listed.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "usage"),
        (["fly"], "invalid choice"),
        (["tools"], "after --"),
        (["call", "x", "{not json", "--", "true"], "not JSON"),
        (["call", "x", "[1]", "--", "true"], "not a JSON object"),
        (["repair", "--data-dir", "d", "--cut-at", "-5"], "not a whole number from 0"),
        (["repair", "--data-dir", "d", "--cut-at", "1e3"], "not a whole number from 0"),
        (["serve", "--data-dir", "d", "--busy-timeout", "-1"], "to 86400000: '-1'"),
        (["serve", "--data-dir", "d", "--busy-timeout", "86400001"], "to 86400000: '86400001'"),
        (["tools", "--timeout", "0", "--", "true"], "seconds above 0"),
        (["tools", "--timeout", "nan", "--", "true"], "seconds above 0"),
        (["call", "x", "--timeout", "86401", "--", "true"], "seconds above 0"),
        (["call", "x", "--timeout", "soon", "--", "true"], "seconds above 0"),
    ],
)
def test_wrong_usage_says_what_is_right(arguments: list[str], told: str) -> None:
    shown = run(*arguments)
    assert shown.returncode == 2
    assert told in shown.stderr


def test_a_server_that_does_not_start_is_told_apart() -> None:
    missing = run("tools", "--", "no-such-command-anywhere")
    assert missing.returncode == 1
    assert "no-such-command-anywhere" in missing.stderr
    dying = [sys.executable, "-c", "import sys; sys.exit('last words')"]
    died = run("tools", "--", *dying)
    assert died.returncode == 1
    assert "last words" in died.stderr


def test_the_version_is_told() -> None:
    assert run("--version").stdout == f"convmem {__version__}\n"


def test_words_that_serve_does_not_take_are_refused(tmp_path: Path) -> None:
    refused = run("serve", "--data-dir", str(tmp_path), "--", "junk")
    assert refused.returncode == 2
    assert "takes nothing after --: junk" in refused.stderr


def test_a_data_directory_must_have_a_name() -> None:
    refused = run("check", "--data-dir", "")
    assert refused.returncode == 2
    assert "an empty path names no folder" in refused.stderr


def test_a_tilde_that_no_shell_expanded_is_the_home_folder(tmp_path: Path) -> None:
    shown = run("demo", "--data-dir", "~/memory", HOME=str(tmp_path), USERPROFILE=str(tmp_path))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert list((tmp_path / "memory").glob("log-*"))
