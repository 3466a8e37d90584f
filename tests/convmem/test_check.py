"""``convmem check`` and ``convmem repair`` on stores that are sound, torn and damaged."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from convmem import codec
from convmem.commands import Granted
from convmem.ledger import Ledger
from convmem.operations import ReadHistory, WriteMessage
from convmem.storage import Record

CONVMEM = [sys.executable, "-m", "convmem"]
TEXTS = [f"message {number}" for number in range(10)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CONVMEM, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of ten messages, each in a frame of its own."""
    ledger = Ledger.open(tmp_path)
    for text in TEXTS:
        granted = ledger.decide(WriteMessage(session_id="s", role="user", content=text))
        assert isinstance(granted, Granted)
        ledger.append([Record(*codec.encode(granted.record))])
    ledger.close()
    return tmp_path


def log_of(store: Path) -> Path:
    (log,) = store.glob("log-*.cvl")
    return log


def damage(store: Path, needle: str) -> int:
    """Flip a bit of a message's text; where its text stands."""
    log = log_of(store)
    data = bytearray(log.read_bytes())
    place = data.index(needle.encode())
    data[place] ^= 1
    log.write_bytes(data)
    return place


def verdict(store: Path) -> dict[str, Any]:
    shown = run("check", "--data-dir", str(store), "--json")
    report: dict[str, Any] = json.loads(shown.stdout)
    assert shown.returncode == (4 if report["finding"] == "damaged" else 0)
    return report


def contents(store: Path) -> list[str]:
    ledger = Ledger.open(store)
    query = ReadHistory(session_id="s", order="oldest_first", limit=100, max_bytes=32768)
    reply: Any = ledger.answer(query)
    ledger.close()
    return [message["content"] for message in reply["messages"]]


def test_a_sound_store_is_called_sound(store: Path) -> None:
    before = {path: path.read_bytes() for path in store.iterdir()}
    shown = run("check", "--data-dir", str(store))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"{store}: sound" in shown.stdout
    assert {path: path.read_bytes() for path in store.iterdir()} == before


def test_a_torn_end_is_no_damage(store: Path) -> None:
    log = log_of(store)
    log.write_bytes(log.read_bytes()[:-5])
    assert verdict(store)["finding"] == "torn"
    assert log.stat().st_size % 8, "the check cut the end"
    assert contents(store) == TEXTS[:-1]


def test_damage_is_named_with_its_place_and_what_is_lost(store: Path) -> None:
    place = damage(store, TEXTS[4])
    report = verdict(store)
    (file,) = (file for file in report["files"] if file["name"].startswith("log-"))
    assert file["finding"] == "damaged"
    assert 0 < place - file["offset"] < 120
    # sequences 1 and 2 are the log's own
    assert (file["before"], file["lost"], file["after"]) == (
        {"first": 1, "last": 6},
        {"first": 7, "last": 7},
        {"first": 8, "last": 12},
    )
    shown = run("check", "--data-dir", str(store))
    assert shown.returncode == 4
    for words in ("damaged", str(file["offset"]), "convmem repair"):
        assert words in shown.stdout


def test_repair_gives_up_what_is_damaged_and_keeps_the_old_files(store: Path) -> None:
    damage(store, TEXTS[4])
    old = log_of(store).read_bytes()
    shown = run("repair", "--data-dir", str(store), "--skip")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert contents(store) == [text for text in TEXTS if text != TEXTS[4]]
    kept = [path for path in (store / "quarantine").iterdir() if path.read_bytes() == old]
    assert len(kept) == 1
    assert str(kept[0]) in shown.stdout


def test_repair_gives_up_all_from_a_byte_on(store: Path) -> None:
    damage(store, TEXTS[4])
    (file,) = (file for file in verdict(store)["files"] if file["name"].startswith("log-"))
    shown = run("repair", "--data-dir", str(store), "--cut-at", str(file["offset"]))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert contents(store) == TEXTS[:4]


def test_repair_of_a_sound_store_is_refused(store: Path) -> None:
    before = log_of(store).read_bytes()
    shown = run("repair", "--data-dir", str(store), "--skip")
    assert shown.returncode == 1
    assert "nothing is damaged" in shown.stderr
    assert log_of(store).read_bytes() == before


def test_repair_of_a_store_in_use_names_the_holder(store: Path) -> None:
    damage(store, TEXTS[-1])
    log = log_of(store)
    log.write_bytes(log.read_bytes()[: -len(TEXTS[-1]) - 40])  # so that it opens
    ledger = Ledger.open(store)
    shown = run("repair", "--data-dir", str(store), "--skip")
    ledger.close()
    assert shown.returncode == 3
    assert "in use by process" in shown.stderr


@pytest.mark.parametrize("command", [["check"], ["repair", "--skip"]])
def test_the_store_must_be_named(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONVMEM_DATA_DIR", raising=False)
    shown = run(*command)
    assert shown.returncode == 2
    assert "--data-dir" in shown.stderr


def test_checking_what_is_not_there_makes_nothing(tmp_path: Path) -> None:
    shown = run("check", "--data-dir", str(tmp_path / "none"))
    assert shown.returncode == 1
    assert not (tmp_path / "none").exists()
