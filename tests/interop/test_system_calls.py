"""What the server asks of the operating system, and what it makes of a refusal.

The real server, seen from outside: the counters it keeps of itself are not believed here.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from convmem.cli.launch import server_command
from convmem.protocol import BlockingClient

from .conversation import STEPS
from .strace import changes_before_each_answer, obstacle, recorded, sabotaged

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of other processes: Linux")

LOG = "log-00000001.cvl"
ONE_FRAME = [f"pwrite64 {LOG}", f"fdatasync {LOG}"]
# Less than any frame.
PART_BYTES = 40
PATIENCE_S = 20.0
POLL_S = 0.01


@pytest.fixture(scope="session")
def strace() -> None:
    if reason := obstacle():
        pytest.skip(reason)


def write(client: BlockingClient, content: str) -> str:
    """Write a message: ``"ok"``, or the code of the refusal."""
    arguments = {"session_id": "s", "role": "user", "content": content}
    result = client.call_tool("write_message", arguments)
    return result.text.partition(":")[0] if result.is_error else "ok"


def contents(client: BlockingClient) -> list[str]:
    """Every message, oldest first."""
    arguments = {"view": "history", "session_id": "s", "order": "oldest_first"}
    result = client.call_tool("read_messages", arguments)
    assert not result.is_error, result.text
    return [message["content"] for message in json.loads(result.text)["messages"]]


def status(client: BlockingClient) -> str:
    return str(json.loads(client.call_tool("get_system_health", {}).text)["status"])


def contents_after_restart(data_dir: Path) -> list[str]:
    with BlockingClient(server_command(data_dir)) as client:
        return contents(client)


@pytest.mark.ci
@pytest.mark.usefixtures("strace")
def test_a_new_message_costs_one_write_and_one_flush_and_all_else_nothing(tmp_path: Path) -> None:
    data_dir, record = tmp_path / "store", tmp_path / "record"
    with recorded(data_dir, record) as client:
        client.call_tool("get_system_health", {})  # answered when the store is open
        for step in STEPS:
            client.call_tool(step.tool, step.arguments)
    greeting, opening, *by_step, closing = (
        # What searches by meaning have is made when it suits, beside the store.
        [change for change in changes if "vectors" not in change]
        for changes in changes_before_each_answer(record, data_dir)
    )
    notes = [[change for change in changes if "audit" in change] for changes in by_step]
    others = [[change for change in changes if "audit" not in change] for changes in by_step]
    assert others == [ONE_FRAME * step.frames for step in STEPS]
    for step, noted in zip(STEPS, notes, strict=True):
        assert {change.split()[0] for change in noted} <= {"mkdir", "pwrite64"}, "never flushed"
        assert not noted or step.tool in ("memory_get", "memory_search")
    assert any(notes)
    assert f"pwrite64 {LOG}" in greeting + opening, "the record shows what was done"
    # A clean end saves a snapshot, and touches nothing else.
    assert [change for change in closing if not change.split()[-1].startswith("snap-")] == []


@pytest.mark.ci
@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize(
    ("call", "error", "outcomes", "health"),
    [
        ("pwrite64", "ENOSPC", ["ok", "DISK_FULL", "ok"], "ok"),
        ("pwrite64", "EIO", ["ok", "STORE_FAILED", "STORE_FAILED"], "failed"),
        ("fdatasync", "EIO", ["ok", "STORE_FAILED", "STORE_FAILED"], "failed"),
    ],
)
def test_what_the_disk_refuses_is_told_and_leaves_no_trace(
    call: str, error: str, outcomes: list[str], health: str, tmp_path: Path
) -> None:
    # The second of the writer's thread; the opening's calls come from another one.
    with sabotaged(tmp_path, tmp_path / LOG, call, f"error={error}:when=2") as client:
        assert [write(client, str(n)) for n in range(3)] == outcomes
        assert status(client) == health
        acknowledged = [str(n) for n, outcome in enumerate(outcomes) if outcome == "ok"]
        assert contents(client) == acknowledged
    assert contents_after_restart(tmp_path) == acknowledged


@pytest.mark.ci
@linux
@pytest.mark.usefixtures("strace")
def test_a_write_that_was_cut_short_is_completed(tmp_path: Path) -> None:
    log = tmp_path / LOG
    # The kernel carries out a part of the second write, then the server stands still.
    with (
        sabotaged(tmp_path, log, "pwrite64", "signal=STOP:when=2") as client,
        ThreadPoolExecutor() as pool,
    ):
        assert write(client, "first") == "ok"
        server = json.loads((tmp_path / "store.lock").read_text())["pid"]
        end = log.stat().st_size
        limit_file_size(server, end + PART_BYTES)
        outcome = pool.submit(write, client, "second")
        try:
            wait_until(lambda: log.stat().st_size == end + PART_BYTES)
        finally:
            limit_file_size(server, None)
            os.kill(server, signal.SIGCONT)
        assert outcome.result(PATIENCE_S) == "ok"
    assert contents_after_restart(tmp_path) == ["first", "second"]


@linux
def test_a_file_that_may_not_grow_is_a_full_disk_until_it_may(tmp_path: Path) -> None:
    log = tmp_path / LOG
    with BlockingClient(server_command(tmp_path)) as client:
        assert client.pid
        assert write(client, "first") == "ok"
        end = log.stat().st_size
        # A part of the frame is written before the limit is met: it must go again.
        limit_file_size(client.pid, end + PART_BYTES)
        assert [write(client, text) for text in ("second", "third")] == ["DISK_FULL"] * 2
        assert log.stat().st_size == end
        assert contents(client) == ["first"]
        limit_file_size(client.pid, None)
        assert write(client, "fourth") == "ok"
        assert status(client) == "ok"
    assert contents_after_restart(tmp_path) == ["first", "fourth"]


def limit_file_size(process: int, limit_bytes: int | None) -> None:
    """How large the files of a process may grow; None for as large as it may allow itself."""
    import resource  # not on Windows

    _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
    limit = (most if limit_bytes is None else limit_bytes, most)
    resource.prlimit(process, resource.RLIMIT_FSIZE, limit)


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again and again: nothing tells of a file's growth."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(POLL_S)
