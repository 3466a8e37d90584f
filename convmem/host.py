"""What the store takes from the machine it runs on: clock, randomness, and who the host is."""

import os
import time
from pathlib import Path

HOST_ID_BYTES = 16


def now_ms() -> int:
    """The clock: UTC milliseconds since 1970. It may go backwards."""
    return time.time_ns() // 1_000_000


def random_bytes(count: int) -> bytes:
    """Randomness of the operating system."""
    return os.urandom(count)


def host_id() -> bytes:
    """16 bytes that are the same on this host tomorrow and tell nothing else about it.

    From the machine id where the system has one, else from the host's name.
    """
    import hashlib  # both take milliseconds that a host's greeting need not wait for
    import platform

    try:
        name = Path("/etc/machine-id").read_bytes().strip() or platform.node().encode()
    except OSError:
        name = platform.node().encode()
    return hashlib.blake2b(name, digest_size=HOST_ID_BYTES, person=b"convmem host id").digest()
