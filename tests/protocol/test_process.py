"""The life of a server process: how it starts, what ends it, and what it leaves."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from convmem.protocol import CLOSE_TIMEOUT_S

from .process import EXAMPLE, ServerProcess
from .requirements import proves
from .wire import HANDSHAKE_2025_11, call, line, request

PING = request("ping", id_=9)
PONG = {"id": 9, "result": {}}
# A loaded machine may take a while to start and end a process; hosts kill after 2 s.
DEADLINE_S = CLOSE_TIMEOUT_S + 1.0


@proves("PROC-06")
def test_the_null_device_is_an_end() -> None:
    with ServerProcess(stdin=subprocess.DEVNULL) as server:
        assert server.rest() == []
        assert server.ends() == (0, "")


@proves("PROC-06", "LINE-07")
def test_a_file_is_served_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(line(HANDSHAKE_2025_11) + line(PING)[:-1])
    with (tmp_path / "in").open("rb") as stdin, ServerProcess(stdin=stdin) as server:
        assert [message["id"] for message in server.rest()] == [0, 9]
        assert server.ends() == (0, "")


@proves("PROC-06")
def test_output_may_be_a_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as stdout, ServerProcess(stdout=stdout) as server:
        server.send(PING)
        server.stdin.close()
        assert server.ends() == (0, "")
    assert (tmp_path / "out").read_bytes().count(b"\n") == 1


@proves("PROC-01")
def test_a_request_right_before_the_end_is_answered() -> None:
    with ServerProcess() as server:
        server.send(call("wait", {"seconds": 0.2}), PING)
        server.stdin.close()
        assert {message["id"] for message in server.rest()} == {1, 9}
        assert server.ends() == (0, "")


@proves("PROC-06")
def test_input_and_output_may_be_missing_from_the_start() -> None:
    without = ("sh", "-c", 'exec "$0" "$@" <&- >&-', *EXAMPLE)
    with ServerProcess(command=without) as server:
        assert server.ends() == (0, "")


@proves("PROC-03")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_it_like_the_end_of_input(name: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with ServerProcess("--notes", str(notes)) as server:
        server.send(call("wait", {"seconds": 0.2}), PING)
        assert server.next() == PONG
        server.process.send_signal(getattr(signal, name))
        assert [message["id"] for message in server.rest()] == [1]
        assert server.ends() == (0, "")
    assert notes.read_text() == "opening\nclosing\n"


@proves("PROC-03")
def test_an_idle_server_leaves_quickly_on_a_signal() -> None:
    with ServerProcess() as server:
        server.send(PING)
        assert server.next() == PONG
        started = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.ends() == (0, "")
        assert time.monotonic() - started < 1.0


@proves("PROC-04")
def test_a_host_that_stops_reading_for_good_is_no_error(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with ServerProcess("--notes", str(notes)) as server:
        server.send(PING)
        assert server.next() == PONG
        server.stdout.close()
        server.send(PING)
        assert server.ends() == (0, "")
    assert notes.read_text() == "opening\nclosing\n"


@proves("PROC-02")
def test_a_blocked_output_does_not_hold_up_the_end(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with ServerProcess("--notes", str(notes)) as server:
        server.send(*(call("fill", {"size": 1_000_000}, n) for n in range(20)))
        wait_until_full(server)
        started = time.monotonic()
        server.stdin.close()
        assert server.ends() == (0, "")
        assert time.monotonic() - started < DEADLINE_S
    assert notes.read_text() == "opening\nclosing\n"


@proves("PROC-02")
def test_a_close_that_hangs_does_not_hold_up_the_end() -> None:
    with ServerProcess("--closing", "hangs") as server:
        server.send(PING)
        assert server.next() == PONG
        started = time.monotonic()
        server.stdin.close()
        assert server.ends() == (0, "")
        assert CLOSE_TIMEOUT_S - 0.1 < time.monotonic() - started < DEADLINE_S


@proves("PROC-07")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_host_does_not_read_is_not_heaped_up() -> None:
    with ServerProcess() as server:
        server.send(call("fill", {"size": 131_072}, -1))
        server.next()
        before = peak_bytes(server)
        server.send(*(call("fill", {"size": 131_072}, n) for n in range(400)))
        wait_until_full(server)
        ids = [server.next()["id"] for _ in range(400)]
        assert sorted(ids) == list(range(400))
        assert peak_bytes(server) - before < 16 * 1024 * 1024


@proves("PROC-08")
def test_calls_without_number_are_answered_though_nobody_reads_stderr() -> None:
    """Were there a line on stderr for each, good or bad, its pipe would be full by a hundredth."""
    calls = [call("none", {}), call("fill", {"size": "many"}), call("nowhere"), request("what")]
    with ServerProcess() as server:
        for first in range(0, 10_000, 50):
            server.send(*(calls[n % 4] | {"id": n} for n in range(first, first + 50)))
            assert sorted(server.next()["id"] for _ in range(50)) == [*range(first, first + 50)]
        server.stdin.close()
        assert server.ends() == (0, "")


@proves("PROC-05")
def test_an_orphan_ends(tmp_path: Path) -> None:
    wrapper = (sys.executable, "-c", "import subprocess, sys; subprocess.call(sys.argv[1:])")
    notes = tmp_path / "notes"
    with ServerProcess("--notes", str(notes), command=wrapper + EXAMPLE) as server:
        server.send(PING)
        assert server.next() == PONG
        server.process.kill()
        assert server.rest() == []
    assert notes.read_text() == "opening\nclosing\n"


def test_descriptors_made_non_blocking_by_the_host_work() -> None:
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    for fd in (in_read, out_write):
        os.set_blocking(fd, False)
    with (
        open(in_read, "rb") as stdin,
        open(out_write, "wb") as stdout,
        open(in_write, "wb") as to_server,
        open(out_read, "rb") as from_server,
        ServerProcess(stdin=stdin, stdout=stdout) as server,
    ):
        stdin.close()
        stdout.close()
        to_server.write(line(call("fill", {"size": 1_000_000})))
        to_server.close()
        assert len(from_server.read()) > 2_000_000
        assert server.ends() == (0, "")


@proves("PROC-09")
def test_nothing_but_the_protocol_reaches_the_output() -> None:
    with ServerProcess() as server:
        server.send(call("chatter"), PING)
        server.stdin.close()
        assert {message["id"] for message in server.rest()} == {1, 9}
        returncode, stderr = server.ends()
    assert returncode == 0
    assert sorted(stderr.split()) == ["noise", "noise"]


@proves("LIFE-10")
def test_opening_waits_for_the_first_answer_and_may_fail(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with ServerProcess("--notes", str(notes), "--opening", "fails") as server:
        server.send({"jsonrpc": "2.0", "method": "notifications/unknown"})
        server.send(HANDSHAKE_2025_11, call("say", {"text": "x"}))
        assert [server.next()["id"], server.next()["id"]] == [0, 1]
        server.stdin.close()
        assert server.ends() == (0, "")
    assert notes.read_text() == "opening\nclosing\n"
    with ServerProcess("--notes", str(notes), stdin=subprocess.DEVNULL) as server:
        assert server.ends() == (0, "")
    assert notes.read_text() == "opening\nclosing\nclosing\n"


def wait_until_full(server: ServerProcess) -> None:
    """Until nothing more fits the pipe of its output: 64 KiB by default, less one write."""
    until = time.monotonic() + 10
    waiting = bytearray(4)
    while int.from_bytes(waiting, sys.byteorder) < 60_000:
        assert time.monotonic() < until, "the output is never full"
        fcntl.ioctl(server.stdout, termios.FIONREAD, waiting)
        os.sched_yield()


def peak_bytes(server: ServerProcess) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (peak,) = [row.split()[1] for row in status.splitlines() if row.startswith("VmHWM")]
    return int(peak) * 1024
