"""What a host has to start: the command, in full paths, since hosts expand nothing."""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

NAME = "convmem"
"""What the server is called in a host's list."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A server's command and its arguments."""

    command: str
    arguments: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """As most hosts write it."""
        return {"command": self.command, "args": list(self.arguments)}

    def as_toml(self) -> str:
        """As a table of TOML, whose basic strings are those of JSON (https://toml.io, 1.0.0)."""
        told = [f"[mcp_servers.{NAME}]", f"command = {_basic(self.command)}"]
        arguments = ", ".join(map(_basic, self.arguments))
        return "\n".join([*told, f"args = [{arguments}]"]) + "\n"

    def as_shell(self) -> str:
        """As it is typed."""
        return shlex.join([self.command, *self.arguments])


def entry_for(data_dir: Path) -> Entry:
    """The command that serves a data directory with this installation."""
    installed = Path(sys.executable).with_name(
        "convmem.exe" if sys.platform == "win32" else "convmem"
    )
    served = ("serve", "--data-dir", str(data_dir))
    if installed.is_file():
        return Entry(str(installed), served)
    return Entry(sys.executable, ("-m", "convmem", *served))


def _basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
