"""The server: what is offered, over any transport; and the whole life of a server process."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from . import stdio
from .offer import Offer
from .prompts import Prompt
from .resources import Resource
from .session import OnCall, Session
from .tools import Tool
from .transport import Transport


class Server:
    """What is served under a name. One server may serve any number of transports.

    ``tools``, ``resources`` and ``prompts`` are gone through when they are first asked for: a
    generator may import them then, so that the handshake need not wait for it.
    """

    def __init__(
        self,
        name: str,
        title: str,
        version: str,
        tools: Iterable[Tool[Any]],
        instructions: str | None = None,
        on_call: OnCall | None = None,
        resources: Iterable[Resource] | None = None,
        prompts: Iterable[Prompt[Any]] | None = None,
    ) -> None:
        self._offer = Offer(name, title, version, instructions, tools, resources, prompts)
        self._on_call = on_call

    async def serve(
        self, transport: Transport, answered: Callable[[], None] = lambda: None
    ) -> None:
        """Serve until the input ends; the transport stays open.

        ``answered`` is called once, when the first answer has been handed to the transport.
        """
        session = Session(self._offer, transport, on_call=self._on_call, answered=answered)
        await session.run()


def serve_stdio(
    server: Server,
    *,
    opening: Callable[[], Awaitable[None]] | None = None,
    closing: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Serve the process's own stdin and stdout until either ends or the process is told to.

    ``opening`` runs beside the requests, from the moment the first answer is on its way: a
    host waits for nothing it does. Its failure ends nothing; what escapes it is lost, so it
    must keep what its handlers want to report. ``closing`` is awaited at the end, within
    ``CLOSE_TIMEOUT_S`` of the first reason to end. Returns the exit status.

    To be called on the main thread, once, and the process must end soon after: see ``stdio``.
    """
    background: list[asyncio.Task[None]] = []

    async def open_now() -> None:
        if opening is not None:
            with contextlib.suppress(Exception):
                await opening()

    async def close_now() -> None:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        if closing is not None:
            await closing()

    async def serve(transport: Transport) -> None:
        await server.serve(transport, lambda: background.append(asyncio.create_task(open_now())))

    return stdio.run(serve, close_now)
