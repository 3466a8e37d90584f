"""What the command line takes: every command with its arguments, declared.

Checks what can be checked without a store. Imports nothing heavy: ``serve`` is on the way of
every host's start.
"""

import argparse
import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from convmem import __version__
from convmem.limits import (
    BUSY_TIMEOUT_MS,
    BUSY_TIMEOUT_MS_MAX,
    CALL_TIMEOUT_S,
    CALL_TIMEOUT_S_MAX,
    CLIENT_ID_BYTES_MAX,
    PAGE_ITEMS_MAX,
    SEARCH_RESULTS_DEFAULT,
)
from convmem.message import ROLES

# As ``convmem.tools`` and ``convmem.setup`` have them: a server's start does not wait for those.
TOOL_GROUPS = ("messages", "facts", "maintenance")
SETUP_HOSTS = ("claude-desktop", "claude-code", "codex", "cursor", "vscode", "gemini-cli", "zed")

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

START_HERE = """\
start here:
  convmem demo                          see it work
  convmem setup HOST                    give a host a memory: claude-desktop, claude-code, ...
  convmem import ~/.claude/projects     take in what was said before (--data-dir DIR)
  convmem sessions --data-dir DIR       what a memory holds
  convmem search --data-dir DIR WORDS   find what was said
Set CONVMEM_DATA_DIR to leave --data-dir out. `convmem COMMAND --help` tells more.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; ``command`` is None where none is named."""
    parser = argparse.ArgumentParser(
        prog="convmem",
        description="Durable, searchable conversation memory for MCP hosts.",
        epilog=START_HERE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"convmem {__version__}")
    _add_commands(parser.add_subparsers(dest="command", metavar="COMMAND"))
    return parser


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of every command by name, for the page that lists them."""
    added = argparse.ArgumentParser().add_subparsers()
    _add_commands(added)
    return dict(added.choices)


def _add_commands(commands: Commands) -> None:
    _add_serve(commands)
    _add_demo(commands)
    _add_setup(commands)
    _add_messages(commands)
    _add_facts(commands)
    _add_export_and_import(commands)
    _add_upkeep(commands)
    _add_check_and_repair(commands)
    _add_tools_and_call(commands)


def _add_command(commands: Commands, name: str, purpose: str) -> argparse.ArgumentParser:
    """A command; its purpose is a clause in the list of all and a sentence in its own help."""
    sentence = f"{purpose[0].upper()}{purpose[1:]}".removesuffix(".") + "."
    return commands.add_parser(name, help=purpose, description=sentence)


def _add_serve(commands: Commands) -> None:
    serve = _add_command(commands, "serve", "serve a data directory to an MCP host over stdio")
    _add_data_dir(serve, "where the memory lies; made if missing")
    serve.add_argument(
        "--client-id",
        type=client_id,
        metavar="NAME",
        help="who writes are attributed to, unless the host's name (or set CONVMEM_CLIENT_ID)",
    )
    serve.add_argument(
        "--exclusive",
        action="store_true",
        help="share the store with nobody: refuse to join its owner, and let nobody join",
    )
    serve.add_argument(
        "--busy-timeout",
        type=_whole_number(BUSY_TIMEOUT_MS_MAX),
        metavar="MS",
        default=BUSY_TIMEOUT_MS,
        help="how long a call waits for an owner that is busy or gone (%(default)s; 0: not at all)",
    )
    serve.add_argument(
        "--audit",
        choices=("on", "off"),
        default="on",
        help="note in the data directory who reads which fact (%(default)s)",
    )
    serve.add_argument(
        "--semantic",
        choices=("auto", "off"),
        default="auto",
        help="search by meaning as well, where a model is installed (%(default)s)",
    )
    serve.add_argument(
        "--embedder",
        type=_embedder,
        metavar="MODEL",
        default="universal",
        help="its model: %(default)s, or sentence-transformers:FOLDER",
    )
    serve.add_argument(
        "--preload", action="store_true", help="load the model at the start, not when needed first"
    )
    serve.add_argument(
        "--tools",
        type=_tool_groups,
        metavar="GROUPS",
        help=f"offer these only, as messages,facts; all there are: {','.join(TOOL_GROUPS)}",
    )
    serve.add_argument(
        "--debug-log",
        type=_directory,
        metavar="FILE",
        help="note every call there: when, which tool, how long, how it ended; never what was said",
    )
    serve.add_argument(
        "--allow-network-fs",
        action="store_true",
        help="open a store on a network file system, where only you know that no other host does",
    )


def _add_demo(commands: Commands) -> None:
    demo = _add_command(commands, "demo", "write, kill -9, restart, read back: see it work")
    demo.add_argument(
        "--data-dir",
        type=_directory,
        metavar="DIR",
        help="where to keep the demo's memory; a new temporary folder unless given",
    )


def _add_setup(commands: Commands) -> None:
    setup = _add_command(commands, "setup", "have a host start a server: show or write its entry")
    setup.add_argument("host", metavar="HOST", choices=SETUP_HOSTS, help=", ".join(SETUP_HOSTS))
    setup.add_argument(
        "--data-dir",
        type=_directory,
        metavar="DIR",
        default=os.environ.get("CONVMEM_DATA_DIR") or None,
        help="where the memory is to lie (or set CONVMEM_DATA_DIR; ~/.convmem, written out)",
    )
    setup.add_argument(
        "--project",
        type=_directory,
        metavar="DIR",
        help="for this project's folder only, where the host has files in projects",
    )
    setup.add_argument(
        "--write",
        action="store_true",
        help="put it into the host's file, keeping what else is there, with a backup",
    )
    setup.add_argument(
        "--dry-run", action="store_true", help="show what --write would change, and change nothing"
    )


def _add_messages(commands: Commands) -> None:
    sessions = _add_command(commands, "sessions", "list the sessions, the newest first")
    _add_reading(sessions)
    show = _add_command(commands, "show", "show the messages of a session, oldest first")
    show.add_argument("session", metavar="SESSION", help="its name, as `convmem sessions` gives it")
    show.add_argument(
        "--last",
        type=_whole_number(sys.maxsize, least=1),
        metavar="N",
        help="only the last N messages",
    )
    _add_reading(show)
    search = _add_command(commands, "search", "find what was said, the best match first")
    search.add_argument("query", metavar="QUERY", nargs="+", help="words, or a question")
    search.add_argument("--session", metavar="SESSION", help="only in this session")
    search.add_argument("--role", choices=ROLES, help="only what this one said")
    search.add_argument(
        "--tag", action="append", metavar="TAG", help="only with this tag; all of them if repeated"
    )
    moment = "a time like 2026-03-01T09:00, local unless it has an offset; a date is its beginning"
    search.add_argument("--since", type=_moment, metavar="TIME", help=f"only from {moment}")
    search.add_argument("--until", type=_moment, metavar="TIME", help="only up to a time")
    search.add_argument(
        "--limit",
        type=_whole_number(PAGE_ITEMS_MAX, least=1),
        metavar="N",
        default=SEARCH_RESULTS_DEFAULT,
        help="most messages (%(default)s)",
    )
    _add_reading(search)


def _add_facts(commands: Commands) -> None:
    facts = _add_command(commands, "facts", "list the facts by key")
    facts.add_argument("prefix", metavar="PREFIX", nargs="?", help="only keys that begin so")
    _add_reading(facts)
    history = _add_command(commands, "history", "show what happened to a fact, the newest first")
    history.add_argument("key", metavar="KEY", help="its key, exactly")
    _add_reading(history)


def _add_export_and_import(commands: Commands) -> None:
    export = _add_command(commands, "export", "write all messages and facts to a file")
    export.add_argument("file", metavar="FILE", type=Path, help="the file to write; - is stdout")
    export.add_argument(
        "--tombstones",
        action="store_true",
        help="with the ids of messages deleted since the last rebuild, for an import to delete",
    )
    _add_data_dir(export, "where the memory lies")
    importing = _add_command(
        commands, "import", "take an export, or the conversations of another program, in"
    )
    importing.add_argument(
        "source", metavar="SOURCE", type=Path, help="a file or a folder; - is stdin"
    )
    importing.add_argument(
        "--policy",
        choices=("reject", "overwrite", "keep"),
        help="of what is there already and differs: refuse all, let the source count, or keep it "
        "(reject for an export, keep for all else)",
    )
    importing.add_argument(
        "--all-branches", action="store_true", help="conversations with what was edited away too"
    )
    importing.add_argument("--dry-run", action="store_true", help="only say what would be done")
    _add_data_dir(importing, "where the memory lies, or is to lie; no server may have it open")
    importing.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_upkeep(commands: Commands) -> None:
    stats = _add_command(commands, "stats", "show what the memory holds and how it is")
    _add_reading(stats)
    rebuild = _add_command(
        commands, "rebuild", "write the store anew without what was deleted or replaced"
    )
    _add_reading(rebuild)


def _add_check_and_repair(commands: Commands) -> None:
    check = _add_command(commands, "check", "say whether a store is sound; changes nothing")
    _add_data_dir(check, "the store")
    check.add_argument("--json", action="store_true", help="print the verdict as JSON")
    repair = _add_command(
        commands, "repair", "write a new generation from what verifies, keeping the damaged files"
    )
    _add_data_dir(repair, "the store; no server may have it open")
    giving_up = repair.add_mutually_exclusive_group(required=True)
    giving_up.add_argument("--skip", action="store_true", help="give up only what does not verify")
    giving_up.add_argument(
        "--cut-at",
        type=_whole_number(sys.maxsize),
        metavar="BYTE",
        help="give up everything from this byte on",
    )


def _add_tools_and_call(commands: Commands) -> None:
    tools = _add_command(
        commands, "tools", "list the tools of any MCP server: convmem tools -- SERVER..."
    )
    tools.usage = "convmem tools [--timeout S] -- SERVER..."
    call = _add_command(
        commands, "call", "call a tool of any MCP server: convmem call TOOL JSON -- SERVER..."
    )
    call.usage = "convmem call [--timeout S] TOOL JSON -- SERVER..."
    call.add_argument("tool", metavar="TOOL", help="its name")
    call.add_argument(
        "arguments", metavar="JSON", nargs="?", default="{}", help="its arguments (%(default)s)"
    )
    for command in (tools, call):
        command.add_argument(
            "--timeout",
            type=_seconds,
            default=CALL_TIMEOUT_S,
            metavar="S",
            help="how long an answer may take (%(default)s)",
        )


def _add_data_dir(command: argparse.ArgumentParser, meaning: str) -> None:
    command.add_argument(
        "--data-dir",
        type=_directory,
        metavar="DIR",
        default=os.environ.get("CONVMEM_DATA_DIR") or None,
        help=f"{meaning} (or set CONVMEM_DATA_DIR)",
    )


def _add_reading(command: argparse.ArgumentParser) -> None:
    """What all commands take that look into a memory; a server may have it open."""
    _add_data_dir(command, "where the memory lies")
    command.add_argument("--json", action="store_true", help="print JSON, for programs")


def client_id(name: str) -> str:
    """A name that writes can be attributed to. Raises ArgumentTypeError."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"not Unicode: {name!r}") from None
    if size > CLIENT_ID_BYTES_MAX:
        start = name[:CLIENT_ID_BYTES_MAX]
        raise argparse.ArgumentTypeError(f"longer than {CLIENT_ID_BYTES_MAX} bytes: {start!r}...")
    return name


