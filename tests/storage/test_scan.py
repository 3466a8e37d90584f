"""Every way in which a log can end, by name; and that no damage passes for one of them.

An interrupted write costs the last record only. Anything else is refused, with its place.
"""

import struct
from collections.abc import Callable
from itertools import chain

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convmem.storage import (
    CorruptLog,
    Created,
    Cut,
    Ending,
    Entry,
    FormatTooNew,
    InvalidRecord,
    MemoryDisk,
    Record,
    Verdict,
    encode_batch,
    encode_frame,
)

from .support import (
    LOG,
    Notes,
    crc32c,
    environment,
    frames_of,
    header_of,
    log_of,
    open_store,
    replayed,
    scan_bytes,
)

FIRST = Record(1, b"first")
SECOND = [Record(1, b"second " * 9), Record(2, b"in one batch")]
LAST = Record(2, b"the last " * 180)
APPENDS = [[FIRST], SECOND, [LAST]]
SOUND = log_of(*APPENDS)
FRAMES = frames_of(SOUND)
(_, _, (FIRST_START, FIRST_END), (SECOND_START, SECOND_END), (LAST_START, END)) = FRAMES
SALT = header_of(SOUND).salt
NEXT_SEQ = 6
CHAIN = int.from_bytes(SOUND[LAST_START : LAST_START + 4], "little")


def flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def zeroed(data: bytes, start: int, end: int) -> bytes:
    return data[:start] + bytes(end - start) + data[end:]


def frame(type: int, payload: bytes, seq: int = NEXT_SEQ, chain: int = CHAIN) -> bytes:
    return encode_frame(type, seq, chain, SALT, payload)[0]


def bare_header(version: int = 1, flags: int = 0, length: int = 8) -> bytes:
    """A frame header that verifies, with a value that the encoder would not write."""
    head = b"CVM1" + struct.pack("<BBHIQI", 1, version, flags, length, NEXT_SEQ, CHAIN)
    return b"\1\2\3\4" + head + struct.pack("<I", crc32c(head, SALT)) + b"x" * 8


ENDINGS = [
    (Ending.CLEAN, SOUND),
    (Ending.ZERO_TAIL, SOUND + bytes(3)),
    (Ending.ZERO_TAIL, SOUND + bytes(3 << 20)),
    (Ending.SHORT_HEADER, SOUND[: LAST_START + 31]),
    (Ending.SHORT_PAYLOAD, SOUND[: LAST_START + 32]),
    (Ending.SHORT_PAYLOAD, SOUND[:-1]),
    (Ending.SHORT_PAYLOAD, SOUND[:-1] + bytes(4096)),
    (Ending.LENGTH_OVER_FRAME, SOUND + frame(1, bytes(999))[:64] + frame(1, b"", NEXT_SEQ + 1)),
    (Ending.DAMAGED_MIDDLE, flipped(SOUND, (FIRST_START + 33) * 8)),
    (Ending.BYTES_AFTER, flipped(SOUND, (END - 20) * 8) + b"x"),
    (Ending.MISSING_SECTOR, zeroed(SOUND, 1024, 1536)),
    (Ending.DAMAGED_LAST, flipped(SOUND, (END - 20) * 8)),
    (Ending.DAMAGED_LAST, zeroed(SOUND, 1025, 1536)),
    (Ending.HEADER_MIDDLE, flipped(SOUND, (FIRST_START + 13) * 8)),
    (Ending.MISSING_HEADER_SECTOR, zeroed(SOUND, LAST_START, 512)),
    (Ending.HEADER_LAST, flipped(SOUND, (LAST_START + 13) * 8)),
    (Ending.HEADER_LAST, SOUND + bytes(32) + b"x" * (3 << 20)),
    (Ending.SPLICED, SOUND[:FIRST_START] + SOUND[FIRST_END:]),
    (Ending.SPLICED, SOUND[:FIRST_START] + SOUND[FIRST_END:-1]),
    (Ending.SPLICED, SOUND + frame(1, b"", chain=CHAIN ^ 1)),
    (Ending.SPLICED, SOUND + frame(1, b"", seq=NEXT_SEQ + 1)),
    (Ending.OVER_LIMIT, SOUND + bare_header(length=(2 << 20) + 1)),
    (Ending.IMPOSSIBLE, SOUND + frame(6, b"\1\0\0\0")),
    (Ending.TOO_NEW, SOUND + frame(9, b"")),
    (Ending.TOO_NEW, SOUND + frame(6, encode_batch([FIRST, Record(9, b"")])[0])),
    (Ending.TOO_NEW, SOUND + bare_header(version=2)),
    (Ending.TOO_NEW, SOUND + bare_header(flags=1)),
]


