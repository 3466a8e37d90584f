"""``convmem setup``: a host's file is changed in one place, and all else in it is kept."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.cli.arguments import SETUP_HOSTS
from convmem.protocol import BlockingClient
from convmem.setup import HOSTS, Entry
from convmem.setup.json_text import NotJson, parse, with_member
from convmem.setup.toml_text import with_server

WAIT_S = 60
ENTRY = Entry("/opt/a b/convmem", ("serve", "--data-dir", 'C:\\家 "x"'))
PATH = ("mcpServers", "convmem")

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
between = st.sampled_from(["", " ", "\n  ", " // a note: {,\n", "/* [ \n */", "\t"])


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value as a person may write it: comments anywhere, commas at ends."""
    if isinstance(value, dict):
        members = [
            f"{draw(between)}{json.dumps(name)}{draw(between)}:{draw(written(each))}"
            for name, each in value.items()
        ]
    elif isinstance(value, list):
        members = [f"{draw(written(each))}{draw(between)}" for each in value]
    else:
        return f"{draw(between)}{json.dumps(value)}"
    has_comma = draw(st.booleans())
    comma = "," if members and has_comma else ""
    open_, close = "{}" if isinstance(value, dict) else "[]"
    return f"{draw(between)}{open_}{','.join(members)}{comma}{draw(between)}{close}"


def ours(value: Any) -> Any:
    """What a file is to mean afterwards."""
    wanted = dict(value)
    wanted[PATH[0]] = {**wanted.get(PATH[0], {}), PATH[1]: ENTRY.as_json()}
    return wanted


@given(
    data=st.data(),
    value=st.dictionaries(words, values, max_size=4),
    servers=st.none() | st.dictionaries(words | st.just("convmem"), values, max_size=3),
    end=st.sampled_from(["", "\n", "\r\n"]),
)
def test_json_means_the_same_and_our_entry(
    data: st.DataObject, value: dict[str, Any], servers: Any, end: str
) -> None:
    value.pop(PATH[0], None)
    if servers is not None:
        value[PATH[0]] = servers
    text = data.draw(written(value)) + end
    assert parse(text) == value
    changed = with_member(text, PATH, ENTRY.as_json())
    assert parse(changed) == ours(value)
    notes = re.compile(r"// a note: \{,|/\* \[ \n \*/")
    if not isinstance(servers, dict) or "convmem" not in servers:
        assert notes.findall(changed) == notes.findall(text)
    assert parse(with_member(changed, PATH, ENTRY.as_json())) == ours(value)


def test_json_is_changed_where_it_must_be() -> None:
    text = """{
    // what I like
    "theme": "dark",
    "mcpServers": {
        "other": {"command": "x"} // keep
    } // servers
}
"""
    changed = with_member(text, PATH, {"command": "c"})
    assert (
        changed
        == """{
    // what I like
    "theme": "dark",
    "mcpServers": {
        "other": {"command": "x"}, // keep
        "convmem": {
            "command": "c"
        }
    } // servers
}
"""
    )


def test_what_else_an_entry_says_is_kept() -> None:
    text = '{"mcpServers": {"convmem": {"command": "old", "env": {"A": "1"} /* mine */}}}'
    changed = HOSTS["cursor"].merged(text, ENTRY)
    assert parse(changed)["mcpServers"]["convmem"] == ENTRY.as_json() | {"env": {"A": "1"}}
    assert "/* mine */" in changed
    assert HOSTS["cursor"].merged(changed, ENTRY) == changed


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [('{"a" 1}', 1, 6), ('{\n "a": 1\n "b": 2}', 3, 2), ('{"a": "b', 1, 7), ("{", 1, 2)],
)
def test_what_is_no_json_is_told_with_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(NotJson) as problem:
        with_member(text, PATH, {})
    assert (problem.value.line, problem.value.column) == (line, column)


@pytest.mark.parametrize("text", ["[]", '{"mcpServers": []}', '{"mcpServers": "none"}'])
def test_what_is_in_the_way_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="something else than an object"):
        with_member(text, PATH, {})


