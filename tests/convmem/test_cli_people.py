"""The commands for people, as they are typed: alone, beside a server, at a terminal, in a pipe."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import convmem
from convmem.cli.launch import server_command
from convmem.cli.terminal import Terminal, cells, safe_line, safe_text
from convmem.protocol import BlockingClient

CONVMEM = [sys.executable, "-m", "convmem"]
WAIT_S = 60
HOSTILE = "red \x1b[31m, title \x1b]0;x\x07, over\rwritten, \x9b2J, \x7f, \u202eturned"
BIG = "\x01é" * 300_000  # more JSON than the largest page takes
EVERY_COMMAND = [
    ["sessions"],
    ["show", "garden"],
    ["search", "tomatoes"],
    ["facts"],
    ["history", "user/theme"],
    ["stats"],
    ["rebuild"],
]
by_name = pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: str(command[0]))

unix = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")


def run(data_dir: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    name, *rest = arguments
    return subprocess.run(
        [*CONVMEM, name, "--data-dir", str(data_dir), *rest],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
        timeout=WAIT_S,
        check=False,
    )


def lines_of(data_dir: Path, *arguments: str) -> list[dict[str, Any]]:
    """What ``--json`` prints, line by line."""
    done = run(data_dir, *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def fill(data_dir: Path) -> None:
    with convmem.open(data_dir, client_id="tester") as memory:
        tagged = {"tags": ["plants", "evening"]}
        memory.write_message("garden", "user", "Water the tomatoes.", metadata=tagged)
        memory.write_message("garden", "assistant", "Every evening.\n  Twice in July.")
        memory.write_message("garden", "user", "ありがとう 🍅")
        memory.write_message(HOSTILE, "user", HOSTILE)
        memory.memory_set("user/theme", "dark")
        memory.memory_set("user/theme", HOSTILE)
        with pytest.raises(convmem.Refusal):
            memory.memory_set("user/theme", "light", expected_revision=1)
        memory.memory_set("user/name", "Ann")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory that the tests only read."""
    folder = tmp_path_factory.mktemp("memory of 家 🏠")
    fill(folder)
    return folder


def test_sessions_are_listed_newest_first(data_dir: Path) -> None:
    listed = run(data_dir, "sessions")
    assert (listed.returncode, listed.stderr) == (0, "")
    hostile, garden = listed.stdout.splitlines()
    assert safe_line(HOSTILE) in hostile
    time, count, name, summary = garden.split(maxsplit=3)
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert (count, name, summary) == ("3", "garden", "Water the tomatoes.")


def test_a_session_is_shown_oldest_first_and_whole(data_dir: Path) -> None:
    shown = run(data_dir, "show", "garden")
    assert (shown.returncode, shown.stderr) == (0, "")
    first, second, third = shown.stdout.rstrip().split("\n\n")
    assert "user  #plants  #evening" in first
    assert second.endswith("\n    Every evening.\n      Twice in July.")
    assert third.endswith("\n    ありがとう 🍅")
    messages = lines_of(data_dir, "show", "garden")
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize(("last", "shown"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_the_last_messages_are_shown_oldest_first(data_dir: Path, last: int, shown: int) -> None:
    everything = lines_of(data_dir, "show", "garden")
    assert lines_of(data_dir, "show", "garden", "--last", str(last)) == everything[-shown:]


def test_a_message_that_no_page_takes_is_shown_whole(tmp_path: Path) -> None:
    with convmem.open(tmp_path) as memory:
        memory.write_message("big", "user", BIG)
    (message,) = lines_of(tmp_path, "show", "big")
    assert message["content"] == BIG
    assert not {"content_truncated", "content_bytes"} & set(message)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["tomatoes", "water"], ["Water the tomatoes."]),
        (["evening", "--role", "assistant"], ["Every evening.\n  Twice in July."]),
        (["", "--tag", "plants", "--tag", "evening"], ["Water the tomatoes."]),
        (["", "--tag", "plants", "--tag", "morning"], []),
        (["", "--session", "garden", "--limit", "1"], ["ありがとう 🍅"]),
        (["", "--since", "2999-01-01T00:00"], []),
        (["tomatoes", "--since", "2001-02-03", "--until", "2999-01-01"], ["Water the tomatoes."]),
        (["", "--until", "2001-02-03T04:05:06+09:00"], []),
        (["", "--until", "1000"], []),
    ],
)
def test_a_search_takes_filters(data_dir: Path, arguments: list[str], found: list[str]) -> None:
    (reply,) = lines_of(data_dir, "search", *arguments)
    assert [result["content"] for result in reply["results"]] == found
    shown = run(data_dir, "search", *arguments)
    assert shown.returncode == 0
    assert f"{len(found)} of {reply['total']} found" in shown.stderr
    assert all(content.partition("\n")[0] in shown.stdout for content in found)


