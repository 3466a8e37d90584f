"""The thread that indexes what is too much for a search to index on its way.

It works beside the event loop, on one batch of notes at a time, and never holds up a write.
"""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

from convmem.errors import Code, Refusal
from convmem.ledger import Ledger
from convmem.limits import INDEX_WAIT_S


class IndexThread:
    """Keeps the index of a ledger near its state. Used from one event loop."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="convmem-index")
        self._work: Future[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Begin what there is to do, if it is much and nothing is being done."""
        if self._work is not None and self._work.done():
            self._work = None
        if self._work is None and not self._closed and self._ledger.is_index_far_behind:
            self._work = self._thread.submit(self._ledger.catch_up())

    async def done(self) -> None:
        """Wait until little is left to index."""
        self.start()
        while self._work is not None:
            await asyncio.shield(asyncio.wrap_future(self._work))
            self.start()

    async def done_in_time(self) -> None:
        """The same, but not for ever: raises Refusal (BUSY) then."""
        try:
            async with asyncio.timeout(INDEX_WAIT_S):
                await self.done()
        except TimeoutError:
            raise Refusal(
                Code.BUSY,
                "the search index is still being made from the log; ask again in a while, or "
                "read with read_messages. get_system_health tells what is left (search)",
            ) from None

    async def interrupt(self) -> None:
        """Have what is under way end soon. Nothing is, until the caller next waits."""
        while self._work is not None and not self._work.done():  # a search may begin it again
            self._ledger.stop_indexing()
            await asyncio.wait([asyncio.wrap_future(self._work)])

    async def close(self) -> None:
        """End soon; what was indexed so far counts."""
        self._closed = True
        self._ledger.stop_indexing()
        await asyncio.to_thread(self._thread.shutdown)