TOML = [
    "",
    'model = "o4"',
    '[mcp_servers.other]\ncommand = "x"\n',
    '[mcp_servers.convmem]\ncommand = "old"\nargs = [\n  "a",\n  "b", # note\n]\n'
    'env = { A = "1" }\n'
    "\n[tui]\nx = 1\n",
    '[mcp_servers.convmem]\nenabled = false # for now\n\n[mcp_servers.convmem.env]\nA = "1"\n',
    '[ mcp_servers . "convmem" ]\r\ncommand = "old"\r\nargs = []\r\n',
]


@pytest.mark.parametrize("text", TOML)
def test_toml_means_the_same_and_our_entry(text: str) -> None:
    wanted = tomllib.loads(text)
    servers = wanted.setdefault("mcp_servers", {})
    servers["convmem"] = servers.get("convmem", {}) | ENTRY.as_json()
    changed = with_server(text, ENTRY)
    assert tomllib.loads(changed) == wanted
    assert ("# for now" in text) == ("# for now" in changed)
    assert with_server(changed, ENTRY) == changed


@pytest.mark.parametrize(
    "text",
    ['mcp_servers = { convmem = { command = "x" } }', 'mcp_servers.convmem.command = "x"'],
)
def test_toml_that_says_it_otherwise_is_left_to_a_person(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be changed by a program"):
        with_server(text, ENTRY)


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    names = ("HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME", "CODEX_HOME", "CONVMEM_DATA_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"HOME": str(home), "USERPROFILE": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "convmem", "setup", *arguments],
        capture_output=True,
        env=environment,
        timeout=WAIT_S,
        encoding="utf-8",
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "家 of me 🏠"
    folder.mkdir()
    return folder


def test_every_host_is_offered() -> None:
    assert tuple(HOSTS) == SETUP_HOSTS


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_is_set_up_once_and_what_was_there_is_kept(home: Path, host: str) -> None:
    shown = run(home, host)
    assert (shown.returncode, str(home / ".convmem") in shown.stdout) == (0, True)
    trial = run(home, host, "--dry-run")
    assert trial.stdout.startswith("---")
    assert not any(home.rglob("*"))
    assert run(home, host, "--write").returncode == 0
    (file,) = (each for each in home.rglob("*") if each.is_file())
    parsed = tomllib.loads if file.suffix == ".toml" else json.loads
    section = HOSTS[host].section or "mcp_servers"
    entry = parsed(file.read_text(encoding="utf-8"))[section]["convmem"]
    with BlockingClient([entry["command"], *entry["args"]]) as client:
        assert client.server_name == "convmem"
    text = file.read_text(encoding="utf-8")
    again = run(home, host, "--write")
    assert "nothing was changed" in again.stdout
    moved = run(home, host, "--write", "--data-dir", str(home / "other"))
    assert "kept as" in moved.stdout
    (backup,) = file.parent.glob("*before-convmem*")
    assert backup.read_text(encoding="utf-8") == text
    assert (
        str(home / "other") in parsed(file.read_text(encoding="utf-8"))[section]["convmem"]["args"]
    )


def test_a_project_has_files_of_its_own(home: Path) -> None:
    project = home / "project"
    done = run(home, "vscode", "--project", str(project), "--write")
    assert done.returncode == 0
    assert "servers" in json.loads((project / ".vscode" / "mcp.json").read_text(encoding="utf-8"))
    refused = run(home, "claude-desktop", "--project", str(project))
    assert refused.returncode == 1
    assert "no file for a project" in refused.stderr


def test_a_file_that_is_broken_is_left_alone(home: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {]}')
    done = run(home, "cursor", "--write")
    assert done.returncode == 1
    assert "line 1, column 17" in done.stderr
    assert "Put this into it yourself" in done.stderr
    assert file.read_text() == '{"mcpServers": {]}'
    assert len(list(file.parent.iterdir())) == 1


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_a_file_keeps_its_mode_and_a_link_stays_one(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    link = home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert run(home, "cursor", "--write").returncode == 0
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "convmem" in real.read_text()
