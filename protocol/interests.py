"""What one peer wants to hear of unasked: log messages from a level on, changed resources.

    handshake era   logging/setLevel                 from then on
                    resources/subscribe, unsubscribe from then on, a resource at a time
    modern era      _meta of a request               log messages for that request only
                    subscriptions/listen             until that request is cancelled; what is
                                                     sent for it carries its id

Nobody is told what it did not ask for. A request to listen stays in flight: it is acknowledged
at once, with what of it is granted, and answered when the server ends.

Values in, messages out: when and how they are sent is the ``session``'s.
Source: the specification's pages server/utilities/logging, server/resources (to 2025-11-25)
and basic/utilities/subscriptions (2026-07-28).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from .errors import ErrorCode, RpcError
from .lifecycle import SUBSCRIPTION_KEY, Context, Era
from .limits import SUBSCRIPTIONS_MAX, URI_CHARS_MAX
from .message import Id, Notification, Request

LOG_LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""From the least important: those of syslog, RFC 5424."""

METHODS: Final = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""What ``change`` answers."""


class Interests:
    """Of one peer. What the server does not offer cannot be asked for.

    ``on_subscribe`` is told whenever the peer wants to hear of a resource; None: it cannot.
    """

    def __init__(self, *, logging: bool, on_subscribe: Callable[[], None] | None) -> None:
        self._logging = logging
        self._on_subscribe = on_subscribe
        self._level: str | None = None
        self._resources: set[str] = set()
        self._listeners: dict[Id, frozenset[str]] = {}

    def change(self, request: Request) -> Mapping[str, object]:
        """Do what one of ``METHODS`` asks; its result. RpcError if it cannot be done."""
        match request.method:
            case "logging/setLevel" if self._logging:
                self._level = _level(request.params.get("level"))
            case "resources/subscribe" if self._on_subscribe is not None:
                resources = self._resources | {_uri(request.params.get("uri"))}
                if len(resources) > SUBSCRIPTIONS_MAX:
                    raise _too_many()
                self._resources = resources
                self._on_subscribe()
            case "resources/unsubscribe" if self._on_subscribe is not None:
                self._resources.discard(_uri(request.params.get("uri")))
            case _:
                raise RpcError(ErrorCode.METHOD_NOT_FOUND, "Method not found")
        return {}

    def listen(self, request: Request) -> Notification:
        """Begin to tell a ``subscriptions/listen``; what acknowledges it. RpcError if refused."""
        wanted = request.params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise RpcError(ErrorCode.INVALID_PARAMS, "notifications must be an object")
        uris = wanted.get("resourceSubscriptions", [])
        if not isinstance(uris, list):
            raise RpcError(ErrorCode.INVALID_PARAMS, "resourceSubscriptions must be an array")
        granted = [_uri(uri) for uri in uris] if self._on_subscribe is not None else []
        listening = sum(map(len, self._listeners.values())) + len(self._listeners)
        if listening + len(granted) >= SUBSCRIPTIONS_MAX:
            raise _too_many()
        self._listeners[request.id] = frozenset(granted)
        if granted and self._on_subscribe is not None:
            self._on_subscribe()
        return Notification(
            "notifications/subscriptions/acknowledged",
            {
                "_meta": {SUBSCRIPTION_KEY: request.id},
                "notifications": {"resourceSubscriptions": granted} if granted else {},
            },
        )

    def forget(self, id_: Id) -> None:
        """A request to listen was cancelled; any other id is none of ours."""
        self._listeners.pop(id_, None)

    def end(self) -> Iterator[tuple[Id, Mapping[str, object]]]:
        """The answers to all who listen: nothing will follow."""
        for id_ in self._listeners:
            yield id_, {"_meta": {SUBSCRIPTION_KEY: id_}, "resultType": "complete"}
        self._listeners.clear()

    def updated(self, uri: str) -> Iterator[Notification]:
        """What tells the peer that a resource has changed: nothing if it did not ask."""
        method = "notifications/resources/updated"
        if uri in self._resources:
            yield Notification(method, {"uri": uri})
        for id_, uris in self._listeners.items():
            if uri in uris:
                yield Notification(method, {"_meta": {SUBSCRIPTION_KEY: id_}, "uri": uri})

    def wants_log(self, context: Context, level: str) -> bool:
        """Whether a request's peer wants to hear a log message of this level."""
        least = self._level if context.era is Era.HANDSHAKE else context.log_level
        wanted = self._logging and least in LOG_LEVELS
        return wanted and LOG_LEVELS.index(level) >= LOG_LEVELS.index(str(least))


def _level(level: object) -> str:
    if not isinstance(level, str) or level not in LOG_LEVELS:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"level must be one of {', '.join(LOG_LEVELS)}")
    return level


def _uri(uri: object) -> str:
    if not isinstance(uri, str):
        raise RpcError(ErrorCode.INVALID_PARAMS, "uri must be a string")
    if len(uri) > URI_CHARS_MAX:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"a uri longer than {URI_CHARS_MAX} characters")
    return uri


def _too_many() -> RpcError:
    problem = f"more than {SUBSCRIPTIONS_MAX} subscriptions on one connection"
    return RpcError(ErrorCode.INVALID_PARAMS, problem)
