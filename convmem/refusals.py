"""What a caller is told of a failing store: the one place where the two meet."""

from collections.abc import Iterator
from contextlib import contextmanager

from convmem.errors import Code, InvalidRecord, Refusal
from convmem.in_use import in_use
from convmem.storage import (
    DiskFull,
    FormatTooNew,
    LogError,
    MissingLog,
    StorageError,
    StoreFailed,
    StoreLocked,
)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the store raises into a Refusal."""
    try:
        yield
    except InvalidRecord as error:
        raise Refusal(Code.STORE_FAILED, f"{error}; `convmem check` tells more") from error
    except StoreLocked as error:
        raise in_use(error) from error
    except DiskFull as error:
        raise Refusal(
            Code.DISK_FULL, f"{error}; nothing was written. Free some space and try again"
        ) from error
    except FormatTooNew as error:
        raise Refusal(
            Code.STORE_FAILED,
            f"{error}; nothing was changed. Use the convmem that wrote it, or a newer one",
        ) from error
    except LogError as error:
        raise Refusal(
            Code.STORE_FAILED,
            f"{error}; nothing was changed. `convmem check` tells more, `convmem repair` mends",
            file=error.name,
            offset=error.offset,
        ) from error
    except MissingLog as error:
        text = f"{error}; nothing was changed. Put it back, or begin anew in another directory"
        raise Refusal(Code.STORE_FAILED, text, file=", ".join(error.found)) from error
    except StoreFailed as error:
        raise Refusal(Code.STORE_FAILED, f"{error}; restart the server") from error
    except StorageError as error:
        raise Refusal(Code.STORE_FAILED, str(error)) from error
