"""The hosts that can be set up: where each keeps its servers, and in what shape."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convmem.setup.entry import NAME, Entry
from convmem.setup.json_text import parse, with_member
from convmem.setup.toml_text import with_server


@dataclass(frozen=True, slots=True)
class Host:
    """One host. ``section`` holds its servers; None for Codex, whose file is TOML.

    ``of_user`` is the file for all projects, ``of_project`` the one in a project's folder, where
    it has one. ``more`` are members that its entries need beside command and arguments.
    """

    title: str
    of_user: Callable[[], Path]
    of_project: str | None
    section: str | None
    more: tuple[tuple[str, str], ...] = ()
    afterwards: str = "Restart it to have the memory."

    def entry(self, entry: Entry) -> dict[str, object]:
        """The entry as this host writes it."""
        return dict(self.more) | entry.as_json()

    def snippet(self, entry: Entry) -> str:
        """What has to stand in its file."""
        if self.section is None:
            return entry.as_toml()
        return with_member("", (self.section, NAME), self.entry(entry))

    def merged(self, text: str, entry: Entry) -> str:
        """The text of its file with the server in it, everything else kept.

        Raises ValueError that says where the text is not what it should be.
        """
        if self.section is None:
            return with_server(text, entry)
        told = self.entry(entry)
        path = (self.section, NAME)
        known: Any = parse(text) if text.strip(" \t\r\n\ufeff") else {}
        for name in path:
            known = known.get(name) if isinstance(known, dict) else None
        if not isinstance(known, dict):
            return with_member(text, path, told)
        for name, value in told.items():
            if known.get(name) != value:
                text = with_member(text, (*path, name), value)
        return text


def _home(*parts: str) -> Callable[[], Path]:
    return lambda: Path.home().joinpath(*parts)


def _settings(*parts: str) -> Callable[[], Path]:
    """A file among a user's settings, where each system keeps them."""

    def place() -> Path:
        if sys.platform == "darwin":
            return Path.home().joinpath("Library", "Application Support", *parts)
        if sys.platform == "win32":
            roaming = os.environ.get("APPDATA")
            base = Path(roaming) if roaming else Path.home() / "AppData" / "Roaming"
            return base.joinpath(*parts)
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config").joinpath(*parts)

    return place


def _codex() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"


def _zed() -> Path:
    if sys.platform == "win32":
        return _settings("Zed", "settings.json")()
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "zed/settings.json")


HOSTS: dict[str, Host] = {
    "claude-desktop": Host(
        "Claude Desktop",
        _settings("Claude", "claude_desktop_config.json"),
        None,
        "mcpServers",
        afterwards="Quit it and start it again to have the memory.",
    ),
    "claude-code": Host(
        "Claude Code", _home(".claude.json"), ".mcp.json", "mcpServers", (("type", "stdio"),)
    ),
    "codex": Host("Codex", _codex, ".codex/config.toml", None),
    "cursor": Host("Cursor", _home(".cursor", "mcp.json"), ".cursor/mcp.json", "mcpServers"),
    "vscode": Host(
        "VS Code",
        _settings("Code", "User", "mcp.json"),
        ".vscode/mcp.json",
        "servers",
        (("type", "stdio"),),
    ),
    "gemini-cli": Host(
        "Gemini CLI", _home(".gemini", "settings.json"), ".gemini/settings.json", "mcpServers"
    ),
    "zed": Host("Zed", _zed, ".zed/settings.json", "context_servers", (("source", "custom"),)),
}
