"""``convmem setup``: a host's entry for this installation, shown, or put into the host's file."""

import argparse
import difflib
import shlex
import stat
import sys
from pathlib import Path

from convmem.cli.ended import ended
from convmem.cli.exits import Exit
from convmem.cli.replaced import PRIVATE, replaced
from convmem.cli.terminal import safe_line, safe_text
from convmem.errors import Code, Refusal
from convmem.setup import HOSTS, NAME, Entry, Host, entry_for


def setup(options: argparse.Namespace) -> int:
    """Show or write a host's entry; the exit status."""
    return ended(lambda: _setup(options), on_invalid=Exit.REFUSED)


def _setup(options: argparse.Namespace) -> None:
    host = HOSTS[options.host]
    data_dir = options.data_dir or Path.home() / ".convmem"
    entry = entry_for(data_dir)
    path = _file(host, options.project)
    if not options.write and not options.dry_run:
        _show(options, host, entry, path)
        return
    before = _text(path)
    try:
        after = host.merged(before, entry)
    except ValueError as error:
        advice = f"nothing was changed. Put this into it yourself:\n{host.snippet(entry)}"
        raise Refusal(Code.INVALID_ARGUMENT, f"{path}: {error}; {advice}") from error
    if after == before:
        print(f"{safe_line(str(path))} has it already; nothing was changed.")
    elif options.dry_run:
        name = safe_line(str(path))
        lines = (before.splitlines(True), after.splitlines(True))
        for line in difflib.unified_diff(*lines, name, name):
            print(safe_text(line.rstrip("\r\n")))
    else:
        _write(path, before, after)
        print(f"The memory in {safe_line(str(data_dir))} is set up for {host.title}.")
        print(host.afterwards)


def _file(host: Host, project: Path | None) -> Path:
    if project is None:
        return host.of_user()
    if host.of_project is None:
        raise Refusal(Code.INVALID_ARGUMENT, f"{host.title} has no file for a project")
    return project / host.of_project


def _show(options: argparse.Namespace, host: Host, entry: Entry, path: Path) -> None:
    if options.host == "claude-code" and options.project is None:
        added = ["claude", "mcp", "add", "--scope", "user", NAME, "--"]
        print(f"For {host.title}, run:\n")
        print(f"  {shlex.join(added)} {entry.as_shell()}\n")
        print(f"or put this into {safe_line(str(path))}:\n")
    else:
        print(f"For {host.title}, put this into {safe_line(str(path))}:\n")
    print(host.snippet(entry))
    print(
        f"`convmem setup {options.host} --write` does it and keeps what else is there; "
        "--dry-run shows the change.",
        file=sys.stderr,
    )


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        text = f"{path} is not UTF-8 at byte {error.start}; nothing was changed"
        raise Refusal(Code.INVALID_ARGUMENT, text) from error


def _write(path: Path, before: str, after: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = PRIVATE
    if path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
        backup = _free_name(path)
        with replaced(backup, mode) as file:
            file.write(before.encode())
        print(f"What was there is kept as {safe_line(str(backup))}.")
    with replaced(path, mode) as file:
        file.write(after.encode())


def _free_name(path: Path) -> Path:
    """Beside a file, where nothing is yet: no backup replaces another."""
    number = 1
    while (backup := path.with_name(f"{path.name}.before-convmem-{number}")).exists():
        number += 1
    return backup
