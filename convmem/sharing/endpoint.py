"""Where an owner is reached by guests of the same user: a Unix socket, or loopback with a token.

    endpoint := "unix:" path    |    "tcp:" port ":" token    |    "exclusive"

A socket lies in a folder that only the user may enter, under a name made of the data
directory's identity: what an owner left behind that was killed is found and replaced by the
next. The peer's user is checked as well, where the system tells it. Where there are no Unix
sockets the endpoint is a port of the loopback device; whoever connects must name the token,
which stands in the lock file, readable to the user alone. An owner that shares with nobody says so
in the same place, so that nobody waits for it.

Nothing is read here: who connects is handed on as a transport.
"""

import asyncio
import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from convmem.protocol import Transport
from convmem.sharing.sockets import SocketTransport

OnGuest = Callable[[Transport, str], Coroutine[Any, Any, None]]
"""Serves one guest to its end. Told the token that it has to name, "" for none."""

EXCLUSIVE = "exclusive"
"""In the place of an endpoint: there is none, and will be none."""

# What fits sockaddr_un on every system, with its zero.
_PATH_BYTES_MAX = 103
_TOKEN_BYTES = 32
_LOOPBACK = "127.0.0.1"
HAS_UNIX_SOCKETS = sys.platform != "win32"


class Listener:
    """An endpoint that guests connect to, until it is closed."""

    def __init__(self, server: asyncio.Server, endpoint: str, path: Path | None) -> None:
        self._server = server
        self._bound = (path, path.stat()) if path is not None else None
        self.endpoint = endpoint

    def close(self) -> None:
        """Take in no more guests. Those that are there stay."""
        self._server.close()
        if self._bound is not None:
            path, bound = self._bound
            with contextlib.suppress(OSError):
                # A directory removed and made anew has another owner, perhaps of the same name.
                if os.path.samestat(path.stat(), bound):
                    path.unlink()


async def listen(directory: Path, on_guest: OnGuest, *, unix: bool = HAS_UNIX_SOCKETS) -> Listener:
    """Listen for the guests of a data directory, of which the caller holds the lock.

    Raises OSError where there is no place that is the user's own.
    """
    token = "" if unix else os.urandom(_TOKEN_BYTES).hex()

    serving: set[asyncio.Task[None]] = set()

    async def serve(guest: SocketTransport) -> None:
        try:
            if _is_same_user(guest):
                await on_guest(guest, token)
        finally:
            await guest.close()

    def connected(guest: SocketTransport) -> None:
        task = asyncio.ensure_future(serve(guest))
        serving.add(task)
        task.add_done_callback(serving.discard)

    loop = asyncio.get_running_loop()
    if not unix:
        server = await loop.create_server(lambda: SocketTransport(connected), _LOOPBACK, 0)
        port = server.sockets[0].getsockname()[1]
        return Listener(server, f"tcp:{port}:{token}", None)
    path = _socket_path(directory)
    path.unlink(missing_ok=True)
    server = await loop.create_unix_server(lambda: SocketTransport(connected), path)
    return Listener(server, f"unix:{path}", path)


async def connect(endpoint: str) -> tuple[Transport, str]:
    """Connect to an owner: the transport, and the token to name. Raises OSError."""
    loop = asyncio.get_running_loop()
    kind, _, place = endpoint.partition(":")
    if kind == "unix":
        _, transport = await loop.create_unix_connection(SocketTransport, place)
        return transport, ""
    port, _, token = place.partition(":")
    if kind != "tcp" or not port.isdecimal():
        raise OSError(f"an endpoint of another kind: {kind!r}")
    _, transport = await loop.create_connection(SocketTransport, _LOOPBACK, int(port))
    return transport, token


def _socket_path(directory: Path) -> Path:
    """Where the owner of a data directory listens: the same place for every owner of it."""
    import tempfile  # takes milliseconds that a host's greeting need not wait for

    identity = directory.stat()
    name = f"{identity.st_dev:x}-{identity.st_ino:x}.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places = [Path(runtime) / "convmem"] if runtime else []
    places += [Path(root) / f"convmem-{os.getuid()}" for root in (tempfile.gettempdir(), "/tmp")]
    refused = []
    for place in places:
        if len(os.fsencode(place / name)) > _PATH_BYTES_MAX:
            refused.append(f"{place}: a path too long for a socket")
            continue
        try:
            _make_private(place)
        except OSError as error:
            refused.append(str(error))
            continue
        return place / name
    raise OSError("; ".join(refused))


def _make_private(folder: Path) -> None:
    """Make a folder of the user's own, or see that it is one. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder}: not a folder that only this user may enter")


def _is_same_user(guest: SocketTransport) -> bool:
    user = peer_user(guest.socket)
    return user is None or user == os.getuid()


if sys.platform == "linux":

    def peer_user(peer: socket.socket) -> int | None:
        """The user at the other end of a Unix socket; None where it cannot be told."""
        if peer.family != socket.AF_UNIX:
            return None
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, user, _ = struct.unpack("3i", credentials)
        return int(user)

elif sys.platform == "darwin":
    # struct xucred of sys/ucred.h: version, user, groups; LOCAL_PEERCRED of sys/un.h.
    _SOL_LOCAL, _LOCAL_PEERCRED = 0, 1

    def peer_user(peer: socket.socket) -> int | None:
        if peer.family != socket.AF_UNIX:
            return None
        credentials = peer.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        return int.from_bytes(credentials[4:8], sys.byteorder)

else:

    def peer_user(peer: socket.socket) -> int | None:
        return None
