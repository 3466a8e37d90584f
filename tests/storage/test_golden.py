"""Folders written by the first version of the format, which every later one opens."""

import json
import shutil
from pathlib import Path

import pytest

from convmem.storage import Finding, OsDisk, Record, check

from .make_golden import EXPECTED, FOLDER, MAKERS
from .support import Notes, open_store, replayed

MORE = Record(1, b"more")


def test_no_folder_is_missing() -> None:
    assert {folder.name for folder in FOLDER.iterdir()} == MAKERS.keys()


@pytest.mark.parametrize("name", MAKERS)
def test_a_folder_of_the_first_version_opens(name: str, tmp_path: Path) -> None:
    store_folder = tmp_path / "store"
    shutil.copytree(FOLDER / name, store_folder)
    (store_folder / EXPECTED).unlink()
    expected = [
        Record(type, bytes.fromhex(payload))
        for type, payload in json.loads((FOLDER / name / EXPECTED).read_text())
    ]
    disk = OsDisk(store_folder)
    finding = check(disk, Notes()).finding
    assert finding is (Finding.TORN if name == "torn" else Finding.SOUND)
    notes = Notes()
    store = open_store(disk, notes)
    assert notes.records == expected
    store.append([MORE])
    store.close()
    assert replayed(disk) == [*expected, MORE]
