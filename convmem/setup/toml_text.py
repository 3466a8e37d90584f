"""A server set in Codex's TOML: what has to change is changed, and nothing else.

TOML has many ways to say a thing. Those that people use are handled; what comes out is read
again and must mean what it is to mean, else nothing is changed and a person is asked.
"""

import re
import tomllib

from convmem.setup.entry import NAME, Entry

_HEADER = re.compile(rf"\s*\[\s*mcp_servers\s*\.\s*[\"']?{NAME}[\"']?\s*\]")
_ANY_HEADER = re.compile(r"\s*\[")
_SET_HERE = re.compile(r"\s*(?:command|args)\s*=")


def with_server(text: str, entry: Entry) -> str:
    """The text with the server set, whatever else it says of it kept.

    Raises tomllib.TOMLDecodeError for text that is none, ValueError where it cannot be done.
    """
    wanted = tomllib.loads(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    servers = wanted.setdefault("mcp_servers", {})
    is_new = NAME not in servers
    servers[NAME] = servers.get(NAME, {}) | entry.as_json()
    table = entry.as_toml().splitlines()
    lines = text.splitlines()
    if is_new:
        changed = [*lines, *([""] if text.strip() else []), *table]
    else:
        changed = _replaced(lines, table[1:])
    result = newline.join(changed) + newline
    try:
        is_right = tomllib.loads(result) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ValueError("the file says it in a way that cannot be changed by a program")
    return result


def _replaced(lines: list[str], told: list[str]) -> list[str]:
    """The lines with other values in the table of the server."""
    headers = [at for at, line in enumerate(lines) if _HEADER.match(line)]
    if not headers:
        raise ValueError("the file says it in a way that cannot be changed by a program")
    start = headers[0]
    end = start + 1
    while end < len(lines) and not _ANY_HEADER.match(lines[end]):
        end += 1
    kept = []
    at = start + 1
    while at < end:
        if _SET_HERE.match(lines[at]):
            at = _value_end(lines, at, end)
        else:
            kept.append(lines[at])
            at += 1
    return [*lines[: start + 1], *told, *kept, *lines[end:]]


def _value_end(lines: list[str], start: int, limit: int) -> int:
    """Behind the last line of a value, which may be an array on many."""
    for end in range(start + 1, limit + 1):
        try:
            tomllib.loads("\n".join(lines[start:end]))
        except tomllib.TOMLDecodeError:
            continue
        return end
    return start + 1
