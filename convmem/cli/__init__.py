"""The command ``convmem``: what it can be asked, and which module answers.

Each command lives in a module of its own, imported only when it is asked for: ``serve`` is on
the way of every host's start. Exit statuses: 0 done, 1 refused or failed, 2 wrong usage, 3 the
store is in use, 4 it is damaged.
"""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from convmem import __version__
from convmem.limits import (
    BUSY_TIMEOUT_MS,
    BUSY_TIMEOUT_MS_MAX,
    CALL_TIMEOUT_S,
    CALL_TIMEOUT_S_MAX,
    CLIENT_ID_BYTES_MAX,
)

USAGE = 2

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    given, server = _split_server(given)
    parser = _parser()
    options = parser.parse_args(given)
    if server and options.command not in ("tools", "call"):
        parser.error(f"{options.command} takes nothing after --: {' '.join(server)}")
    if options.command == "serve":
        from convmem.server import Options, serve

        return serve(
            Options(
                data_dir=options.data_dir,
                client_id=options.client_id or _client_id_of_environment(),
                allow_network=options.allow_network_fs,
                exclusive=options.exclusive,
                audit=options.audit == "on",
                busy_timeout_ms=options.busy_timeout,
            )
        )
    _print_what_the_console_can()
    match options.command:
        case "demo":
            from convmem.cli.demo import demo

            return demo(options.data_dir)
        case "check" | "repair":
            if options.data_dir is None:
                print("convmem: name the store with --data-dir DIR", file=sys.stderr)
                return USAGE
            from convmem.cli.check import check, repair_store

            if options.command == "check":
                return check(options.data_dir, options.json)
            return repair_store(options.data_dir, options.cut_at)
        case "tools":
            from convmem.cli.call import tools

            return tools(server, options.timeout)
        case _:
            from convmem.cli.call import call

            return call(options.tool, options.arguments, server, options.timeout)


def _print_what_the_console_can() -> None:
    """Escape what the console's encoding lacks, where a plain print would end in an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _split_server(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the server's command after the first ``--``."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="convmem", description="Durable, searchable conversation memory for MCP hosts."
    )
    parser.add_argument("--version", action="version", version=f"convmem {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_serve(commands)
    _add_demo(commands)
    _add_check_and_repair(commands)
    _add_tools_and_call(commands)
    return parser


def _add_serve(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="serve a data directory to an MCP host over stdio")
    _add_data_dir(serve, "where the memory lies; made if missing")
    serve.add_argument(
        "--client-id",
        type=_client_id,
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
        "--allow-network-fs",
        action="store_true",
        help="open a store on a network file system, where only you know that no other host does",
    )


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser("demo", help="write, kill -9, restart, read back: see it work")
    demo.add_argument(
        "--data-dir",
        type=_directory,
        metavar="DIR",
        help="where to keep the demo's memory; a new temporary folder unless given",
    )


def _add_check_and_repair(commands: Commands) -> None:
    check = commands.add_parser("check", help="say whether a store is sound; changes nothing")
    _add_data_dir(check, "the store")
    check.add_argument("--json", action="store_true", help="print the verdict as JSON")
    repair = commands.add_parser(
        "repair", help="write a new generation from what verifies, keeping the damaged files"
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
    tools = commands.add_parser(
        "tools",
        help="list the tools of any MCP server: convmem tools -- SERVER...",
        usage="convmem tools [--timeout S] -- SERVER...",
    )
    call = commands.add_parser(
        "call",
        help="call a tool of any MCP server: convmem call TOOL JSON -- SERVER...",
        usage="convmem call [--timeout S] TOOL JSON -- SERVER...",
    )
    call.add_argument("tool", metavar="TOOL")
    call.add_argument("arguments", metavar="JSON", nargs="?", default="{}")
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


def _client_id(name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"not Unicode: {name!r}") from None
    if size > CLIENT_ID_BYTES_MAX:
        start = name[:CLIENT_ID_BYTES_MAX]
        raise argparse.ArgumentTypeError(f"longer than {CLIENT_ID_BYTES_MAX} bytes: {start!r}...")
    return name


def _client_id_of_environment() -> str | None:
    """The name set there, if it can be one: what is wrong with it must cost no host its server."""
    for variable in ("CONVMEM_CLIENT_ID", "MCP_CLIENT_ID"):
        if name := os.environ.get(variable):
            try:
                return _client_id(name)
            except argparse.ArgumentTypeError as problem:
                if sys.stderr:
                    print(f"convmem: {variable} is not used: {problem}", file=sys.stderr)
    return None


def _whole_number(most: int) -> Callable[[str], int]:
    """A parser of the whole numbers from 0 to ``most``."""

    def whole_number(text: str) -> int:
        if not text.isdecimal() or len(text) > len(str(most)) or int(text) > most:
            raise argparse.ArgumentTypeError(f"not a whole number from 0 to {most}: {text!r}")
        return int(text)

    return whole_number


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
