"""Two logs in one directory: every case of the table in `lineage`, and what opening does."""

import pytest

from convmem.storage import (
    CorruptLog,
    FormatTooNew,
    MemoryDisk,
    MissingLog,
    Operation,
    Record,
    encode_frame,
    log_name,
    snapshot_name,
)

from .support import (
    Notes,
    compact,
    frames_of,
    header_of,
    log_of,
    open_store,
    replayed,
    write_snapshot,
)

OLD = [Record(1, b"old %d " % number * 60) for number in range(6)]
KEPT = OLD[:3]
ADDED = Record(2, b"added " * 30)
PARENT, CHILD = log_name(1), log_name(2)


def compacted(*, parent_adds: bool = False, child_adds: bool = False) -> dict[str, bytes]:
    """A parent and its sealed child, each perhaps with a record of its own added."""
    disk = MemoryDisk()
    store = open_store(disk)
    for record in OLD:
        store.append([record])
    child = compact(store, KEPT)
    if parent_adds:
        store.append([ADDED])
        parent = disk.files[PARENT]
        store.close()
        # The child as it would have gone on.
        disk = MemoryDisk({PARENT: log_of(*[[record] for record in OLD])})
        store = open_store(disk, seed=2)
        child = compact(store, KEPT)
    else:
        parent = disk.files[PARENT]
    store.switch(child)
    if child_adds:
        store.append([ADDED])
    store.close()
    return {PARENT: parent, CHILD: disk.files[CHILD]}


PAIR = compacted()
SEAL_START, SEAL_END = frames_of(PAIR[CHILD])[-1]
FRAMES = frames_of(PAIR[PARENT])


def check(files: dict[str, bytes], records: list[Record], removed: str) -> None:
    """Opening gives the records, and removes one log; and so it does when it is interrupted."""
    disk = MemoryDisk(files)
    notes = Notes()
    status = open_store(disk, notes).status()
    assert notes.records == records
    assert status.removed == (removed,)
    assert removed not in disk.files
    again = MemoryDisk(files)
    states: list[dict[str, bytes]] = []
    again.hook = lambda operation: states.extend(again.crash_states())
    open_store(again)
    for state in states:
        assert replayed(MemoryDisk(state)) == records


def refuse(files: dict[str, bytes], reason: str) -> None:
    disk = MemoryDisk(files)
    with pytest.raises(CorruptLog, match=reason):
        open_store(disk)
    assert {name: disk.files[name] for name in files} == files


def unsealed(length: int) -> dict[str, bytes]:
    return PAIR | {CHILD: PAIR[CHILD][:length]}


@pytest.mark.parametrize("length", [0, 1, 63, 64, 100, 152, SEAL_START, SEAL_START + 1])
def test_row_19_an_unsealed_child_is_an_unfinished_compaction(length: int) -> None:
    check(unsealed(length), OLD, removed=CHILD)


@pytest.mark.parametrize("zeros", [7, 5000])
def test_row_19_an_unsealed_child_with_a_zero_tail(zeros: int) -> None:
    for length in (0, 40, 300, SEAL_END - 1):
        files = PAIR | {CHILD: PAIR[CHILD][:length] + bytes(zeros)}
        check(files, OLD, removed=CHILD)


def test_row_19_any_sectors_of_an_unsynced_child_may_be_missing() -> None:
    child = PAIR[CHILD]
    for start in range(0, len(child), 512):
        holed = child[:start] + bytes(len(child[start : start + 512])) + child[start + 512 :]
        check(PAIR | {CHILD: holed}, OLD, removed=CHILD)


def test_row_20_the_parent_ends_where_the_child_says() -> None:
    check(PAIR, KEPT, removed=PARENT)
    check(compacted(child_adds=True), [*KEPT, ADDED], removed=PARENT)


def test_row_20_a_child_with_a_torn_append() -> None:
    files = compacted(child_adds=True)
    files[CHILD] = files[CHILD][:-1]
    assert replayed(MemoryDisk(files)) == KEPT


def test_row_20_a_fresh_child_is_made_durable_before_its_parent_goes() -> None:
    """Its sync may have failed, and the process died before it removed the child."""
    disk = MemoryDisk()
    store = open_store(disk)
    store.append([ADDED])

    class Killed(BaseException):
        pass

    def hook(operation: Operation) -> None:
        if operation.kind == "sync":
            raise OSError(5, "injected")
        if operation.kind == "unlink":
            raise Killed

    disk.hook = hook
    with pytest.raises(Killed):
        compact(store, [ADDED, Record(1, b"x" * 3000)])
    disk.hook = lambda operation: None
    disk.kill()
    records = replayed(disk)
    assert PARENT not in disk.files
    for files in disk.crash_states(weak_order=True):
        assert replayed(MemoryDisk(files)) == records


