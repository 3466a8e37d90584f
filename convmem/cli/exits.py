"""How every command ends: the exit statuses, once."""

from enum import IntEnum


class Exit(IntEnum):
    """What a script can tell from the status alone."""

    DONE = 0
    REFUSED = 1
    USAGE = 2  # argparse's own
    LOCKED = 3
    DAMAGED = 4


MEANINGS = {
    Exit.DONE: "done",
    Exit.REFUSED: "refused or failed; stderr says why",
    Exit.USAGE: "the command line is wrong",
    Exit.LOCKED: "another process has the store and does not share it, or does not answer",
    Exit.DAMAGED: "the store is damaged; `convmem check` tells where",
}
