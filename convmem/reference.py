"""The pages of docs/ that follow from the code: tools, limits and commands.

    python -m convmem.reference docs

writes them; a test fails while they differ from what is written.
"""

import argparse
import ast
import importlib
import sys
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from convmem import limits
from convmem.cli.arguments import commands
from convmem.cli.exits import MEANINGS
from convmem.memory import Memory
from convmem.protocol import Row, Tool, fields
from convmem.sharing.shared import SharedMemory
from convmem.sharing.surroundings import LocalSurroundings
from convmem.tools import all_tools

_GENERATED = "<!-- Written by `python -m convmem.reference docs`. -->\n\n"


def pages() -> dict[str, str]:
    """The generated pages by file name."""
    return {"tools.md": tools_page(), "limits.md": limits_page(), "cli.md": cli_page()}


def tools_page() -> str:
    """What every tool takes and gives, from its declarations."""
    nowhere = LocalSurroundings(None, allow_network=False, busy_timeout_s=0)
    memory: Memory = SharedMemory(nowhere, exclusive=True, busy_timeout_s=0)
    parts = [
        "# Tools\n",
        "A result is one JSON object, as `structuredContent` and, complete, as text. A refusal has "
        'the text `CODE: message` and, on the next line, `{"error": {"code", "message", ...}}`. '
        "`null` means absent.\n",
    ]
    for tool in all_tools(memory):
        parts += _tool(tool)
    return _GENERATED + "\n".join(parts)


def _tool(tool: Tool[object]) -> Iterator[str]:
    yield f"## `{tool.name}`\n"
    yield f"{tool.description}\n"
    hints = {
        "reads only": tool.read_only,
        "may destroy": tool.destructive,
        "harmless when repeated": tool.idempotent,
    }
    told = [hint for hint, holds in hints.items() if holds]
    if told:
        yield f"Told to hosts: {', '.join(told)}.\n"
    yield from _table("argument", fields(tool.arguments), required=True)
    if tool.result is not None:
        yield from _table("result", fields(tool.result), required=False)


def _table(title: str, rows: list[Row], *, required: bool) -> Iterator[str]:
    if not rows:
        yield "No arguments.\n"
        return
    yield f"| {title} | type | |"
    yield "| --- | --- | --- |"
    for row in rows:
        need = "**required** " if required and row.required else ""
        yield f"| `{row.name}` | {row.type} | {need}{row.description} |"
    yield ""


def limits_page() -> str:
    """Every limit of the domain and of the wire with its value and its reason.

    The reasons are the comments and docstrings of the modules that own the limits.
    """
    parts = ["# Limits\n", "Sizes are bytes of UTF-8. An error names the limit it is about.\n"]
    for reason, names in _groups(Path(limits.__file__)):
        parts.append(f"{reason}\n")
        parts += ["| limit | value |", "| --- | ---: |"]
        parts += [f"| `{name}` | {getattr(limits, name):,} |" for name in names]
        parts.append("")
    parts += ["## Of the wire\n", "For any server and client of the protocol library.\n"]
    parts += ["| limit | value | |", "| --- | ---: | --- |"]
    wire = importlib.import_module("convmem.protocol.limits")
    for name, reason in _documented(Path(str(wire.__file__))):
        parts.append(f"| `{name}` | {getattr(wire, name):,} | {reason} |")
    return _GENERATED + "\n".join(parts) + "\n"


def cli_page() -> str:
    """What every command takes, from its declaration."""
    parts = [
        "# Commands\n",
        "`convmem COMMAND --help` says the same of one of them.\n",
        "| exit status | |",
        "| ---: | --- |",
        *(f"| {status.value} | {meaning} |" for status, meaning in MEANINGS.items()),
        "",
    ]
    for name, command in commands().items():
        parts += [f"## `convmem {name}`\n", f"{command.description}\n"]
        parts += ["| argument | |", "| --- | --- |"]
        # argparse offers no public way to what was declared.
        parts += [_argument(each) for each in command._actions if each.dest != "help"]
        parts.append("")
    return _GENERATED + "\n".join(parts)


def _argument(declared: argparse.Action) -> str:
    words = ", ".join(declared.option_strings)
    if declared.nargs != 0:
        value = declared.metavar or f"{{{','.join(declared.choices or ())}}}"
        words = f"{words} {value}".strip()
    return f"| `{words}` | {(declared.help or '') % vars(declared)} |"


def _documented(source: Path) -> Iterator[tuple[str, str]]:
    """The assignments of a module, each with the text below it as one line."""
    for statement, below in pairwise(ast.parse(source.read_bytes()).body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split()).replace("``", "`")


def _groups(source: Path) -> Iterator[tuple[str, list[str]]]:
    """The assignments of a module, together with the comment that stands above them."""
    reason: list[str] = []
    names: list[str] = []
    with source.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    for token, following in pairwise(tokens):
        if token.type == tokenize.COMMENT and token.start[1] == 0:
            if names:
                yield " ".join(reason), names
                reason, names = [], []
            reason.append(token.string.removeprefix("# "))
        elif token.type == tokenize.NAME and token.start[1] == 0 and following.string == "=":
            names.append(token.string)
    yield " ".join(reason), names


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the pages that follow from the code.")
    parser.add_argument("folder", type=Path, help="where they go, as docs")
    folder = parser.parse_args().folder
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