@pytest.mark.parametrize(
    "parent",
    [
        b"",
        PAIR[PARENT][: FRAMES[4][0]],
        PAIR[PARENT][: FRAMES[4][0] + 20],
        PAIR[PARENT][:20] + b"?" + PAIR[PARENT][21:],
        PAIR[PARENT][:300] + b"?" + PAIR[PARENT][301:],
        PAIR[PARENT][:-9] + b"?" + PAIR[PARENT][-8:],
    ],
    ids=["empty", "shorter", "torn", "damaged header", "damaged middle", "damaged end"],
)
def test_row_21_the_parent_is_shorter_torn_or_damaged(parent: bytes) -> None:
    check(PAIR | {PARENT: parent}, KEPT, removed=PARENT)


def test_row_22_the_parent_went_on_and_the_child_did_not() -> None:
    check(compacted(parent_adds=True), [*OLD, ADDED], removed=CHILD)


def test_row_23_both_went_on() -> None:
    refuse(compacted(parent_adds=True, child_adds=True), "two histories of one store")


def test_row_23_a_damaged_parent_that_went_on() -> None:
    files = compacted(parent_adds=True)
    parent = files[PARENT]
    refuse(files | {PARENT: parent[:300] + b"?" + parent[301:]}, "others than it was made from")


def test_row_24_logs_of_two_stores() -> None:
    other = log_of(*[[record] for record in OLD], seed=5)
    refuse(PAIR | {PARENT: other}, "of another store")


def test_row_24_other_records_of_the_same_store() -> None:
    other = log_of(*[[record] for record in OLD[::-1]])
    refuse(PAIR | {PARENT: other}, "others than it was made from")
    longer = log_of(*[[record] for record in OLD[::-1]], [ADDED])
    refuse(PAIR | {PARENT: longer}, "others than it was made from")


def test_row_24_a_lower_log_that_is_not_the_parent() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    first = disk.files[PARENT]
    for _ in range(2):
        store.switch(compact(store, KEPT))
        store.retire()
    third = disk.files[log_name(3)]
    for lower in (first, first[:100]):
        refuse({PARENT: lower, log_name(3): third}, "not its parent")


def test_three_generations_of_which_none_could_be_removed() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.switch(compact(store, OLD))
    store.append([ADDED])
    store.switch(compact(store, KEPT))
    store.close()
    disk = MemoryDisk(disk.files)
    status = open_store(disk).status()
    assert status.removed == (PARENT, CHILD)
    assert disk.files.keys() == {"store.lock", log_name(3)}


def test_row_23_an_elder_that_went_on() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.switch(compact(store, OLD))
    store.append([ADDED])
    store.switch(compact(store, KEPT))
    store.close()
    elder = MemoryDisk({PARENT: disk.files[PARENT]})
    other = open_store(elder)
    other.append([ADDED])
    other.close()
    refuse(
        {name: disk.files[name] for name in (CHILD, log_name(3))} | {PARENT: elder.files[PARENT]},
        "went on",
    )


def test_a_log_between_two_others_that_is_damaged() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    store.switch(compact(store, OLD))
    store.switch(compact(store, KEPT))
    store.close()
    files = {name: data for name, data in disk.files.items() if name.endswith(".cvl")}
    refuse(files | {CHILD: files[CHILD][:20] + b"?" + files[CHILD][21:]}, "it is damaged")


def test_a_child_in_use_that_is_damaged_is_no_unfinished_compaction() -> None:
    files = compacted(child_adds=True)
    child = files[CHILD]
    refuse(files | {CHILD: child[:200] + b"?" + child[201:]}, "byte 152")
    refuse(files | {CHILD: child[:20] + b"?" + child[21:]}, "header does not verify")
    refuse(files | {CHILD: child[:-9] + b"?" + child[-8:]}, "written whole and is damaged")


@pytest.mark.parametrize("name", [PARENT, CHILD])
def test_a_newer_log_is_left_to_the_newer_version(name: str) -> None:
    log = PAIR[name]
    header = header_of(log)
    chain = int.from_bytes(log[frames_of(log)[-1][0] :][:4], "little")
    seq = header.first_seq + len(frames_of(log))
    newer = log + encode_frame(77, seq, chain, header.salt, b"?")[0]
    with pytest.raises(FormatTooNew, match="type 77"):
        open_store(MemoryDisk(PAIR | {name: newer}))


@pytest.mark.parametrize("others", [{}, {PARENT: PAIR[PARENT]}], ids=["alone", "with a parent"])
def test_a_log_under_another_name_is_refused(others: dict[str, bytes]) -> None:
    refuse(others | {log_name(3): PAIR[CHILD]}, "another generation than its name says")


def test_a_snapshot_of_a_log_that_is_gone_is_refused() -> None:
    disk = MemoryDisk()
    notes = Notes()
    store = open_store(disk, notes)
    first = disk.files[PARENT]
    store.switch(compact(store, []))
    write_snapshot(store, notes)
    store.close()
    name = snapshot_name(2, 5)
    with pytest.raises(MissingLog, match=name):
        open_store(MemoryDisk({PARENT: first, name: disk.files[name]}))
