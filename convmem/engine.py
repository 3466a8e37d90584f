"""The owner of a store: one log, one state, and the loop that commits to both.

A write is decided on the state, appended and flushed by the one writer thread, applied, and
only then answered: nobody reads what a crash could take back. While one frame is being
flushed the next batch forms, so writes that arrive together share a flush. Reads are answered
meanwhile, from the state as last applied.

The engine promises: log order is apply order; a refused command leaves no trace; no command
waits forever; a store that failed refuses writes for good and still answers reads.
"""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from convmem import codec, commands, host, ids, views
from convmem.errors import Code, InvalidRecord, Refusal
from convmem.health import health
from convmem.message import Message
from convmem.operations import Command, JsonObject, Query, ReadHealth
from convmem.records import Place, Record
from convmem.state import State
from convmem.storage import (
    BATCH_BYTES_MAX,
    Disk,
    DiskFull,
    Entry,
    Environment,
    LogError,
    OsDisk,
    StorageError,
    Store,
    StoreLocked,
    batch_record_bytes,
)
from convmem.storage import InvalidRecord as RejectedEntry
from convmem.storage import Record as LogRecord

_CLOSING = "the server is shutting down; nothing was written"


@dataclass(slots=True)
class _Waiting:
    """A command on its way, and the one who waits for its answer."""

    command: Command
    answer: asyncio.Future[JsonObject]

    def succeed(self, answer: JsonObject) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class _Granted:
    """A command that was decided: the record to make durable, and its bytes."""

    waiting: _Waiting
    record: Record
    entry: LogRecord


class Engine:
    """A memory in this process. Create it with ``Engine.open``; one event loop uses it."""

    @classmethod
    def open(cls, data_dir: Path) -> "Engine":
        """Lock, recover and replay the store of a directory. Blocks. Raises Refusal."""
        environment = Environment(
            now_ms=host.now_ms, random_bytes=host.random_bytes, host_id=host.host_id()
        )
        try:
            return cls(OsDisk(data_dir), environment)
        except StorageError as error:
            raise refusal(error) from error

    def __init__(self, disk: Disk, environment: Environment) -> None:
        self._disk = disk
        self._environment = environment
        self._state = State(self._read)
        self._store = Store.open(
            disk, environment, known_types=codec.KNOWN_TYPES, replay=self._replay
        )
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="convmem-writer")
        self._waiting: deque[_Waiting] = deque()
        self._committer: asyncio.Task[None] | None = None
        self._last_id = self._state.last_id  # and of every id given out since
        self._closed = False

    async def execute(self, command: Command) -> JsonObject:
        """Grant a command: durable and applied when this returns. Raises Refusal."""
        if self._closed:
            raise Refusal(Code.BUSY, _CLOSING)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(command, loop.create_future())
        self._waiting.append(waiting)
        if self._committer is None:
            self._committer = loop.create_task(self._commit())
        return await waiting.answer

    async def query(self, query: Query) -> JsonObject:
        """Answer a query from the state as last applied. Raises Refusal."""
        try:
            if isinstance(query, ReadHealth):
                return health(self._state, self._store.status(), self._disk.path)
            return views.answer(self._state, query)
        except StorageError as error:
            raise refusal(error) from error

    async def close(self) -> None:
        """Finish the writes that were accepted, then let go of the store."""
        self._closed = True
        if self._committer is not None:
            await self._committer
        self._writer.shutdown()
        self._store.close()

    async def _commit(self) -> None:
        try:
            while self._waiting:
                await self._commit_batch(self._next_batch())
        finally:
            self._committer = None

    async def _commit_batch(self, batch: list[_Granted]) -> None:
        if not batch:
            return
        loop = asyncio.get_running_loop()
        try:
            entries = await loop.run_in_executor(
                self._writer, self._store.append, [granted.entry for granted in batch]
            )
            for granted, entry in zip(batch, entries, strict=True):
                self._state.apply(granted.record, _place(entry))
        except Exception as error:
            answer = refusal(error) if isinstance(error, StorageError) else error
            for granted in batch:
                granted.waiting.fail(answer)
            return
        for granted in batch:
            granted.waiting.succeed(_written(granted.record.message, created=True))

    def _next_batch(self) -> list[_Granted]:
        """The longest run of waiting commands that fits one frame and shares no message."""
        batch: list[_Granted] = []
        batch_bytes = 0
        touched: set[bytes] = set()
        while self._waiting:
            needed = commands.touched_ids(self._waiting[0].command)
            if not touched.isdisjoint(needed):
                break
            granted = self._grant(self._waiting[0])
            if granted is not None:
                batch_bytes += batch_record_bytes(len(granted.entry.payload))
                if batch and batch_bytes > BATCH_BYTES_MAX:
                    break
                batch.append(granted)
                touched |= needed
            self._waiting.popleft()
        return batch

    def _grant(self, waiting: _Waiting) -> _Granted | None:
        """Decide a command, and answer it at once where nothing has to be written."""
        if waiting.answer.done():  # cancelled before it was begun
            return None
        now_ms = self._environment.now_ms()
        try:
            decided = commands.decide(
                self._state, waiting.command, now_ms, lambda: self._new_id(now_ms)
            )
        except Exception as error:
            waiting.fail(refusal(error) if isinstance(error, StorageError) else error)
            return None
        if isinstance(decided, Message):
            waiting.succeed(_written(decided, created=False))
            return None
        self._last_id = max(self._last_id, decided.message.message_id)
        return _Granted(waiting, decided, LogRecord(*codec.encode(decided)))

    def _new_id(self, now_ms: int) -> bytes:
        return ids.successor(
            self._last_id, now_ms, self._environment.random_bytes(ids.RANDOM_BYTES)
        )

    def _replay(self, entry: Entry) -> None:
        try:
            self._state.apply(codec.decode(entry.type, entry.payload), _place(entry))
        except InvalidRecord as error:
            raise RejectedEntry(str(error)) from error

    def _read(self, place: Place) -> Record:
        return codec.decode(*self._store.read(place.frame_offset, place.start))


def refusal(error: StorageError) -> Refusal:
    """What a caller is told of a failing store: the one place where the two meet."""
    match error:
        case StoreLocked():
            return Refusal(
                Code.BUSY,
                f"{error}; close that client, or give this one another --data-dir",
                holder=asdict(error.holder) if error.holder else None,
            )
        case DiskFull():
            return Refusal(
                Code.DISK_FULL, f"{error}; nothing was written. Free some space and try again"
            )
        case LogError():
            return Refusal(
                Code.STORE_FAILED,
                f"{error}; nothing was changed. Keep a copy of the data directory",
                file=error.name,
                offset=error.offset,
            )
        case _:
            return Refusal(Code.STORE_FAILED, str(error))


def _place(entry: Entry) -> Place:
    return Place(entry.frame_offset, entry.start)


def _written(message: Message, *, created: bool) -> JsonObject:
    return {
        "message_id": ids.to_text(message.message_id),
        "timestamp": message.timestamp,
        "revision": message.revision,
        "created": created,
    }