def test_the_frames_lie_as_the_cases_need_them() -> None:
    assert LAST_START + 32 <= 512
    assert END > 1536 + 20


# The rows of the table of endings in docs/durability.md. A payload over the limit is one more
# way in which a header that verifies cannot be one of ours.
ROWS = {
    Ending.CLEAN: 1,
    Ending.ZERO_TAIL: 2,
    Ending.SHORT_HEADER: 3,
    Ending.SHORT_PAYLOAD: 4,
    Ending.LENGTH_OVER_FRAME: 5,
    Ending.DAMAGED_MIDDLE: 6,
    Ending.BYTES_AFTER: 7,
    Ending.MISSING_SECTOR: 8,
    Ending.DAMAGED_LAST: 9,
    Ending.HEADER_MIDDLE: 10,
    Ending.MISSING_HEADER_SECTOR: 11,
    Ending.HEADER_LAST: 12,
    Ending.OVER_LIMIT: 12,
    Ending.SPLICED: 13,
    Ending.TOO_NEW: 14,
    Ending.IMPOSSIBLE: 15,
}


@pytest.mark.parametrize(
    ("ending", "log"),
    ENDINGS,
    ids=[f"row_{ROWS[ending]}-{ending.name}-{n}" for n, (ending, _) in enumerate(ENDINGS)],
)
def test_ending(ending: Ending, log: bytes) -> None:
    assert scan_bytes(log).ending is ending
    disk = MemoryDisk({LOG: log})
    match ending.verdict:
        case Verdict.CLEAN:
            assert replayed(disk) == [FIRST, *SECOND, LAST]
        case Verdict.TORN:
            store = open_store(disk)
            recovery = store.status().recovery
            assert isinstance(recovery, Cut)
            assert recovery.reason == ending.reason
            assert disk.files[LOG] == log[: recovery.offset]
            assert recovery.length == len(log) - recovery.offset
            quarantined = disk.files[recovery.quarantine] if recovery.quarantine else b""
            assert quarantined == log[recovery.offset :].rstrip(b"\0")
        case Verdict.CORRUPT:
            with pytest.raises(CorruptLog, match=ending.reason) as corrupt:
                open_store(disk)
            assert corrupt.value.offset == scan_bytes(log).position.offset
            assert disk.files[LOG] == log
        case Verdict.TOO_NEW:
            with pytest.raises(FormatTooNew, match=ending.reason):
                open_store(disk)
            assert disk.files[LOG] == log


def test_every_ending_has_a_case() -> None:
    assert {ending for ending, _ in ENDINGS} == set(Ending)


def test_row_15_a_record_that_the_application_calls_impossible() -> None:
    def refuse_batched(entry: Entry) -> None:
        if entry.start and entry.type == 2:
            raise InvalidRecord("no such message")

    end = scan_bytes(SOUND, refuse_batched)
    assert (end.ending, end.detail) == (Ending.IMPOSSIBLE, "no such message")
    assert end.position.offset == SECOND_START


def test_an_unknown_ignorable_type_is_skipped() -> None:
    batch, _ = encode_batch([Record(0x90, b"?"), FIRST])
    log = SOUND + frame(0x90, b"?")
    chain = int.from_bytes(log[END : END + 4], "little")
    log += frame(6, batch, NEXT_SEQ + 1, chain)
    assert replayed(MemoryDisk({LOG: log})) == [FIRST, *SECOND, LAST, FIRST]


@pytest.mark.parametrize(
    "log", [log_of(), SOUND, log_of([FIRST], [Record(1, bytes(1700))])], ids=["new", "text", "nuls"]
)
def test_every_flipped_bit_is_refused(log: bytes) -> None:
    # Every bit of headers and small frames; of long payloads every ninth, so that each
    # place within a byte comes up.
    bits = [*range(700 * 8), *range(700 * 8, len(log) * 8, 9)]
    for bit in bits[: len(log) * 8]:
        with pytest.raises(CorruptLog):
            open_store(MemoryDisk({LOG: flipped(log, bit)}))


@pytest.mark.parametrize("zeros", [0, 7, 5000])
def test_every_truncation_costs_only_what_it_cuts(zeros: int) -> None:
    per_frame = [[], [], [FIRST], SECOND, [LAST]]
    for length in range(len(SOUND)):
        disk = MemoryDisk({LOG: SOUND[:length] + bytes(zeros)})
        kept = [
            record
            for (_, end), records in zip(FRAMES, per_frame, strict=True)
            for record in records
            if end <= length
        ]
        assert replayed(disk) == kept
        recovery = open_store(disk).status().recovery
        assert not isinstance(recovery, Cut | Created)


