"""The server: what is offered, over any transport; and the whole life of a server process."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from . import stdio
from .limits import PROGRESS_DELAY_S
from .offer import Offer
from .prompts import ServedPrompt
from .resources import Resource
from .session import OnCall, Session
from .tools import ServedTool
from .transport import Transport


class Server:
    """What is served under a name. One server may serve any number of transports.

    ``tools``, ``resources`` and ``prompts`` are gone through when they are first asked for: a
    generator may import them then, so that the handshake need not wait for it.
    ``on_subscribe`` promises that ``resource_updated`` is called for every change of a resource
    after it was called itself, which is when a peer wants to hear of some; ``logging`` promises
    that handlers log. ``progress_delay_s`` is for tests.
    """

    def __init__(
        self,
        name: str,
        title: str,
        version: str,
        tools: Iterable[ServedTool],
        instructions: str | None = None,
        on_call: OnCall | None = None,
        resources: Iterable[Resource] | None = None,
        prompts: Iterable[ServedPrompt] | None = None,
        *,
        on_subscribe: Callable[[], None] | None = None,
        logging: bool = False,
        progress_delay_s: float = PROGRESS_DELAY_S,
    ) -> None:
        self._offer = Offer(
            name,
            title,
            version,
            instructions,
            tools,
            resources,
            prompts,
            on_subscribe=on_subscribe,
            logging=logging,
        )
        self._on_call = on_call
        self._progress_delay_s = progress_delay_s
        self._sessions: set[Session] = set()

    async def serve(
        self, transport: Transport, answered: Callable[[], None] = lambda: None
    ) -> None:
        """Serve until the input ends; the transport stays open.

        ``answered`` is called once, when the first answer has been handed to the transport.
        """
        session = Session(
            self._offer,
            transport,
            on_call=self._on_call,
            progress_delay_s=self._progress_delay_s,
            answered=answered,
        )
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.remove(session)

    def resource_updated(self, uri: str) -> None:
        """A resource has changed: tell every peer that subscribed to it. On the event loop."""
        for session in self._sessions:
            session.resource_updated(uri)


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
