"""JSON objects taken apart strictly: what a file of ours cannot hold is refused, with its place.

Unlike the arguments of a tool, which a model writes, a line of an export is written by a
program: nothing is converted, and nothing that is not known is passed over.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from convmem import ids
from convmem.errors import Code, Refusal

T = TypeVar("T")

_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN_CHARS = 60


class Unfit(ValueError):
    """A value is not what it has to be; the text says which, and what would be."""


def read_object(line: str) -> "Fields":
    """The JSON object of a line. Raises Unfit."""
    try:
        value = json.loads(line, object_pairs_hook=_once_each, parse_constant=_no_constant)
    except RecursionError:
        raise Unfit("nested too deeply to be a line of an export") from None
    except json.JSONDecodeError as error:
        raise Unfit(f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:  # an integer of thousands of digits, or one of our own
        raise Unfit(str(error)) from None
    return Fields(value, "")


class Fields:
    """The fields of an object, each to be taken once; ``end`` refuses those that nobody took."""

    def __init__(self, value: object, where: str) -> None:
        self._where = where
        if not isinstance(value, dict):
            raise Unfit(f"{where or 'the line'}: not an object")
        self._left: dict[str, Any] = dict(value)

    def has(self, name: str) -> bool:
        """Whether the field is there, and not taken yet."""
        return name in self._left

    def word(self, name: str, words: Sequence[T], default: T | None = None) -> T:
        """One of some words."""
        value = self._take(name, default)
        if value not in words:
            self._refuse(name, f"{_shown(value)} is none of {', '.join(map(str, words))}")
        return words[list(words).index(value)]

    def text(self, name: str, bytes_max: int, *, bytes_min: int = 0, allow_nul: bool = True) -> str:
        """Unicode text of so many bytes in UTF-8."""
        return self._text(name, self._take(name), bytes_max, bytes_min, allow_nul)

    def optional_text(
        self, name: str, bytes_max: int, *, bytes_min: int = 0, allow_nul: bool = True
    ) -> str | None:
        """The same, or None where the field is missing."""
        if name not in self._left:
            return None
        return self.text(name, bytes_max, bytes_min=bytes_min, allow_nul=allow_nul)

    def integer(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number, and written as one: ``1.0`` and ``true`` are none."""
        value = self._take(name, default)
        if type(value) is not int or not least <= value <= most:
            self._refuse(name, f"{_shown(value)} is not a whole number from {least} to {most}")
        return int(value)

    def flag(self, name: str) -> bool:
        """True or false; false where the field is missing."""
        value = self._take(name, False)
        if type(value) is not bool:
            self._refuse(name, f"{_shown(value)} is neither true nor false")
        return bool(value)

    def id(self, name: str) -> bytes:
        """A ULID."""
        return self._id(name, self._take(name))

    def items(
        self, name: str, most: int, item: Callable[["Fields", str, object], T]
    ) -> tuple[T, ...]:
        """The items of a list; none where the field is missing. ``item`` is told their names."""
        value = self._take(name, [])
        if not isinstance(value, list) or len(value) > most:
            self._refuse(name, f"not a list of at most {most}")
        return tuple(item(self, f"{name}[{n}]", each) for n, each in enumerate(value))

    def id_item(self, name: str, value: object) -> bytes:
        """An item that is an id."""
        return self._id(name, value)

    def text_item(self, bytes_max: int) -> Callable[["Fields", str, object], str]:
        """What takes items that are text, none of them empty."""
        return lambda fields, name, value: fields._text(name, value, bytes_max, 1, True)

    def inner(self, name: str) -> "Fields":
        """An object in the object; an empty one where the field is missing."""
        return Fields(self._take(name, {}), self._path(name))

    def object_item(self, name: str, value: object) -> "Fields":
        """An item that is an object."""
        return Fields(value, self._path(name))

    def end(self) -> None:
        """Nothing more is expected."""
        if self._left:
            self._refuse(next(iter(self._left)), "not a field of this line")

    def refuse(self, name: str, problem: str) -> NoReturn:
        """Say what is wrong with a field."""
        self._refuse(name, problem)

    def _take(self, name: str, default: Any = None) -> Any:
        if name in self._left:
            return self._left.pop(name)
        if default is None:
            self._refuse(name, "missing")
        return default

    def _text(
        self, name: str, value: object, bytes_max: int, bytes_min: int, allow_nul: bool
    ) -> str:
        if not isinstance(value, str):
            self._refuse(name, f"{_shown(value)} is not text")
        if lone := _SURROGATE.search(value):
            self._refuse(name, f"not Unicode (a lone surrogate) at character {lone.start()}")
        if not allow_nul and "\0" in value:
            self._refuse(name, f"U+0000 at character {value.index(chr(0))}")
        size = len(value) if value.isascii() else len(value.encode())
        if not bytes_min <= size <= bytes_max:
            self._refuse(name, f"{size} bytes; {bytes_min} to {bytes_max} are allowed")
        return value

    def _id(self, name: str, value: object) -> bytes:
        try:
            return ids.from_text(value if isinstance(value, str) else "")
        except ValueError:
            self._refuse(name, f"{_shown(value)} is not an id (a ULID)")

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def _refuse(self, name: str, problem: str) -> NoReturn:
        raise Unfit(f"{self._path(name)}: {problem}")


def refused(place: str, problem: object) -> Refusal:
    """The refusal of a file for what stands at a place of it."""
    return Refusal(Code.INVALID_ARGUMENT, f"{place}: {problem}; nothing was imported")


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{_shown(twice)} is there twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
