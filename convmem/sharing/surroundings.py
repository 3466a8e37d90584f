"""What a process meets of the others at a data directory: the store, its lock, an endpoint."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from convmem import host
from convmem.errors import Code, Refusal
from convmem.limits import BUSY_TIMEOUT_MS
from convmem.protocol import Transport
from convmem.sharing import endpoint
from convmem.sharing.endpoint import Listener, OnGuest

if TYPE_CHECKING:
    from convmem.engine import Engine


class Listening(Protocol):
    """An endpoint in use."""

    endpoint: str

    def close(self) -> None:
        """Take in no more guests. Those that are there stay."""


class Surroundings(Protocol):
    """The one seam to the world outside: chosen by a test, simulated by another."""

    pid: int

    def now_ms(self) -> int:
        """The clock: UTC milliseconds since 1970."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """Randomness, for ids and numbers that no other process has."""
        ...

    async def open(self) -> "Engine":
        """Become the owner. Raises StoreInUse, and Refusal for a store that cannot be opened."""
        ...

    async def listen(self, on_guest: OnGuest) -> Listening:
        """Take in guests, as the owner. Raises OSError."""
        ...

    async def connect(self, place: str) -> tuple[Transport, str]:
        """Reach the owner: the transport, and the token to name. Raises OSError."""
        ...


class LocalSurroundings:
    """The data directory and the processes of this machine."""

    def __init__(
        self,
        data_dir: Path | None,
        *,
        allow_network: bool = False,
        audit: bool = True,
        busy_timeout_s: float = BUSY_TIMEOUT_MS / 1000,
        embedder: str | None = None,
        preload: bool = False,
    ) -> None:
        self._data_dir = data_dir
        self._allow_network = allow_network
        self._audit = audit
        self._busy_timeout_s = busy_timeout_s
        self._embedder = embedder
        self._preload = preload
        self.pid = os.getpid()
        self.now_ms = host.now_ms
        self.random_bytes = host.random_bytes

    async def open(self) -> "Engine":
        return await asyncio.to_thread(self._open)

    async def listen(self, on_guest: OnGuest) -> Listener:
        return await endpoint.listen(self._named(), on_guest)

    async def connect(self, place: str) -> tuple[Transport, str]:
        return await endpoint.connect(place)

    def _open(self) -> "Engine":
        from convmem.in_use import in_use
        from convmem.storage import OsDisk, StoreLocked

        disk = OsDisk(self._named())
        try:
            disk.claim(host.host_id().hex(), host.now_ms())
        except StoreLocked as locked:
            raise in_use(locked) from locked
        except OSError:
            pass  # opening the store says it better
        try:
            from convmem.engine import Engine  # numpy and more: for an owner only
            from convmem.recall import Wanted

            return Engine.open(
                disk,
                allow_network=self._allow_network,
                audit=self._audit,
                busy_timeout_s=self._busy_timeout_s,
                recall=Wanted(self._embedder, self._preload),
            )
        finally:
            disk.disclaim()

    def _named(self) -> Path:
        if self._data_dir is None:
            raise Refusal(
                Code.STORE_FAILED,
                "no data directory: start the server with --data-dir DIR or set CONVMEM_DATA_DIR",
            )
        return self._data_dir
