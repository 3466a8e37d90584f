"""A store and the state over it, kept in step.

The ledger turns log entries into state (on replay and after a live write, by the same
``State.apply``), decides commands on it, and answers queries from it. It blocks and knows no
event loop: ``append`` may run in a writer thread while everything else stays on one thread.
Every storage error leaves it as a ``Refusal``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from convmem import codec, host, ids, views
from convmem.commands import Granted, Settled, decide
from convmem.errors import Code, InvalidRecord, Refusal
from convmem.health import health
from convmem.operations import JsonObject, MessageCommand, Query, ReadHealth
from convmem.records import Place, PutMessage, Record
from convmem.state import State
from convmem.storage import (
    Disk,
    DiskFull,
    Entry,
    Environment,
    LogError,
    OsDisk,
    StorageError,
    Store,
    StoreLocked,
)
from convmem.storage import InvalidRecord as RejectedEntry
from convmem.storage import Record as LogRecord


class Ledger:
    """An open store with its state: to the store, the `Application` over it."""

    known_types = codec.KNOWN_TYPES

    @classmethod
    def open(cls, data_dir: Path) -> "Ledger":
        """Lock, recover and replay the store of a directory. Raises Refusal."""
        environment = Environment(
            now_ms=host.now_ms, random_bytes=host.random_bytes, host_id=host.host_id()
        )
        return cls(OsDisk(data_dir), environment)

    def __init__(self, disk: Disk, environment: Environment) -> None:
        self._disk = disk
        self._environment = environment
        self._state = State(self._read)
        with _refusals():
            self._store = Store.open(disk, environment, self)
        self._last_id = self._state.last_id  # and of every id given out since

    def decide(self, command: MessageCommand) -> Granted | Settled:
        """What a command leads to. Raises Refusal."""
        now_ms = self._environment.now_ms()

        def new_id() -> bytes:
            random = self._environment.random_bytes(ids.RANDOM_BYTES)
            return ids.successor(self._last_id, now_ms, random)

        with _refusals():
            decided = decide(self._state, command, now_ms, new_id)
        if isinstance(decided, Granted) and isinstance(decided.record, PutMessage):
            self._last_id = max(self._last_id, decided.record.message.message_id)
        return decided

    def append(self, records: Sequence[LogRecord]) -> list[Entry]:
        """Make records durable, together or not at all. Raises Refusal."""
        with _refusals():
            return self._store.append(records)

    def apply(self, record: Record, entry: Entry) -> None:
        """Take a durable record into the state."""
        self._state.apply(record, _place(entry))

    def answer(self, query: Query) -> JsonObject:
        """Answer a query from the state as last applied. Raises Refusal."""
        with _refusals():
            if isinstance(query, ReadHealth):
                return health(self._state, self._store.status(), self._disk.path)
            return views.answer(self._state, query)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def restore(self, sections: Mapping[int, memoryview]) -> None:
        """Decline a snapshot: the state comes from the log alone."""
        raise RejectedEntry("snapshots are not used")

    def reset(self) -> None:
        """Forget the state, to replay the log from its start."""
        self._state = State(self._read)

    def replay(self, entry: Entry) -> None:
        """Take one record of the log into the state."""
        try:
            self._state.apply(codec.decode(entry.type, entry.payload), _place(entry))
        except InvalidRecord as error:
            raise RejectedEntry(str(error)) from error

    def _read(self, place: Place) -> Record:
        return codec.decode(*self._store.read(place.frame_offset, place.start))


@contextmanager
def _refusals() -> Iterator[None]:
    """What a caller is told of a failing store: the one place where the two meet."""
    try:
        yield
    except InvalidRecord as error:
        raise Refusal(Code.STORE_FAILED, f"{error}; run `convmem check`") from error
    except StoreLocked as error:
        raise Refusal(
            Code.BUSY,
            f"{error}; close that client, or give this one another --data-dir",
            holder=asdict(error.holder) if error.holder else None,
        ) from error
    except DiskFull as error:
        raise Refusal(
            Code.DISK_FULL, f"{error}; nothing was written. Free some space and try again"
        ) from error
    except LogError as error:
        raise Refusal(
            Code.STORE_FAILED,
            f"{error}; nothing was changed. Keep a copy of the data directory",
            file=error.name,
            offset=error.offset,
        ) from error
    except StorageError as error:
        raise Refusal(Code.STORE_FAILED, str(error)) from error


def _place(entry: Entry) -> Place:
    return Place(entry.frame_offset, entry.start)
