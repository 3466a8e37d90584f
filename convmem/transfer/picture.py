"""A memory as it is at one moment, to be read in peace, whoever owns it."""

from collections.abc import Iterator
from contextlib import contextmanager

from convmem import codec
from convmem.refusals import refusals
from convmem.replica import Replica
from convmem.state import State
from convmem.storage import Disk, open_view


@contextmanager
def picture(disk: Disk, generation: int, log_bytes: int) -> Iterator[State]:
    """The state that the first bytes of a generation's log lead to: what its owner says is there.

    Raises Refusal, as where a rebuild has removed that log meanwhile.
    """
    with refusals():
        replica = Replica(lambda place: codec.decode(*log.read(place.frame_offset, place.start)))
        log = open_view(disk, generation, log_bytes, replica)
        try:
            yield replica.state
        finally:
            log.close()