def _whole_number(most: int, least: int = 0) -> Callable[[str], int]:
    """A parser of the whole numbers from ``least`` to ``most``."""

    def whole_number(text: str) -> int:
        decimal = text.isdecimal() and len(text) <= len(str(most))
        if not decimal or not least <= int(text) <= most:
            problem = f"not a whole number from {least} to {most}: {text!r}"
            raise argparse.ArgumentTypeError(problem)
        return int(text)

    return whole_number


def _tool_groups(text: str) -> tuple[str, ...]:
    groups = tuple(name.strip() for name in text.split(","))
    for name in groups:
        if name not in TOOL_GROUPS:
            known = ", ".join(TOOL_GROUPS)
            raise argparse.ArgumentTypeError(f"no group of tools: {name!r} (there are {known})")
    return groups


def _embedder(text: str) -> str:
    if text != "universal" and not text.startswith("sentence-transformers:"):
        problem = f"no model: {text!r} (there are universal and sentence-transformers:FOLDER)"
        raise argparse.ArgumentTypeError(problem)
    return text


def _moment(text: str) -> str:
    """A time with its offset: that of this machine where none is given.

    What is not such a time is left to the search, which takes others and says what is wrong.
    """
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= CALL_TIMEOUT_S_MAX:  # nor is it NaN
        raise argparse.ArgumentTypeError(
            f"not a number of seconds above 0, {CALL_TIMEOUT_S_MAX:.0f} at most: {text!r}"
        )
    return seconds


def _directory(text: str) -> Path:
    """A folder by its full path: hosts expand no ``~`` and start us anywhere."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path names no folder")
    return Path(text).expanduser().absolute()