def test_row_18_a_creation_cut_short_is_made_again() -> None:
    for length in range(216):
        disk = MemoryDisk({LOG: log_of()[:length]})
        assert open_store(disk).status().recovery == Created()
        assert disk.files[LOG] == log_of()


@pytest.mark.parametrize("size", [512, 4096])
def test_a_zeroed_piece_of_the_middle_is_refused(size: int) -> None:
    log = log_of(*[[Record(1, b"record %d " % n * 40)] for n in range(40)])
    last_start, _ = frames_of(log)[-1]
    for start in range(0, last_start - size, size):
        with pytest.raises(CorruptLog):
            open_store(MemoryDisk({LOG: zeroed(log, start, start + size)}))


def pieces(log: bytes) -> list[bytes]:
    return [log[start:end] for start, end in frames_of(log)]


OTHER = pieces(log_of(*APPENDS, seed=2))


@pytest.mark.parametrize(
    "rearrange",
    [
        lambda frames, n: frames[:n] + frames[n + 1 :],
        lambda frames, n: [*frames[:n], frames[n], *frames[n:]],
        lambda frames, n: [*frames[:n], frames[n + 1], frames[n], *frames[n + 2 :]],
        lambda frames, n: [*frames[:n], OTHER[n], *frames[n + 1 :]],
    ],
    ids=["cut out", "duplicated", "swapped", "from another log"],
)
def test_rearranged_frames_are_refused(
    rearrange: Callable[[list[bytes], int], list[bytes]],
) -> None:
    frames = pieces(SOUND)
    for n in range(len(frames) - 1):
        log = SOUND[:64] + b"".join(rearrange(frames, n))
        with pytest.raises(CorruptLog):
            open_store(MemoryDisk({LOG: log}))


def test_the_logs_of_two_stores_differ() -> None:
    assert environment(2).random_bytes(4) != environment(1).random_bytes(4)
    assert all(a != b for a, b in zip(OTHER, pieces(SOUND), strict=True))


def test_a_log_in_a_payload_is_no_part_of_the_log() -> None:
    pasted = log_of(*APPENDS, seed=2)
    log = log_of([FIRST], [Record(1, b"look: " + pasted)])
    start, _ = frames_of(log)[-1]
    for length in range(start, len(log)):
        assert replayed(MemoryDisk({LOG: log[:length]})) == [FIRST]
    damaged = flipped(log, (start + 50) * 8)
    with pytest.raises(CorruptLog):
        open_store(MemoryDisk({LOG: damaged}))


def test_a_log_longer_than_one_window() -> None:
    big = [Record(1, bytes([65 + n]) * ((2 << 20) - n * 1000)) for n in range(6)]
    log = log_of(*[[record] for record in big], [FIRST])
    assert replayed(MemoryDisk({LOG: log})) == [*big, FIRST]
    for start, end in frames_of(log)[2:-1]:
        end_found = scan_bytes(flipped(log, (end - 9) * 8))
        assert (end_found.ending, end_found.position.offset) == (Ending.DAMAGED_MIDDLE, start)


RECORDS = st.builds(Record, st.sampled_from([1, 2, 0x81]), st.binary(max_size=600))
HISTORIES = st.lists(st.lists(RECORDS, min_size=1, max_size=4), max_size=8)


@given(HISTORIES)
def test_what_was_appended_is_replayed(history: list[list[Record]]) -> None:
    appended: list[Entry] = []
    disk = MemoryDisk()
    store = open_store(disk)
    for records in history:
        appended += store.append(records)
    store.close()
    notes = Notes()
    reopened = open_store(disk, notes)
    assert notes.entries == appended
    assert notes.records == list(chain(*history))
    for entry in notes.entries:
        record = reopened.read(entry.frame_offset, entry.start)
        assert record == (entry.type, entry.payload)


@given(HISTORIES, st.binary(min_size=1, max_size=64), st.data())
def test_a_burst_costs_at_most_the_last_record_it_hit(
    history: list[list[Record]], burst: bytes, data: st.DataObject
) -> None:
    log = log_of(*history)
    start = data.draw(st.integers(0, len(log) - 1))
    damaged = (log[:start] + burst + log[start + len(burst) :])[: len(log)]
    assume(damaged != log)
    last_start, _ = frames_of(log)[-1]
    try:
        survivors = replayed(MemoryDisk({LOG: damaged}))
    except CorruptLog:
        return
    assert history
    assert start + len(burst) > last_start
    assert survivors == list(chain(*history[:-1]))
