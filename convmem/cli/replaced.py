"""A file written anew: it takes its place when all of it is safely on disk, and only then."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from convmem.errors import Code, Refusal

PRIVATE = 0o600


@contextmanager
def replaced(path: Path, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """A file to write, put in the place of ``path`` at the end. A link's target is replaced.

    Raises Refusal where it cannot be written; what was there is left as it was.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            text = f"{path} cannot be written: {error.strerror or error}; it was left as it was"
            raise Refusal(Code.STORE_FAILED, text) from error
        raise
    with contextlib.suppress(OSError):  # not every system has folders to flush
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
