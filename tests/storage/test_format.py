"""Values to bytes and back; the bytes themselves, once, literally."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.storage import (
    BATCH_BYTES_MAX,
    CREATION_BYTES,
    PAYLOAD_BYTES_MAX,
    FileHeader,
    Generation,
    HeaderFault,
    InvalidRecord,
    Origin,
    Record,
    Seal,
    batch_record_bytes,
    decode_batch,
    decode_frame,
    decode_generation,
    decode_header,
    decode_seal,
    encode_batch,
    encode_frame,
    encode_generation,
    encode_header,
    encode_seal,
    frame_bytes,
)

from .support import crc32c, log_of

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
SIXTEEN = st.binary(min_size=16, max_size=16)
RECORDS = st.lists(st.builds(Record, st.sampled_from([1, 2, 0x81]), st.binary(max_size=70)))
# Runs of one byte, long enough to fill sectors, between bytes of every kind.
RUNS = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.builds(lambda byte, n: bytes([byte]) * n, st.integers(0, 255), st.integers(500, 1600)),
    ),
    max_size=5,
).map(b"".join)


def test_a_new_log_byte_by_byte() -> None:
    salt = bytes([7, 20, 33, 46])
    now = 1_700_000_000_000
    store_id = now.to_bytes(6, "big") + bytes(12 + 13 * index for index in range(10))
    header = b"\x89CVL\r\n\x1a\n" + struct.pack("<HH", 1, 64) + salt + struct.pack("<Q", 1)
    header += store_id + struct.pack("<QQI", 1, 0, 0)
    header += struct.pack("<I", crc32c(header))

    def frame(type: int, seq: int, chain: bytes, payload: bytes) -> bytes:
        seed = int.from_bytes(salt, "little")
        head = b"CVM1" + struct.pack("<BBHIQ", type, 1, 0, len(payload), seq) + chain
        head += struct.pack("<I", crc32c(head, seed))
        rest = head + payload + b"\xa8" * 8
        return struct.pack("<I", crc32c(rest, seed)) + rest

    host = bytes(range(16))
    generation = frame(4, 1, salt, struct.pack("<QQIB3xq", 0, 0, 0, 0, now) + host)
    seal = frame(5, 2, generation[:4], struct.pack("<QQQ", 0, 0, 0))
    assert log_of() == header + generation + seal
    assert len(log_of()) == CREATION_BYTES == 216


@given(st.builds(FileHeader, U32, U64, SIXTEEN, U64, U64))
def test_file_header(header: FileHeader) -> None:
    data = encode_header(header)
    assert len(data) == 64
    assert decode_header(data) == header
    assert decode_header(data[:-1]) is HeaderFault.DAMAGED


@given(
    st.builds(
        Generation, U64, U64, U32, st.sampled_from(Origin), st.integers(0, 2**63 - 1), SIXTEEN
    )
)
def test_generation(generation: Generation) -> None:
    assert decode_generation(encode_generation(generation)) == generation


@given(st.builds(Seal, U64, st.tuples(U64, U64)))
def test_seal(seal: Seal) -> None:
    assert decode_seal(encode_seal(seal)) == seal


@given(RECORDS)
def test_batch(records: list[Record]) -> None:
    payload, starts = encode_batch(records)
    decoded = decode_batch(payload)
    assert [record for _, record in decoded] == records
    assert [start for start, _ in decoded] == starts
    for start, record in decoded:
        assert payload[start : start + len(record.payload)] == record.payload
    assert len(payload) == 4 + sum(batch_record_bytes(len(record.payload)) for record in records)


@given(RECORDS, st.binary(max_size=9))
def test_a_batch_of_another_length_is_invalid(records: list[Record], more: bytes) -> None:
    payload, _ = encode_batch([*records, Record(1, b"x")])
    for wrong in (payload[: -1 - len(more)], payload + more + b"\0"):
        with pytest.raises(InvalidRecord):
            decode_batch(wrong)


@pytest.mark.parametrize("type", [4, 5, 6])
def test_a_batch_does_not_hold_the_logs_own_records(type: int) -> None:
    with pytest.raises(InvalidRecord, match="of the log itself"):
        decode_batch(encode_batch([Record(type, b"")])[0])


@pytest.mark.parametrize("payload", [b"", bytes(47), bytes(20) + b"\x04" + bytes(27)])
def test_impossible_generation(payload: bytes) -> None:
    with pytest.raises(InvalidRecord):
        decode_generation(payload)


def test_impossible_seal() -> None:
    with pytest.raises(InvalidRecord):
        decode_seal(bytes(23))


@given(st.one_of(st.binary(max_size=100), RUNS), U32, U32, st.integers(0, 2**63))
def test_frame(payload: bytes, salt: int, chain: int, seq: int) -> None:
    data, crc = encode_frame(1, seq, chain, salt, payload)
    assert len(data) == frame_bytes(len(payload))
    assert len(data) % 8 == 0
    assert data[-1] != 0
    assert bytes(512) not in data
    assert int.from_bytes(data[:4], "little") == crc
    assert decode_frame(data, salt) == (seq, 1, payload)
    assert decode_frame(data, salt ^ 1) is None
    assert decode_frame(data[:-1], salt) is None
    assert decode_frame(data + b"\0", salt) is None


@given(st.binary(max_size=60), st.data())
def test_a_frame_with_a_flipped_bit_does_not_verify(payload: bytes, data: st.DataObject) -> None:
    frame, _ = encode_frame(1, 5, 6, 7, payload)
    bit = data.draw(st.integers(0, len(frame) * 8 - 1))
    damaged = bytearray(frame)
    damaged[bit // 8] ^= 1 << bit % 8
    assert decode_frame(bytes(damaged), 7) is None


def test_limits() -> None:
    assert len(encode_frame(1, 1, 0, 0, b"x" * PAYLOAD_BYTES_MAX)[0]) > PAYLOAD_BYTES_MAX
    with pytest.raises(InvalidRecord, match="2097152 are allowed"):
        encode_frame(1, 1, 0, 0, b"x" * (PAYLOAD_BYTES_MAX + 1))
    room = BATCH_BYTES_MAX - batch_record_bytes(8) - 8 - 4
    room -= room % 8
    assert len(encode_batch([Record(1, b"x" * room), Record(1, b"12345678")])[0]) <= 1 << 20
    with pytest.raises(InvalidRecord, match="1048576 are allowed"):
        encode_batch([Record(1, b"x" * (room + 1)), Record(1, b"12345678")])


def test_a_payload_that_no_mask_can_whiten_is_refused() -> None:
    runs = b"".join(bytes([byte]) * 512 for byte in range(256))
    assert decode_frame(encode_frame(1, 1, 0, 0, runs[:-512])[0], 0) == (1, 1, runs[:-512])
    with pytest.raises(InvalidRecord, match="equal bytes"):
        encode_frame(1, 1, 0, 0, runs)


@pytest.mark.parametrize(
    ("at", "value"), [(8, 2), (10, 72), (56, 1)], ids=["major", "size", "flags"]
)
def test_a_newer_header_is_not_called_damaged(at: int, value: int) -> None:
    header = bytearray(log_of()[:60])
    header[at] = value
    assert decode_header(bytes(header) + struct.pack("<I", crc32c(header))) is HeaderFault.TOO_NEW
