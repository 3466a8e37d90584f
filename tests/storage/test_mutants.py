"""Bugs planted on purpose, each of which the matrix must catch: a test of the tests.

Some are a disk that leaves out what it was told to do, the others replace a function of the
library for the time of a test.
"""

import importlib
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from convmem.storage import (
    Adopted,
    Ending,
    FileHeader,
    MemoryDisk,
    StorageError,
    Store,
    log_name,
)

from .crashes import (
    WORKLOADS,
    check_fault,
    check_kill,
    check_power_cut,
    check_power_cut_within_recovery,
    faults_at,
    operations_of,
    power_cuts,
)
from .support import LOG, replayed
from .test_scan import SOUND, flipped

MEMORY_FILE = type(MemoryDisk({"a.bin": b""}).open("a.bin"))


def module(name: str) -> ModuleType:
    """A module of the library, behind its façade."""
    return importlib.import_module(f"{Store.__module__.rpartition('.')[0]}.{name}")


def nothing(*arguments: object, **more: object) -> None:
    """What a mutant does in the place of something."""


def power_fails(workload: str) -> None:
    for files, allowed in power_cuts(WORKLOADS[workload], weak_order=True):
        check_power_cut(files, allowed)


def power_fails_within_recovery(workload: str) -> None:
    for files, allowed in power_cuts(WORKLOADS[workload], weak_order=True):
        check_power_cut_within_recovery(files, allowed)


def process_dies(workload: str) -> None:
    for operation in operations_of(WORKLOADS[workload]):
        check_kill(WORKLOADS[workload], operation)


def sync_fails_and_process_dies(workload: str) -> None:
    for operation in operations_of(WORKLOADS[workload]):
        if operation.kind == "sync":
            check_kill(WORKLOADS[workload], operation, failing=True)


def faults(workload: str) -> None:
    for operation in operations_of(WORKLOADS[workload]):
        for fault in faults_at(operation):
            check_fault(WORKLOADS[workload], operation, fault, persistent=False)


def bits_flip(workload: str) -> None:
    for bit in range(64 * 8, len(SOUND) * 8, 3):
        with suppress(StorageError):
            replayed(MemoryDisk({LOG: flipped(SOUND, bit)}))
            raise AssertionError(f"bit {bit} changed nothing")


def acknowledge_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MEMORY_FILE, "sync_data", nothing)


def do_not_sync_the_directory_of_a_new_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryDisk, "sync_directory", nothing)


def do_not_sync_a_new_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MEMORY_FILE, "sync", nothing)


def remove_the_old_log_before_the_new_one_is_sealed(patch: pytest.MonkeyPatch) -> None:
    write = module("store").write_generation

    def early(disk: MemoryDisk, header: FileHeader, *arguments: Any) -> Any:
        disk.unlink(log_name(header.parent))
        return write(disk, header, *arguments)

    patch.setattr(module("store"), "write_generation", early)


def do_not_truncate_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MEMORY_FILE, "truncate", nothing)


def accept_a_snapshot_of_another_generation(patch: pytest.MonkeyPatch) -> None:
    load = module("snapshot").load

    def adopt(disk: MemoryDisk, file: Any, header: FileHeader, listing: Any, notes: Any) -> Any:
        for generation, _, name in reversed(listing.snapshots):
            with closing(disk.open(name)) as snapshot:
                salt = int.from_bytes(snapshot.pread(40, 4), "little")
            loaded = load(disk, name, replace(header, generation=generation, salt=salt))
            if hasattr(loaded, "sections"):
                notes.restore(loaded.sections)
                return Adopted(name, loaded.position)
        return None

    patch.setattr(module("recovery"), "_adopt", adopt)


def do_not_sync_at_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module("recovery"), "_write_again", nothing)


def trust_a_fresh_log_that_was_never_synced(patch: pytest.MonkeyPatch) -> None:
    write_again = module("recovery")._write_again

    def last_frame_only(file: Any, end: Any, *, whole: bool) -> None:
        write_again(file, end, whole=False)

    patch.setattr(module("recovery"), "_write_again", last_frame_only)


def ignore_the_crc_of_a_frame_header(patch: pytest.MonkeyPatch) -> None:
    def torn(*arguments: object) -> tuple[Ending, str]:
        return Ending.SHORT_PAYLOAD, ""

    patch.setattr(module("scan"), "_judge_header", torn)


def cut_whatever_does_not_verify(patch: pytest.MonkeyPatch) -> None:
    def torn(*arguments: object) -> tuple[Ending, str]:
        return Ending.SHORT_PAYLOAD, ""

    patch.setattr(module("scan"), "_judge", torn)


def go_on_after_a_failed_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module("log").Log, "_fail", nothing)


def take_an_unsealed_log_for_a_store(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module("lineage"), "_is_unfinished", lambda log: False)


def always_prefer_the_newer_log(patch: pytest.MonkeyPatch) -> None:
    superseded = module("lineage")._Relation.SUPERSEDED
    patch.setattr(module("lineage"), "_relation", lambda child, parent: superseded)


def remove_leftovers_in_any_order(patch: pytest.MonkeyPatch) -> None:
    remove = module("recovery").remove_if_possible

    def remove_logs(disk: MemoryDisk, names: list[str]) -> list[str]:
        return [name for name in names if not remove(disk, name)]

    patch.setattr(module("store"), "remove_logs", remove_logs)


Explorer = Callable[[str], None]
MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Explorer, str]] = [
    (acknowledge_without_a_sync, power_fails, "appends"),
    (do_not_sync_the_directory_of_a_new_log, power_fails, "appends"),
    (do_not_sync_a_new_log, power_fails, "compacted"),
    (remove_the_old_log_before_the_new_one_is_sealed, power_fails, "compacted"),
    (do_not_truncate_a_torn_tail, power_fails, "appends"),
    (accept_a_snapshot_of_another_generation, power_fails, "rebuilt"),
    (do_not_sync_at_open, process_dies, "appends"),
    (trust_a_fresh_log_that_was_never_synced, sync_fails_and_process_dies, "compacted"),
    (ignore_the_crc_of_a_frame_header, bits_flip, ""),
    (cut_whatever_does_not_verify, bits_flip, ""),
    (go_on_after_a_failed_sync, faults, "appends"),
    (take_an_unsealed_log_for_a_store, power_fails, "compacted"),
    (always_prefer_the_newer_log, faults, "compacted"),
    (remove_leftovers_in_any_order, faults, "twice"),
]


@pytest.mark.parametrize(
    ("plant", "explore", "workload"), MUTANTS, ids=[plant.__name__ for plant, _, _ in MUTANTS]
)
def test_a_planted_bug_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None],
    explore: Explorer,
    workload: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    explore(workload)
    plant(monkeypatch)
    with pytest.raises((AssertionError, StorageError)):
        explore(workload)
