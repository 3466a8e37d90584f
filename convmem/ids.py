"""Message ids: ULIDs that increase strictly within a store, whatever the clock does.

    ulid := milliseconds since 1970: 48 bits   random: 80 bits        big-endian, 16 bytes

Inside, an id is its 16 bytes; outside, 26 characters of Crockford's base 32
(https://github.com/ulid/spec). Bytes and text sort alike. ``successor`` is the one that makes
new ids; it takes clock and randomness as arguments. The store keeps the greatest id it has
ever held, so order survives restarts and a clock that was set back.
"""

ID_BYTES = 16
RANDOM_BYTES = 10
_LEAP_BYTES = 8
NO_ID = bytes(ID_BYTES)


def successor(last: bytes, now_ms: int, random: bytes) -> bytes:
    """The id to give out at ``now_ms``, greater than ``last``.

    In a new millisecond it carries the ``random`` bytes (10). Within one, or when the clock
    went back, it is ``last`` plus one, which may carry over into the next millisecond.
    Raises OverflowError at the end of the year 10889, when 48 bits of milliseconds are used up.
    """
    if timestamp_ms(last) < now_ms:
        return now_ms.to_bytes(ID_BYTES - RANDOM_BYTES, "big") + random
    return (int.from_bytes(last, "big") + 1).to_bytes(ID_BYTES, "big")


def apart(last: bytes, now_ms: int, random: bytes) -> bytes:
    """The id that one of several processes gives out at ``now_ms``, greater than its ``last``.

    As ``successor``, but where that counts on, this leaps: a neighbour's id counted on from the
    same one must not be met. A leap is 64 of the ``random`` bits. Raises OverflowError as well.
    """
    if timestamp_ms(last) < now_ms:
        return successor(last, now_ms, random)
    leap = 1 + int.from_bytes(random[-_LEAP_BYTES:], "big")
    return (int.from_bytes(last, "big") + leap).to_bytes(ID_BYTES, "big")


def timestamp_ms(message_id: bytes) -> int:
    """The millisecond an id was made in, by the clock of then."""
    return int.from_bytes(message_id[: ID_BYTES - RANDOM_BYTES], "big")


def to_text(message_id: bytes) -> str:
    """The 26 characters of an id of 16 bytes."""
    from ulid import ULID  # 40 ms of imports that a host must not wait for

    return str(ULID(message_id))


def from_text(text: str) -> bytes:
    """The 16 bytes of an id. Raises ValueError for anything but a ULID in capital letters."""
    from ulid import ULID

    identifier = ULID.from_str(text)
    if str(identifier) != text:
        raise ValueError("a ULID is written in capital letters")
    return identifier.bytes