def test_a_search_tells_sessions_of_nearly_that_name(data_dir: Path) -> None:
    shown = run(data_dir, "search", "tomatoes", "--session", "gardem")
    assert (shown.returncode, shown.stdout) == (0, "")
    assert "garden" in shown.stderr


def test_a_match_beside_the_text_says_where(data_dir: Path) -> None:
    shown = run(data_dir, "search", "plants")
    assert "\n    (tags) plants" in shown.stdout


def test_facts_are_listed_by_key_and_prefix(data_dir: Path) -> None:
    listed = run(data_dir, "facts")
    assert (listed.returncode, listed.stderr) == (0, "")
    cut = [line.split(maxsplit=3)[1:] for line in listed.stdout.splitlines()]
    assert cut == [["tester", "user/name", "Ann"], ["tester", "user/theme", safe_line(HOSTILE)]]
    assert [fact["key"] for fact in lines_of(data_dir, "facts", "user/n")] == ["user/name"]
    assert "No fact whose key begins so." in run(data_dir, "facts", "x").stderr


def test_the_history_of_a_fact_is_told_newest_first(data_dir: Path) -> None:
    told = run(data_dir, "history", "user/theme")
    assert (told.returncode, told.stderr) == (0, "")
    cut = [line.split(maxsplit=3)[1:] for line in told.stdout.splitlines()]
    assert cut == [
        ["tester", "refused", "set, revision differs: light"],
        ["tester", "set", safe_line(HOSTILE)],
        ["tester", "set", "dark"],
    ]
    actions = [event["action"] for event in lines_of(data_dir, "history", "user/theme")]
    assert actions == ["refused", "set", "set"]


def test_stats_tell_what_the_memory_holds(data_dir: Path) -> None:
    told = run(data_dir, "stats")
    assert (told.returncode, told.stderr) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in told.stdout.splitlines())
    assert rows["messages"] == "4 in 2 sessions"
    assert rows["facts"] == "2"
    assert rows["folder"] == str(data_dir)
    (health,) = lines_of(data_dir, "stats")
    assert (health["messages"], health["status"]) == (4, "ok")


def test_a_rebuild_takes_what_is_dead_off_the_disk(tmp_path: Path) -> None:
    with convmem.open(tmp_path) as memory:
        memory.write_message("s", "user", "kept")
        gone = memory.write_message("s", "user", "a secret")
        memory.delete_message(gone["message_id"])
    rebuilt = run(tmp_path, "rebuild")
    assert (rebuilt.returncode, rebuilt.stderr) == (0, "")
    told = re.fullmatch(r"Written anew\. Messages: 1\. Bytes: (.+) to (.+)\.\n", rebuilt.stdout)
    assert told is not None
    before, after = (int(size.replace(",", "")) for size in told.groups())
    assert after == sum(log.stat().st_size for log in tmp_path.glob("log-*")) < before
    assert not any(b"a secret" in file.read_bytes() for file in tmp_path.glob("*.cv[ls]"))
    (again,) = lines_of(tmp_path, "rebuild")
    assert again["rebuilt"] is False


@by_name
def test_no_control_code_that_was_stored_comes_out(data_dir: Path, command: list[str]) -> None:
    for json_too in ([], ["--json"]):
        done = run(data_dir, *command, *json_too)
        assert done.returncode == 0
        assert safe_text(done.stdout) == done.stdout


@by_name
def test_a_console_that_knows_only_ascii_is_enough(data_dir: Path, command: list[str]) -> None:
    done = run(data_dir, *command, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["sessions"], ["show", HOSTILE], ["facts"]], ids=str)
