"""The one thread that writes to a log, beside the event loop: one piece of work after another.

A thread of our own instead of an executor's: a write goes there and back each time, and an
executor takes as long for that as the work does before and after it.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class WriterThread:
    """Started when there is something to do. Used from one event loop."""

    def __init__(self) -> None:
        self._works: SimpleQueue[_Work[object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(
        self, work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
    ) -> Result:
        """Do blocking work there. Raises what that raises; a cancelled wait leaves it at work."""
        if self._thread is None:
            # A daemon: who never closes must not keep the process from its end.
            self._thread = threading.Thread(target=self._run, name="convmem-writer", daemon=True)
            self._thread.start()
        waiting = _Work(lambda: work(*given, **named))
        self._works.put(waiting)  # type: ignore[arg-type]  # whoever waits knows what for
        return await waiting.done

    def close(self) -> None:
        """End when everything is done. Blocks until then."""
        if self._thread is not None:
            self._works.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            work.do()


class _Work(Generic[Result]):
    """Work, and the one who waits for it."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Result] = self._loop.create_future()

    def do(self) -> None:
        try:
            result = self._work()
        except BaseException as error:
            self._tell(self._fail, error)
        else:
            self._tell(self._succeed, result)

    def _tell(self, callback: Callable[..., None], outcome: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(callback, outcome)

    def _succeed(self, result: Result) -> None:
        if not self.done.done():
            self.done.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
