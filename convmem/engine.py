"""The owner of a store on an event loop: the loop that commits, and the one writer thread.

A write is decided on the state, appended and flushed by the writer thread, applied, and only
then answered: nobody reads what a crash could take back. While one frame is being flushed
the next batch forms, so writes that arrive together share a flush. Reads are answered
meanwhile, from the state as last applied.

The engine promises: log order is apply order; a refused command leaves no trace; no command
waits forever; a store that failed refuses writes for good and still answers reads.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from convmem import codec
from convmem.commands import Granted, Settled, touched
from convmem.errors import Code, Refusal
from convmem.index_thread import IndexThread
from convmem.ledger import Ledger
from convmem.limits import BUSY_TIMEOUT_MS
from convmem.memory import OnChange, OnProgress
from convmem.operations import (
    Command,
    JsonObject,
    Query,
    ReadHealth,
    RebuildIndex,
    SearchFacts,
    SearchMessages,
    WriteCommand,
)
from convmem.recall import OFF, Recall, Wanted
from convmem.storage import BATCH_BYTES_MAX, Disk, Record, batch_record_bytes
from convmem.writer_thread import WriterThread


@dataclass(slots=True)
class _Waiting:
    """A command on its way, and the one who waits for its answer."""

    command: Command
    on_progress: OnProgress | None
    answer: asyncio.Future[JsonObject]

    is_begun: bool = False

    def expire(self) -> None:
        """Give up waiting for its turn."""
        if not self.is_begun:
            text = "the store is busy being rebuilt, or its disk is slow; nothing was written"
            self.fail(Refusal(Code.BUSY, f"{text}. Try again in a while"))

    def succeed(self, answer: JsonObject | Refusal) -> None:
        if isinstance(answer, Refusal):
            self.fail(answer)
        elif not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class _Write:
    """A command that was granted: what to make durable, and who waits for it."""

    waiting: _Waiting
    granted: Granted
    entry: Record


class Engine:
    """A memory in this process. One event loop uses it."""

    def __init__(
        self,
        ledger: Ledger,
        busy_timeout_s: float = BUSY_TIMEOUT_MS / 1000,
        recall: Wanted = OFF,
    ) -> None:
        self._ledger = ledger
        self._recall = Recall(ledger, recall)
        self._busy_timeout_s = busy_timeout_s
        self._writer = WriterThread()
        self._waiting: deque[_Waiting] = deque()
        self._committer: asyncio.Task[None] | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._index_thread = IndexThread(ledger)
        self._watchers: set[OnChange] = set()
        self._closed = False
        self._index_thread.start()

    @classmethod
    def open(
        cls,
        place: Path | Disk,
        *,
        allow_network: bool = False,
        audit: bool = True,
        busy_timeout_s: float = BUSY_TIMEOUT_MS / 1000,
        recall: Wanted = OFF,
    ) -> "Engine":
        """Open the store of a directory. Blocks. Raises Refusal."""
        return cls(Ledger.open(place, allow_network, audit), busy_timeout_s, recall)

    def publish(self, endpoint: str) -> None:
        """Let those who find the store in use know how to reach this process. Raises Refusal."""
        self._ledger.publish(endpoint)

    def note_error(self, text: str) -> None:
        """Have the health report tell of something that cost nobody an answer."""
        self._ledger.last_error = text

    async def execute(
        self,
        command: Command,
        on_progress: OnProgress | None = None,
        patience_s: float | None = None,
    ) -> JsonObject:
        """Grant a command: durable and applied when this returns. Raises Refusal.

        A write waits for its turn no longer than the busy timeout, or the patience of who asks
        where that is given; a rebuild takes its time.
        """
        if self._closed:
            raise Refusal(Code.BUSY, "the server is shutting down; nothing was written")
        self._recall.note_call()
        loop = asyncio.get_running_loop()
        waiting = _Waiting(command, on_progress, loop.create_future())
        self._waiting.append(waiting)
        if self._committer is None:
            self._committer = loop.create_task(self._commit())
        if isinstance(command, RebuildIndex):
            return await waiting.answer
        if patience_s is None:
            patience_s = self._busy_timeout_s
        patience = loop.call_later(patience_s, waiting.expire)
        try:
            return await waiting.answer
        finally:
            patience.cancel()

    def watch(self, on_change: OnChange) -> None:
        """Tell of every change from now on, right after it was applied."""
        self._watchers.add(on_change)

    def unwatch(self, on_change: OnChange) -> None:
        """Tell no more."""
        self._watchers.discard(on_change)

    async def query(self, query: Query) -> JsonObject:
        """Answer a query from the state as last applied. Raises Refusal."""
        self._refuse_closed()
        self._recall.note_call()
        if isinstance(query, SearchMessages | SearchFacts):
            mode = query.mode if isinstance(query, SearchMessages) else "auto"
            meaning = await self._recall.meaning(query.query, mode)
            await self._index_thread.done_in_time()
            self._refuse_closed()
            return self._ledger.answer(query, meaning)
        answer = self._ledger.answer(query)
        return answer | {"semantic": self._recall.health()} if _is_health(query) else answer

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Refusal(Code.BUSY, "the server is shutting down")

    async def close(self) -> None:
        """Finish the writes that were accepted, save a snapshot, let go of the store."""
        self._closed = True
        try:
            if self._committer is not None:
                await self._committer
            if self._snapshot is not None:
                await self._snapshot
            await self._index_thread.close()
            await self._recall.close()
            self._begin_snapshot()
            if self._snapshot is not None:
                await self._snapshot
        finally:
            self._writer.close()
            self._ledger.close()

    async def _commit(self) -> None:
        try:
            while self._waiting:
                if isinstance(self._waiting[0].command, RebuildIndex):
                    await self._rebuild(self._waiting.popleft())
                elif batch := self._next_batch():
                    await self._commit_batch(batch)
                self._index_thread.start()
                self._recall.note_change()
                if self._ledger.snapshot_due and self._snapshot is None:
                    self._begin_snapshot()
        except Exception as error:  # a mistake of ours: but nobody may wait for ever
            self._ledger.last_error = f"the commit loop failed: {error!r}"
            while self._waiting:
                self._waiting.popleft().fail(error)
        finally:
            self._committer = None

    def _begin_snapshot(self) -> None:
        """Take a picture of the state, now, and write it beside the writes that go on."""
        try:
            write = self._ledger.snapshot()
        except Exception as error:
            self._ledger.last_error = f"no snapshot could be taken: {error}"
        else:
            self._snapshot = asyncio.create_task(self._save(write))

    async def _save(self, write: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(write)
        except Exception as error:  # the next start replays more; nothing is lost
            self._ledger.last_error = f"no snapshot could be written: {error}"
        finally:
            self._snapshot = None

    async def _rebuild(self, waiting: _Waiting) -> None:
        """Compact the log. Writes wait until all is done, reads do not."""
        if waiting.answer.done():  # cancelled before it was begun
            return
        loop = asyncio.get_running_loop()
        before = self._ledger.log_bytes

        def on_progress(done: int, total: int) -> None:
            if waiting.on_progress is not None:
                asyncio.run_coroutine_threadsafe(waiting.on_progress(done, total), loop)

        try:
            if self._snapshot is not None:
                await self._snapshot
            rebuilt = await self._writer.run(self._ledger.compact, on_progress)
            if rebuilt is None:
                self._ledger.renew_index()
            else:
                await self._recall.stand_still()  # both read the old log
                try:
                    await self._index_thread.interrupt()
                    self._ledger.switch(rebuilt)
                    self._recall.leave()
                    await asyncio.to_thread(self._ledger.retire)
                finally:
                    self._recall.go_on()
                self._begin_snapshot()
                if self._snapshot is not None:
                    await self._snapshot
        except Exception as error:
            waiting.fail(error)
            return
        waiting.succeed(
            {
                "rebuilt": rebuilt is not None,
                "live": self._ledger.live,
                "bytes_before": before,
                "bytes_after": self._ledger.log_bytes,
                "dropped_links": rebuilt.dropped_links if rebuilt is not None else 0,
            }
        )

    async def _commit_batch(self, batch: list[_Write]) -> None:
        records = [write.entry for write in batch]
        try:
            entries = await self._writer.run(self._ledger.append, records)
            for write, entry in zip(batch, entries, strict=True):
                self._ledger.apply(write.granted.record, entry)
        except Exception as error:
            for write in batch:
                write.waiting.fail(error)
        else:
            for write in batch:
                write.waiting.succeed(write.granted.answer)
                self._tell(write.granted)

    def _tell(self, granted: Granted) -> None:
        if self._watchers and (change := self._ledger.change(granted.record)) is not None:
            for on_change in tuple(self._watchers):
                try:
                    on_change(change)
                except Exception as error:  # the write stands all the same
                    self.note_error(f"a change was not told of: {error!r}")

    def _next_batch(self) -> list[_Write]:
        """The longest run of waiting commands that fits one frame and shares no message.

        An id just given out counts: a caller may guess it, and bring it as its own.
        """
        batch: list[_Write] = []
        batch_bytes = 0
        depended_on: set[bytes | str] = set()
        while self._waiting:
            command = self._waiting[0].command
            if isinstance(command, RebuildIndex):
                break
            needed = touched(command)
            if not depended_on.isdisjoint(needed):
                break
            write = self._decide(self._waiting[0], command)
            if write is not None:
                batch_bytes += batch_record_bytes(len(write.entry.payload))
                if batch and batch_bytes > BATCH_BYTES_MAX:
                    break
                write.waiting.is_begun = True
                batch.append(write)
                depended_on |= needed | {write.granted.given_id}
            self._waiting.popleft()
        return batch

    def _decide(self, waiting: _Waiting, command: WriteCommand) -> _Write | None:
        """Decide a command, and answer it at once where nothing has to be written."""
        if waiting.answer.done():  # cancelled before it was begun
            return None
        try:
            decided = self._ledger.decide(command)
            if isinstance(decided, Settled):
                waiting.succeed(decided.answer)
                return None
            return _Write(waiting, decided, Record(*codec.encode(decided.record)))
        except Exception as error:
            waiting.fail(error)
            return None


def _is_health(query: Query) -> bool:
    return isinstance(query, ReadHealth)
