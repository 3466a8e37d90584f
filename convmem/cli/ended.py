"""How the work of a command ends: what a person is told of a failure, and the exit status."""

import os
import sys
from collections.abc import Callable

from convmem.cli.exits import Exit
from convmem.cli.terminal import safe_text
from convmem.errors import Code, Refusal


def ended(work: Callable[[], None], *, on_invalid: Exit = Exit.USAGE) -> int:
    """Do the work of a command; the exit status. Every refusal is one sentence on stderr.

    ``on_invalid`` is the status for what the work was given and cannot be.
    """
    try:
        work()
        sys.stdout.flush()
    except Refusal as refusal:
        print(f"convmem: {safe_text(refusal.message)}", file=sys.stderr)
        return on_invalid if refusal.code is Code.INVALID_ARGUMENT else _status(refusal)
    except KeyboardInterrupt:
        return Exit.REFUSED
    except BrokenPipeError:  # who read it has seen enough, as `head` does
        _drop_output()
        return Exit.DONE
    except OSError as error:
        _drop_output()
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"convmem: {safe_text(where)}{error.strerror or error}", file=sys.stderr)
        return Exit.REFUSED
    return Exit.DONE


def _status(refusal: Refusal) -> Exit:
    match refusal.code:
        case Code.BUSY:
            return Exit.LOCKED
        case Code.STORE_FAILED if "file" in refusal.details:  # it is that which is wrong
            return Exit.DAMAGED
        case _:
            return Exit.REFUSED


def _drop_output() -> None:
    """What is left of it would fail once more when Python flushes it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
