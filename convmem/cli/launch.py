"""How a host starts our server: the command with absolute paths, and the configuration text."""

import json
import shutil
import sys
from pathlib import Path


def server_command(data_dir: Path) -> list[str]:
    """The command line that serves a data directory, wherever it is started from."""
    return [*_program(), "serve", "--data-dir", str(data_dir.absolute())]


def host_configuration(data_dir: Path) -> str:
    """The JSON that most hosts take, to be merged into their configuration file."""
    command, *arguments = server_command(data_dir)
    server = {"command": command, "args": arguments}
    return json.dumps({"mcpServers": {"convmem": server}}, indent=2, ensure_ascii=False)


def _program() -> list[str]:
    """The installed command beside this Python; in a bare checkout, the module."""
    installed = shutil.which("convmem", path=str(Path(sys.executable).parent))
    return [installed] if installed else [sys.executable, "-m", "convmem"]
