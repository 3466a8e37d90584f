"""The command ``convmem``: which module answers what it is asked.

Each command lives in a module of its own, imported only when it is asked for: ``serve`` is on
the way of every host's start. How commands end is in ``exits``, what they take in ``arguments``.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from convmem.cli.arguments import client_id, parser
from convmem.cli.exits import Exit

# Where another program's command may follow ``--``. Elsewhere ``--`` ends the options, as it
# does everywhere: a session or a query may begin with a dash.
_TAKE_A_SERVER = ("serve", "demo", "check", "repair", "tools", "call")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    given, server = _split_server(given)
    declared = parser()
    options = declared.parse_args(given)
    if server and options.command not in ("tools", "call"):
        declared.error(f"{options.command} takes nothing after --: {' '.join(server)}")
    if options.command == "serve":
        return _serve(options)
    _print_what_the_console_can()
    match options.command:
        case None:
            declared.print_help(sys.stderr)
            return Exit.USAGE
        case "demo":
            from convmem.cli.demo import demo

            return demo(options.data_dir)
        case "tools":
            from convmem.cli.call import tools

            return tools(server, options.timeout)
        case "call":
            from convmem.cli.call import call

            return call(options.tool, options.arguments, server, options.timeout)
        case "setup":
            from convmem.cli.setup import setup

            return setup(options)
    if options.data_dir is None:
        print("convmem: name the store with --data-dir DIR", file=sys.stderr)
        return Exit.USAGE
    match options.command:
        case "check":
            from convmem.cli.check import check

            return check(options.data_dir, options.json)
        case "repair":
            from convmem.cli.check import repair_store

            return repair_store(options.data_dir, options.cut_at)
        case "export":
            from convmem.cli.transfer import export

            return export(options)
        case "import":
            from convmem.cli.transfer import import_

            return import_(options)
        case _:
            from convmem.cli.people import answer

            return answer(options)


def _serve(options: argparse.Namespace) -> int:
    from convmem.server import Options, serve

    chosen = Options(
        data_dir=options.data_dir,
        client_id=options.client_id or _client_id_of_environment(),
        allow_network=options.allow_network_fs,
        exclusive=options.exclusive,
        audit=options.audit == "on",
        busy_timeout_ms=options.busy_timeout,
        debug_log=options.debug_log,
        tools=options.tools,
        embedder=None if options.semantic == "off" else options.embedder,
        preload=options.preload,
    )
    try:
        return serve(chosen)
    except OSError as error:
        if options.debug_log is None:
            raise
        print(f"convmem: {options.debug_log} cannot be opened: {error.strerror}", file=sys.stderr)
        return Exit.REFUSED


def _print_what_the_console_can() -> None:
    """Escape what the console's encoding lacks, where a plain print would end in an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _split_server(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the server's command after the first ``--``."""
    if "--" not in arguments or arguments[0] not in _TAKE_A_SERVER:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _client_id_of_environment() -> str | None:
    """The name set there, if it can be one: what is wrong with it must cost no host its server."""
    for variable in ("CONVMEM_CLIENT_ID", "MCP_CLIENT_ID"):
        if name := os.environ.get(variable):
            try:
                return client_id(name)
            except argparse.ArgumentTypeError as problem:
                if sys.stderr:
                    print(f"convmem: {variable} is not used: {problem}", file=sys.stderr)
    return None