def test_json_is_the_same_on_every_console(data_dir: Path, command: list[str]) -> None:
    ascii_only = run(data_dir, *command, "--json", PYTHONIOENCODING="ascii")
    parsed = [json.loads(line) for line in ascii_only.stdout.splitlines()]
    assert parsed == lines_of(data_dir, *command)
    assert any(HOSTILE in item.values() for item in parsed)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A memory that a server owns, and its process."""
    folder = tmp_path_factory.mktemp("served")
    fill(folder)
    with BlockingClient(server_command(folder), timeout_s=WAIT_S) as client:
        client.call_tool("get_system_health", {})
        assert client.pid is not None
        yield folder, client.pid


@by_name
def test_a_server_may_have_the_memory_open(served: tuple[Path, int], command: list[str]) -> None:
    folder, _ = served
    done = run(folder, *command, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_beside_a_server_its_owner_is_asked(served: tuple[Path, int]) -> None:
    folder, pid = served
    (health,) = lines_of(folder, "stats")
    assert (health["sharing"]["role"], health["sharing"]["owner_pid"]) == ("guest", pid)
    assert f"by process {pid}" in run(folder, "stats").stdout


def test_a_memory_that_is_not_shared_names_its_holder(tmp_path: Path) -> None:
    with BlockingClient([*server_command(tmp_path), "--exclusive"], timeout_s=WAIT_S) as client:
        client.call_tool("get_system_health", {})
        refused = run(tmp_path, "sessions")
        assert (refused.returncode, refused.stdout) == (3, "")
        assert f"process {client.pid}" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def damage(data_dir: Path) -> Path:
    """Flip a bit of a message. The log it is in."""
    (log,) = data_dir.glob("log-*")
    data = bytearray(log.read_bytes())
    data[data.index(b"Every evening")] ^= 1
    log.write_bytes(data)
    return log


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_search_that_could_not_read_all_says_so(tmp_path: Path, form: tuple[str]) -> None:
    fill(tmp_path)
    damage(tmp_path)
    searched = run(tmp_path, "search", "water tomatoes", *form)
    assert searched.returncode == 4
    assert "Water the tomatoes." in searched.stdout
    assert "1 message cannot be read" in searched.stderr
    assert "convmem check" in searched.stderr


def test_a_damaged_memory_is_told_by_its_status(tmp_path: Path) -> None:
    fill(tmp_path)
    log = damage(tmp_path)
    for snapshot in tmp_path.glob("snap-*"):
        snapshot.unlink()
    refused = run(tmp_path, "show", "garden")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert log.name in refused.stderr
    assert "convmem check" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["show", "gone"], 1, "there is no session 'gone'; `convmem sessions`"),
        (["show", "\x1b[31m"], 1, "there is no session '\\x1b[31m'"),
        (["show", "--", "--gone"], 1, "there is no session '--gone'"),
        (["history", "gone"], 1, "nothing is known of a key 'gone'"),
        (["show"], 2, "SESSION"),
        (["show", "garden", "--last", "0"], 2, "not a whole number from 1"),
        (["search", "x", "--limit", "1001"], 2, "not a whole number from 1 to 1000"),
        (["search", "x", "--role", "robot"], 2, "robot"),
        (["search", "x", "--since", "yesterday"], 2, "'yesterday' is neither a time"),
        (["search", "x" * (16 * 1024 + 1)], 2, "query"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused_is_said(
    data_dir: Path, arguments: list[str], status: int, told: str
) -> None:
    refused = run(data_dir, *arguments)
    assert (refused.returncode, refused.stdout) == (status, "")
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr


@by_name
def test_where_no_memory_is_none_is_made(tmp_path: Path, command: list[str]) -> None:
    refused = run(tmp_path, *command)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert str(tmp_path) in refused.stderr
    assert list(tmp_path.iterdir()) == []
    assert run(tmp_path / "missing", *command).returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_the_option_is_named() -> None:
    environment = {name: os.environ[name] for name in os.environ if name != "CONVMEM_DATA_DIR"}
    command = [*CONVMEM, "sessions"]
    told = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=WAIT_S)
    assert told.returncode == 2
    assert "--data-dir" in told.stderr


def test_convmem_alone_shows_what_to_do_next() -> None:
    told = subprocess.run(CONVMEM, capture_output=True, text=True, timeout=WAIT_S)
    assert (told.returncode, told.stdout) == (2, "")
    for words in ("start here", "convmem demo", *(command[0] for command in EVERY_COMMAND)):
        assert words in told.stderr


def test_a_pipe_that_is_closed_ends_the_command_quietly(tmp_path: Path) -> None:
    with convmem.open(tmp_path) as memory:
        for _ in range(3):
            memory.write_message("big", "user", BIG)
    command = [*CONVMEM, "show", "--data-dir", str(tmp_path), "big"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(WAIT_S) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_behind_the_pipe_is_an_error(data_dir: Path) -> None:
    command = [*CONVMEM, "show", "--data-dir", str(data_dir), "garden"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=WAIT_S)
    assert done.returncode == 1
    assert re.fullmatch(rb"convmem: .*No space left.*\n", done.stderr)


def at_a_terminal(data_dir: Path, *arguments: str, **environment: str) -> str:
    """What a command writes to a terminal of 60 columns."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))  # type: ignore[attr-defined, unused-ignore]
    name, *rest = arguments
    base = {"PATH": os.environ["PATH"], "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(
        [*CONVMEM, name, "--data-dir", str(data_dir), *rest],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=base | environment,
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 4096):
            shown += data
    except OSError:  # Linux ends a terminal that nobody holds so
        pass
    finally:
        os.close(ours)
        assert process.wait(WAIT_S) == 0
    return shown.decode().replace("\r\n", "\n")


