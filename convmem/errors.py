"""What a caller can do wrong, and what the store can refuse.

Every refusal that reaches a caller is a ``Refusal``: a code from a closed list, a sentence
that says what was wrong, where and what to do, and fields a program can use. The tools turn
it into a tool error, the command line into an exit status; nothing else does.
"""

from enum import StrEnum


class Code(StrEnum):
    """Who must act: the caller (to STALE_CURSOR), nobody, in a moment (BUSY), or the operator."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    CONFLICT = "CONFLICT"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    STALE_CURSOR = "STALE_CURSOR"
    BUSY = "BUSY"
    DISK_FULL = "DISK_FULL"
    STORE_FAILED = "STORE_FAILED"
    INTERNAL = "INTERNAL"


class Refusal(Exception):
    """A request that was not granted. What it asked for may be trusted not to have happened,
    but where a write failed in the middle: then the store takes no more writes.
    """

    def __init__(self, code: Code, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class StoreInUse(Refusal):
    """Another process, or another memory of this one, has the store.

    ``endpoint`` is where its holder takes guests, None if it does not, or not yet.
    """

    def __init__(self, message: str, endpoint: str | None, **details: object) -> None:
        super().__init__(Code.BUSY, message, **details)
        self.endpoint = endpoint


class InvalidRecord(ValueError):
    """Bytes of the log that verify but cannot be a record, or one that cannot follow its past."""
