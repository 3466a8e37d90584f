"""The revisions of MCP, and which rules a request is under.

Two eras are served on one connection, decided for each request alone, never locked:

    initialize, unless _meta alone names a revision  handshake: agrees a revision for what follows
    server/discover, or _meta names a revision       modern: the request itself says all
    anything else                                    handshake, as last agreed

Owns what differs between revisions: which methods exist, since when a field does, and what
a modern result must carry. Does not know what any method does.
Source: the specification's pages basic/lifecycle (to 2025-11-25) and basic/versioning,
server/utilities/caching (2026-07-28).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from .errors import ErrorCode, RpcError
from .message import Request, well_formed

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
HANDSHAKE_LATEST: Final = HANDSHAKE_VERSIONS[-1]
MODERN_VERSIONS: Final = ("2026-07-28",)

BATCH_VERSION: Final = "2025-03-26"
"""The only revision with batches."""

# The first revision that has the field. Revisions are dates: text order is time order.
ANNOTATIONS_SINCE: Final = "2025-03-26"
PROGRESS_MESSAGE_SINCE: Final = "2025-03-26"
TITLE_SINCE: Final = "2025-06-18"
STRUCTURED_CONTENT_SINCE: Final = "2025-06-18"

_META: Final = "io.modelcontextprotocol/"
_VERSION_KEY: Final = _META + "protocolVersion"
_CAPABILITIES_KEY: Final = _META + "clientCapabilities"
_CLIENT_KEY: Final = _META + "clientInfo"
_SERVER_KEY: Final = _META + "serverInfo"
SUBSCRIPTION_KEY: Final = _META + "subscriptionId"


class Era(Enum):
    HANDSHAKE = "handshake"
    MODERN = "modern"


@dataclass(frozen=True, slots=True)
class Context:
    """The rules that one request is under, and who asks. ``log_level`` is as it was asked for."""

    era: Era
    version: str
    client_name: str | None = None
    client_capabilities: Mapping[str, object] = field(default_factory=dict)
    log_level: object = None


# Which eras know a method; a missing entry is the error.
_ERAS: Final[Mapping[str, frozenset[Era]]] = {
    "initialize": frozenset({Era.HANDSHAKE}),
    "ping": frozenset({Era.HANDSHAKE}),
    "server/discover": frozenset({Era.MODERN}),
    "tools/list": frozenset(Era),
    "tools/call": frozenset(Era),
    "resources/list": frozenset(Era),
    "resources/templates/list": frozenset(Era),
    "resources/read": frozenset(Era),
    "prompts/list": frozenset(Era),
    "prompts/get": frozenset(Era),
    "completion/complete": frozenset(Era),
    "resources/subscribe": frozenset({Era.HANDSHAKE}),
    "resources/unsubscribe": frozenset({Era.HANDSHAKE}),
    "logging/setLevel": frozenset({Era.HANDSHAKE}),
    "subscriptions/listen": frozenset({Era.MODERN}),
}
# How long a modern client may keep a result, and whether it may share it. The tools are the
# same for everybody while the process lives.
_CACHING: Final[Mapping[str, Mapping[str, object]]] = {
    "server/discover": {"ttlMs": 3_600_000, "cacheScope": "public"},
    "tools/list": {"ttlMs": 3_600_000, "cacheScope": "public"},
    "resources/list": {"ttlMs": 0, "cacheScope": "private"},
    "resources/templates/list": {"ttlMs": 0, "cacheScope": "private"},
    "resources/read": {"ttlMs": 0, "cacheScope": "private"},
    "prompts/list": {"ttlMs": 0, "cacheScope": "private"},
}


class Negotiation:
    """What the last ``initialize`` of a connection agreed, and the rules for each request."""

    def __init__(self) -> None:
        self._agreed = Context(Era.HANDSHAKE, HANDSHAKE_LATEST)

    @property
    def batches(self) -> bool:
        return self._agreed.version == BATCH_VERSION

    def context(self, request: Request) -> Context:
        """The rules for ``request``; an ``initialize`` also sets those of what follows.

        Raises RpcError if the request's revision, its envelope or its method is not served.
        """
        context = self._era(request)
        if context.era not in _ERAS.get(request.method, ()):
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, "Method not found")
        return context

    def _era(self, request: Request) -> Context:
        given = request.params.get("_meta")
        meta = given if isinstance(given, Mapping) else {}
        modern = _VERSION_KEY in meta
        if request.method == "initialize" and ("protocolVersion" in request.params or not modern):
            self._agreed = _handshake(request.params)
            return self._agreed
        if modern:
            return _modern(meta)
        if request.method == "server/discover":
            raise RpcError(ErrorCode.INVALID_PARAMS, f"_meta must hold {_VERSION_KEY}")
        return self._agreed


def complete(
    context: Context, method: str, result: Mapping[str, object], server: Mapping[str, object]
) -> Mapping[str, object]:
    """``result`` with what the era asks of every result; ``server`` is its name and version.

    A result that already says of what type it is keeps that.
    """
    if context.era is Era.HANDSHAKE:
        return result
    meta = {_SERVER_KEY: server}
    return {"resultType": "complete", **result, **_CACHING.get(method, {}), "_meta": meta}


def envelope(
    version: str, client: Mapping[str, object], capabilities: Mapping[str, object]
) -> Mapping[str, object]:
    """The ``_meta`` of every modern request of a client."""
    return {_VERSION_KEY: version, _CLIENT_KEY: client, _CAPABILITIES_KEY: capabilities}


def server_info(discovered: Mapping[str, object]) -> Mapping[str, object]:
    """Who answered ``server/discover``; empty if it does not say."""
    meta = discovered.get("_meta")
    info = meta.get(_SERVER_KEY) if isinstance(meta, Mapping) else None
    return info if isinstance(info, Mapping) else {}


def mutual(supported: object) -> str | None:
    """The newest modern revision that a server which names these and we have in common."""
    named = supported if isinstance(supported, list) else []
    return max((version for version in MODERN_VERSIONS if version in named), default=None)


def _handshake(params: Mapping[str, object]) -> Context:
    asked = params.get("protocolVersion")
    if not isinstance(asked, str):
        raise RpcError(ErrorCode.INVALID_PARAMS, "protocolVersion must be a string")
    version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_LATEST
    capabilities = params.get("capabilities")
    return Context(
        Era.HANDSHAKE,
        version,
        _name(params.get("clientInfo")),
        capabilities if isinstance(capabilities, Mapping) else {},
    )


def _modern(meta: Mapping[str, object]) -> Context:
    version = meta[_VERSION_KEY]
    if not isinstance(version, str):
        raise RpcError(ErrorCode.INVALID_PARAMS, f"{_VERSION_KEY} must be a string")
    if version not in MODERN_VERSIONS:
        raise RpcError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            {"supported": list(MODERN_VERSIONS), "requested": version},
        )
    capabilities = meta.get(_CAPABILITIES_KEY)
    if not isinstance(capabilities, Mapping):
        raise RpcError(ErrorCode.INVALID_PARAMS, f"_meta must hold {_CAPABILITIES_KEY}")
    log_level = meta.get(_META + "logLevel")
    return Context(Era.MODERN, version, _name(meta.get(_CLIENT_KEY)), capabilities, log_level)


def _name(client_info: object) -> str | None:
    name = client_info.get("name") if isinstance(client_info, Mapping) else None
    if not isinstance(name, str) or not name:
        return None
    return well_formed(name)
