"""A JSON array of any length, read element by element, whatever the pieces it arrives in.

Exports are one line of a hundred megabytes: only the element under way is in memory. Pure.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from convmem.limits import IMPORT_ELEMENT_CHARS_MAX

_DECODER = json.JSONDecoder(strict=False)
_SPACE = " \t\r\n"
_END_CHARS = 16  # as far from the end of what there is, a truncated word or escape is complained of


class DamagedArray(ValueError):
    """What is read is not the JSON it has to be; the text says what and where."""


def elements(pieces: Iterable[str], key: str = "conversations") -> Iterator[Any]:
    """The elements of an array, or of the array under ``key`` of an object.

    An object without it is an element itself. Raises DamagedArray.
    """
    text = _Text(pieces)
    match text.next_char():
        case "[":
            yield from _array(text)
        case "{":
            yield from _object(text, key)
        case found:
            raise DamagedArray(f"starts with {found!r}, where a JSON array or object does")
    if left := text.peek():
        raise DamagedArray(f"{left!r} behind the end, at character {text.position:,}")


def _array(text: "_Text") -> Iterator[Any]:
    if text.peek() == "]":
        text.next_char()
        return
    while True:
        yield text.value()
        match text.next_char():
            case ",":
                continue
            case "]":
                return
            case found:
                raise text.damaged(f"{found!r} where ',' or ']' was expected")


def _object(text: "_Text", key: str) -> Iterator[Any]:
    found: dict[str, Any] = {}
    is_wrapper = False
    while text.peek() != "}":
        name = text.value()
        if not isinstance(name, str) or text.next_char() != ":":
            raise text.damaged("a name and ':' were expected")
        if name == key and text.peek() == "[":
            # Of a conversation with turns under this name, as some have, the turns are not it.
            text.next_char()
            is_wrapper = True
            yield from _array(text)
        else:
            found[name] = text.value()
        if text.peek() == ",":
            text.next_char()
        elif text.peek() != "}":
            raise text.damaged("',' or '}' was expected")
    text.next_char()
    if not is_wrapper:
        yield found


class _Text:
    """What has arrived and is not taken yet."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self._buffer = ""
        self._start = 0
        self._passed = 0  # characters before the buffer
        self._is_ended = False

    @property
    def position(self) -> int:
        return self._passed + self._start

    def peek(self) -> str:
        """The next character that is not space; empty at the end."""
        while True:
            while self._start < len(self._buffer):
                if self._buffer[self._start] not in _SPACE:
                    return self._buffer[self._start]
                self._start += 1
            if not self._more(1):
                return ""

    def next_char(self) -> str:
        """The same, taken."""
        char = self.peek()
        self._start += len(char)
        return char

    def value(self) -> Any:
        """The next JSON value, taken. What is incomplete is tried again with twice as much."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._start)
            except json.JSONDecodeError as error:
                is_near_end = error.pos >= len(self._buffer) - _END_CHARS
                if not (is_near_end or error.msg.startswith("Unterminated string")):
                    raise self.damaged(error.msg, error.pos - self._start) from None
                if not self._more(len(self._buffer) - self._start):
                    raise self.damaged(f"the end is missing: {error.msg}") from None
            except RecursionError:
                raise self.damaged("nested too deeply") from None
            except ValueError as error:  # a number of thousands of digits
                raise self.damaged(str(error)) from None
            else:
                # A number near the end may go on: what follows it there may be a part of it.
                is_cut = end == len(self._buffer) or (
                    self._buffer[end] in ".eE" and end >= len(self._buffer) - _END_CHARS
                )
                if is_cut:
                    if self._more(1):
                        continue
                    raise self.damaged("the end is missing")
                self._start = end
                return value

    def damaged(self, problem: str, offset: int = 0) -> DamagedArray:
        return DamagedArray(f"{problem} at character {self.position + offset:,}")

    def _more(self, chars: int) -> bool:
        """Take in at least so many characters more, if there are. Raises DamagedArray."""
        if self._is_ended:
            return False
        arrived = [self._buffer[self._start :]]
        if len(arrived[0]) > IMPORT_ELEMENT_CHARS_MAX:
            raise self.damaged(
                f"one conversation of more than {IMPORT_ELEMENT_CHARS_MAX:,} characters begins"
            )
        self._passed += self._start
        self._start = 0
        while chars > 0:
            piece = next(self._pieces, None)
            if piece is None:
                self._is_ended = True
                break
            arrived.append(piece)
            chars -= len(piece)
        self._buffer = "".join(arrived)
        return not self._is_ended or len(arrived) > 1