@unix
@by_name
def test_a_terminal_gets_our_colours_and_no_code_of_others(
    data_dir: Path, command: list[str]
) -> None:
    shown = at_a_terminal(data_dir, *command)
    plain = re.sub(r"\x1b\[[0-9]+m", "", shown)
    assert safe_text(plain) == plain
    assert shown != plain or command == ["rebuild"]


@unix
@pytest.mark.parametrize("wish", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colours_are_for_a_terminal_that_wants_them(data_dir: Path, wish: dict[str, str]) -> None:
    assert "\x1b" not in at_a_terminal(data_dir, "sessions", **wish)


@unix
def test_a_rebuild_shows_how_far_it_is_at_a_terminal(tmp_path: Path) -> None:
    with convmem.open(tmp_path) as memory:
        memory.memory_set("k", "v")
        memory.memory_delete("k", purge=True)
    *progress, told = at_a_terminal(tmp_path, "rebuild").split("\r")
    assert told.startswith("Written anew.")
    assert progress
    assert all(re.fullmatch(r"(rebuilding: +[0-9]+%, .*/s.*)? *", shown) for shown in progress)


@unix
def test_a_long_last_column_ends_with_the_terminal(tmp_path: Path) -> None:
    with convmem.open(tmp_path) as memory:
        memory.memory_set("k", "長い" * 100)
    (line,) = at_a_terminal(tmp_path, "facts", NO_COLOR="1").splitlines()
    assert line.endswith(("長...", "い..."))
    assert cells(line) in (59, 60)
    (whole,) = run(tmp_path, "facts").stdout.splitlines()
    assert whole.endswith("長い" * 100)


@pytest.mark.parametrize(
    ("text", "width"), [("", 0), ("ab", 2), ("日本", 4), ("e\u0301", 1), ("ｱ", 1), ("🍅", 2)]
)
def test_wide_letters_take_two_cells_and_marks_none(text: str, width: int) -> None:
    assert cells(text) == width


def test_columns_are_aligned_by_cells_not_letters() -> None:
    plain = Terminal(columns=None, coloured=False)
    rows = [("日本", "x"), ("abcd", "y"), ("e\u0301", "z")]
    assert [*plain.table(rows, (None, None))] == ["日本  x", "abcd  y", "e\u0301     z"]


def test_a_missing_log_is_damage_for_all_commands(data_dir: Path, tmp_path: Path) -> None:
    for log in data_dir.glob("log-*"):
        log.unlink()
    for command in ("check", "sessions", "stats"):
        done = run(data_dir, command)
        assert done.returncode == 4, done.stderr
        assert "log is missing" in done.stdout + done.stderr or "no log" in done.stdout
