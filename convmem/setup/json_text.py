"""A member set in JSON text as people write it, with comments and commas at ends: only the text
that has to change is changed.

The text is walked once, for the places of its members; strings, comments and brackets are all
that a place depends on. What comes out is checked against what it is to mean by the caller.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"""
      (?P<space> [ \t\r\n\ufeff]+ | //[^\n]* | /\*.*?\*/ )
    | (?P<string> "(?:[^"\\\n]|\\.)*" )
    | (?P<mark> [{}\[\],:] )
    | (?P<word> [^\s{}\[\],:"/]+ )
    """,
    re.VERBOSE | re.DOTALL,
)


# What may follow a member on its line without being one: white space and comments.
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*.*?\*/)*(?://[^\r\n]*)?(?=\r?\n|$)")


class NotJson(ValueError):
    """Text that is not JSON, with or without comments. ``line`` and ``column`` count from 1."""

    def __init__(self, text: str, place: int) -> None:
        self.line = text.count("\n", 0, place) + 1
        self.column = place - (text.rfind("\n", 0, place) + 1) + 1
        super().__init__(f"line {self.line}, column {self.column}: not JSON")


@dataclass(slots=True)
class _Value:
    """Where a value begins and ends; of an object, its members by name."""

    start: int
    end: int
    members: dict[str, "_Value"] | None = None
    last_end: int = 0  # of the last member, comma included
    has_comma: bool = False  # behind the last member


def parse(text: str) -> Any:
    """What text means. Raises NotJson."""
    return json.loads(_plain(text))


def with_member(text: str, path: Sequence[str], value: object) -> str:
    """The text with a member set, so deep in objects as the path says; any of them may be missing.

    Raises NotJson; ValueError where something else than an object is in the way.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text.strip(" \t\r\n\ufeff"):
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False) + "\n"
    parse(text)
    here = _Parser(text).root()
    indent = _indent_of(text)
    for depth, name in enumerate(path, 1):
        if here.members is None:
            where = ".".join(path[: depth - 1]) or "the file"
            raise ValueError(f"{where} holds something else than an object")
        if name not in here.members:
            missing = _nested(path[depth:], value)
            return _added(text, here, name, missing, indent, depth, newline)
        here = here.members[name]
    written = _written(value, indent, len(path), newline)
    return text[: here.start] + written + text[here.end :]


def _nested(path: Sequence[str], value: object) -> object:
    for name in reversed(path):
        value = {name: value}
    return value


def _added(
    text: str, parent: _Value, name: str, value: object, indent: str, depth: int, newline: str
) -> str:
    member = f"{json.dumps(name, ensure_ascii=False)}: {_written(value, indent, depth, newline)}"
    line = f"{newline}{indent * depth}{member}"
    if parent.members:
        place = parent.last_end
        comment = _REST_OF_LINE.match(text, place)  # what is said of the last member stays there
        behind = comment.end() if comment else place
        before, after = ("", ",") if parent.has_comma else (",", "")
        return text[:place] + before + text[place:behind] + line + after + text[behind:]
    close = parent.end - 1
    inside = text[parent.start + 1 : close].rstrip(" \t\r\n")
    end = f"{newline}{indent * (depth - 1)}"
    return text[: parent.start + 1] + inside + line + end + text[close:]


def _written(value: object, indent: str, depth: int, newline: str) -> str:
    lines = json.dumps(value, indent=indent, ensure_ascii=False).split("\n")
    return newline.join([lines[0], *(indent * depth + line for line in lines[1:])])


def _indent_of(text: str) -> str:
    """How the file indents its first member."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _plain(text: str) -> str:
    """The text without comments, and commas that nothing follows. Raises NotJson."""
    tokens = [(match, match.lastgroup) for match in _tokens(text) if match.lastgroup != "space"]
    kept = []
    for (match, _), following in zip(tokens, [*tokens[1:], None], strict=True):
        is_last = following is not None and following[0][0] in ("}", "]")
        if match[0] == "," and is_last:
            continue
        kept.append(match[0])
    plain = " ".join(kept)
    try:
        json.loads(plain)
    except ValueError as error:
        place = _place_in(text, tokens, kept, getattr(error, "pos", 0))
        raise NotJson(text, place) from None
    return plain


def _place_in(text: str, tokens: list[Any], kept: list[str], position: int) -> int:
    """Where in the text a place of the plain one is, to the token."""
    seen = 0
    at = iter(match for match, _ in tokens)
    for token in kept:
        match = next(each for each in at if each[0] == token)
        if seen + len(token) > position:
            return int(match.start())
        seen += len(token) + 1
    return len(text)


def _tokens(text: str) -> Iterator[re.Match[str]]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise NotJson(text, place)
        yield match
        place = match.end()


class _Parser:
    """The places of the values in text that is known to be JSON with comments."""

    def __init__(self, text: str) -> None:
        self._tokens = [match for match in _tokens(text) if match.lastgroup != "space"]
        self._at = 0

    def root(self) -> _Value:
        return self._value()

    def _value(self) -> _Value:
        first = self._next()
        if first[0] not in ("{", "["):
            return _Value(first.start(), first.end())
        value = _Value(first.start(), 0, {} if first[0] == "{" else None)
        while (token := self._tokens[self._at])[0] not in ("}", "]"):
            name = ""
            if value.members is not None:
                name = json.loads(self._next()[0])
                self._next()  # the colon
            found = self._value()
            if value.members is not None:
                value.members[name] = found
            value.last_end, value.has_comma = found.end, False
            if (token := self._tokens[self._at])[0] == ",":
                value.last_end, value.has_comma = token.end(), True
                self._at += 1
        value.end = self._next().end()
        return value

    def _next(self) -> re.Match[str]:
        token = self._tokens[self._at]
        self._at += 1
        return token
