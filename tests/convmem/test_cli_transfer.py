"""``convmem export`` and ``convmem import``, as they are typed."""

import errno
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import convmem
from convmem.cli import main
from convmem.cli.launch import server_command
from convmem.protocol import BlockingClient

CONVMEM = [sys.executable, "-m", "convmem"]
WAIT_S = 60


def run(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [*CONVMEM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=WAIT_S, encoding="utf-8", **more)
    assert "Traceback" not in done.stderr
    return done


def contents(data_dir: Path) -> list[str]:
    shown = run("show", "s", "--data-dir", data_dir, "--json")
    return [json.loads(line)["content"] for line in shown.stdout.splitlines()]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A memory in a place with a name that people have."""
    folder = tmp_path / "私の memory 🗂"
    with convmem.open(folder) as memory:
        memory.write_message("s", "user", "one")
        memory.write_message("s", "assistant", "two \x1b[31m")
        memory.memory_set("k", "v")
    return folder


def test_a_memory_moves_through_a_file_and_through_a_pipe(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    assert run("export", file, "--data-dir", data_dir).returncode == 0
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o600
    piped = run("export", "-", "--data-dir", data_dir).stdout
    assert piped == file.read_text(encoding="utf-8")
    done = run("import", "-", "--data-dir", tmp_path / "new", input=piped)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("export", "-", "--data-dir", tmp_path / "new").stdout == piped
    told = json.loads(run("import", file, "--data-dir", tmp_path / "new", "--json").stdout)
    assert (told["read"], told["unchanged"], told["messages"]) == (3, 3, 0)


def test_a_trial_changes_nothing(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    run("export", file, "--data-dir", data_dir)
    done = run("import", file, "--data-dir", tmp_path / "new", "--dry-run")
    assert done.stdout.startswith("Would import")
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_refused_says_where_and_costs_nothing(
    data_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "export.jsonl"
    run("export", file, "--data-dir", data_dir)
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].replace('"revision":1', '"revision":"1"')
    file.write_text("\n".join(lines), encoding="utf-8")
    done = run("import", file, "--data-dir", tmp_path / "new")
    assert done.returncode == 1
    assert 'line 3: revision: "1" is not a whole number' in done.stderr
    assert "nothing was imported" in done.stderr
    (tmp_path / "other").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    done = run("import", tmp_path / "other", "--data-dir", data_dir)
    assert done.returncode == 1
    done = run("import", tmp_path / "missing", "--data-dir", data_dir)
    assert done.returncode == 1
    assert "missing" in done.stderr


def test_an_export_is_taken_beside_a_server_and_an_import_is_not(
    data_dir: Path, tmp_path: Path
) -> None:
    """The server writes on meanwhile; each export is of one moment."""
    stop = threading.Event()
    with BlockingClient(server_command(data_dir)) as client:
        pid = client.pid

        def write() -> None:
            number = 0
            while not stop.is_set():
                arguments = {"session_id": "s", "role": "user", "content": f"more {number}"}
                client.call_tool("write_message", arguments)
                number += 1

        writing = threading.Thread(target=write)
        writing.start()
        try:
            sizes = []
            for number in range(3):
                file = tmp_path / f"{number}.jsonl"
                assert run("export", file, "--data-dir", data_dir).returncode == 0
                done = run("import", file, "--data-dir", tmp_path / f"new {number}")
                assert done.returncode == 0, done.stderr
                sizes.append(len(contents(tmp_path / f"new {number}")))
            assert sizes == sorted(sizes)
            refused = run("import", file, "--data-dir", data_dir)
        finally:
            stop.set()
            writing.join(WAIT_S)
        assert refused.returncode == 3
        assert f"process {pid}" in refused.stderr


class _Failing(io.FileIO):
    """A file of which one operation fails."""

    fails_at = ""

    def write(self, data: Any) -> int:
        self._fail("write")
        return super().write(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._fail("close")

    def _fail(self, what: str) -> None:
        if what == self.fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fails", ["open", "write", "sync", "close", "replace"])
def test_an_export_that_fails_leaves_the_file_as_it_was(
    data_dir: Path, tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "export.jsonl"
    file.write_text("as it was")
    with monkeypatch.context() as patch:
        full = OSError(errno.ENOSPC, "No space left on device")

        def refuse(*_: object, **__: object) -> None:
            raise full

        if fails == "open":
            file = tmp_path / "no such folder" / "export.jsonl"
        elif fails == "sync":
            patch.setattr("convmem.cli.replaced.os.fsync", refuse)
        elif fails == "replace":
            patch.setattr("convmem.cli.replaced.Path.replace", refuse)
        else:

            class Failing(_Failing):
                fails_at = fails

            patch.setattr("convmem.cli.replaced.os.fdopen", lambda fd, mode: Failing(fd, mode))
        assert main(["export", str(file), "--data-dir", str(data_dir)]) == 1
    assert "was left as it was" in capsys.readouterr().err
    if file.parent.exists():
        assert file.read_text() == "as it was"
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_an_import_that_is_killed_leaves_all_or_nothing(data_dir: Path, tmp_path: Path) -> None:
    big = tmp_path / "big"
    with convmem.open(big) as memory:
        for number in range(300):
            memory.write_message("t", "user", f"{number} " + "x" * 20_000)
    file = tmp_path / "big.jsonl"
    run("export", file, "--data-dir", big)
    before = run("export", "-", "--data-dir", data_dir).stdout
    outcomes = set()
    for wait_for in ("log-00000002.cvl", "log-00000003.cvl", "log-00000004.cvl"):
        importing = subprocess.Popen([*CONVMEM, "import", file, "--data-dir", str(data_dir)])
        while importing.poll() is None and not (data_dir / wait_for).exists():
            pass  # the new generation is being written
        importing.kill()
        importing.wait(WAIT_S)
        after = run("export", "-", "--data-dir", data_dir).stdout
        is_whole = after.count('"type":"message"') == 302
        assert is_whole or after == before
        outcomes.add(is_whole)
        if is_whole:
            break
    assert outcomes
