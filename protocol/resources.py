"""What a host may read by URI: fixed resources, and families of them described by a template.

    template := literal ("{" name "}" literal)*       RFC 6570, level 1

A value stands for one or more characters other than ``/ ? #``, percent-encoded as UTF-8.
Declared like tools; a read gives a text or bytes, or raises ``ResourceNotFound``.
"""

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .errors import ErrorCode, RpcError
from .lifecycle import MODERN_VERSIONS, TITLE_SINCE
from .limits import COMPLETIONS_MAX
from .tools import Call

Read = Callable[[Mapping[str, str], Call], Awaitable[str | bytes]]
"""From the values of a template's names (none for a fixed URI) to what is there."""

Complete = Callable[[str], Awaitable[Sequence[str]]]
"""From the beginning of a value to those that it could become."""


class ResourceNotFound(Exception):
    """There is nothing under this URI."""


@dataclass(frozen=True, kw_only=True)
class Resource:
    """Something to read. ``uri`` is a URI, or a template; ``complete`` is by a name in it."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    read: Read
    complete: Mapping[str, Complete] = field(default_factory=dict)

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def values(self, uri: str) -> Mapping[str, str] | None:
        """The values of the names in a URI of this kind, None for any other URI."""
        from urllib.parse import unquote  # not on the way of a server's start

        if (match := self._pattern.fullmatch(uri)) is None:
            return None
        try:
            return {
                name: unquote(text, errors="strict") for name, text in match.groupdict().items()
            }
        except UnicodeDecodeError:
            return None

    def listed(self, version: str) -> dict[str, object]:
        """The entry of ``resources/list`` or ``resources/templates/list``."""
        title = {"title": self.title} if version >= TITLE_SINCE else {}
        return {
            "uriTemplate" if self.is_template else "uri": self.uri,
            "name": self.name,
            **title,
            "description": self.description,
            "mimeType": self.mime_type,
        }

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", self.uri)
        literals, names = parts[::2], parts[1::2]
        pattern = re.escape(literals[0])
        for name, literal in zip(names, literals[1:], strict=True):
            pattern += f"(?P<{name}>[^/?#]+)" + re.escape(literal)
        return re.compile(pattern)


async def read(resources: Sequence[Resource], uri: object, call: Call) -> dict[str, object]:
    """The result of ``resources/read``. RpcError if nothing is found there."""
    if not isinstance(uri, str):
        raise RpcError(ErrorCode.INVALID_PARAMS, "uri must be a string")
    for resource in resources:
        values = resource.values(uri)
        if values is None:
            continue
        try:
            found = await resource.read(values, call)
        except ResourceNotFound:
            break
        return {"contents": [{"uri": uri, "mimeType": resource.mime_type, **_content(found)}]}
    modern = call.protocol_version in MODERN_VERSIONS
    code = ErrorCode.INVALID_PARAMS if modern else ErrorCode.RESOURCE_NOT_FOUND
    raise RpcError(code, "Resource not found", {"uri": uri})


def _content(found: str | bytes) -> dict[str, str]:
    if isinstance(found, str):
        return {"text": found}
    return {"blob": b64encode(found).decode("ascii")}


def completion(values: Sequence[str]) -> dict[str, object]:
    """The result of ``completion/complete`` for all the values there are."""
    return {
        "completion": {
            "values": list(values[:COMPLETIONS_MAX]),
            "total": len(values),
            "hasMore": len(values) > COMPLETIONS_MAX,
        }
    }
