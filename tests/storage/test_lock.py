"""One store, one process: refused to all others by name, free again when that one ends."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from convmem.storage import Disk, MemoryDisk, OsDisk, Record, StoreLocked, check

from .support import LOG, Notes, environment, open_store, replayed

ROOT = Path(__file__).parents[2]
END_TIMEOUT_S = 20

# Appends for ever, saying what it has begun and what is durable.
WRITER = """
import sys
from convmem.storage import OsDisk, Record
from tests.storage.support import open_store
store = open_store(OsDisk(sys.argv[1]))
print("open", flush=True)
for n in range(1_000_000 if "append" in sys.argv else 0):
    print("try", n, flush=True)
    store.append([Record(1, b"%d" % n * (n % 500 + 1))])
    print("ack", n, flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the store open; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout
    assert process.stdin
    with process.stdout, process.stdin:
        try:
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()
            process.wait(END_TIMEOUT_S)


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return OsDisk(tmp_path) if request.param == "os" else MemoryDisk()


def test_a_second_opening_is_refused_until_the_first_is_closed(disk: Disk) -> None:
    store = open_store(disk)
    for _ in range(2):
        with pytest.raises(StoreLocked):
            open_store(disk)
    store.append([Record(1, b"still the owner")])
    store.close()
    store.close()
    assert replayed(disk) == [Record(1, b"still the owner")]


def test_the_same_directory_by_another_name_is_the_same_store(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store", target_is_directory=True)
    store = open_store(OsDisk(tmp_path / "store"))
    with pytest.raises(StoreLocked) as refused:
        open_store(OsDisk(tmp_path / "link"))
    assert refused.value.holder is not None
    assert refused.value.holder.pid == os.getpid()
    store.close()


def test_another_process_is_named_and_its_end_frees_the_store(tmp_path: Path) -> None:
    with other_process(tmp_path) as process:
        with pytest.raises(StoreLocked, match=f"process {process.pid} on host 0001") as refused:
            open_store(OsDisk(tmp_path))
        holder = refused.value.holder
        assert holder is not None
        assert holder.host == environment().host_id.hex()
        assert holder.since_ms == environment().now_ms()
        process.kill()
        process.wait(END_TIMEOUT_S)
        assert replayed(OsDisk(tmp_path)) == []


def test_the_holder_may_say_how_it_is_reached(disk: Disk) -> None:
    store = open_store(disk)
    with pytest.raises(StoreLocked) as refused:
        disk.refuse_locked()
    assert refused.value.holder is not None
    assert refused.value.holder.endpoint is None
    store.publish("over there")
    for refuse in (disk.refuse_locked, lambda: open_store(disk)):
        with pytest.raises(StoreLocked) as refused:
            refuse()
        assert refused.value.holder is not None
        assert refused.value.holder.endpoint == "over there"
        assert "over there" not in f"{refused.value} {refused.value.holder}"
    store.close()
    open_store(disk).close()


def test_a_claim_holds_until_it_is_opened_or_given_up(tmp_path: Path) -> None:
    first, second = OsDisk(tmp_path / "new"), OsDisk(tmp_path / "new")
    first.claim("here", 1)
    for refuse in (second.refuse_locked, lambda: second.claim("there", 2)):
        with pytest.raises(StoreLocked) as refused:
            refuse()
        assert refused.value.holder is not None
        assert refused.value.holder.host == "here"
    first.disclaim()
    second.claim("there", 2)
    store = open_store(second)
    second.disclaim()  # it is the store's now
    with pytest.raises(StoreLocked):
        first.claim("here", 1)
    store.close()
    first.claim("here", 1)
    first.disclaim()


def test_another_process_says_how_it_is_reached(tmp_path: Path) -> None:
    with other_process(tmp_path) as process:
        text = json.loads((tmp_path / "store.lock").read_text())
        (tmp_path / "store.lock").write_text(json.dumps(text | {"endpoint": "over there"}))
        with pytest.raises(StoreLocked) as refused:
            OsDisk(tmp_path).refuse_locked()
        assert refused.value.holder is not None
        assert (refused.value.holder.pid, refused.value.holder.endpoint) == (
            process.pid,
            "over there",
        )


def test_an_unreadable_holder_is_nobody(tmp_path: Path) -> None:
    with other_process(tmp_path):
        for text in (b"", b"{", b"[1]", b'{"pid": 1}', b"\xff"):
            (tmp_path / "store.lock").write_bytes(text)
            with pytest.raises(StoreLocked, match="another process") as refused:
                open_store(OsDisk(tmp_path))
            assert refused.value.holder is None
            assert check(OsDisk(tmp_path), Notes()).in_use


def test_a_refusal_touches_no_file_of_this_processes_own_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing another descriptor of it would drop the lock where it is a record lock."""
    store = open_store(OsDisk(tmp_path))
    opened: list[object] = []
    open_file = os.open

    def recorded(path: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
        opened.append(path)
        return open_file(path, flags, mode)

    monkeypatch.setattr(os, "open", recorded)
    with pytest.raises(StoreLocked):
        open_store(OsDisk(tmp_path))
    with pytest.raises(StoreLocked):
        OsDisk(tmp_path).refuse_locked()
    assert opened == []
    store.close()


def test_the_lock_file_stays_and_tells_the_last_holder(tmp_path: Path) -> None:
    (tmp_path / "store.lock").write_text("a longer text of an earlier holder " * 9)
    open_store(OsDisk(tmp_path)).close()
    assert json.loads((tmp_path / "store.lock").read_bytes()) == {
        "pid": os.getpid(),
        "host": environment().host_id.hex(),
        "since_ms": environment().now_ms(),
        "endpoint": None,
    }


@pytest.mark.parametrize("acknowledged", [0, 1, 7, 60])
def test_kill_9_keeps_what_was_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    with other_process(tmp_path, "append") as process:
        assert process.stdout
        lines = iter(process.stdout)
        while acknowledged and next(lines) != f"ack {acknowledged - 1}\n":
            pass
        process.kill()
        said = [line for line in lines if line.endswith("\n")]
    acks = acknowledged + sum(line.startswith("ack") for line in said)
    tries = acknowledged + sum(line.startswith("try") for line in said)
    records = replayed(OsDisk(tmp_path))
    assert acks <= len(records) <= tries
    expected = [Record(1, b"%d" % n * (n % 500 + 1)) for n in range(len(records))]
    assert records == expected
    assert (tmp_path / LOG).stat().st_size > 0
