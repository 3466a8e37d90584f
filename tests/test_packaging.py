"""What an installer, a checkout and a hostile folder make of the three source folders."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = "import convmem.storage, convmem.protocol; print(convmem.storage.__name__)"


@pytest.mark.parametrize(
    "flags", [["-m", "convmem", "--help"], ["-c", NAMES]], ids=["module", "import"]
)
def test_a_users_own_storage_module_is_left_alone(tmp_path: Path, flags: list[str]) -> None:
    for name in ("storage.py", "protocol.py"):
        (tmp_path / name).write_text("raise RuntimeError('the user\\'s own module was imported')\n")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    subprocess.run([sys.executable, *flags], cwd=tmp_path, env=environment, check=True)


def test_the_wheel_installs_one_top_level_name(tmp_path: Path) -> None:
    # From a copy: setuptools leaves a build folder, whose old files a later wheel would hold.
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(source)]
    subprocess.run(command, check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"convmem"}
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in ("convmem", "storage", "protocol")
        for path in (ROOT / package).rglob("*.py")
    }
    installed = {s if s.startswith("convmem/") else f"convmem/{s}" for s in sources}
    assert installed <= set(names), "a package is missing from pyproject.toml"
    assert {"convmem/py.typed", "convmem/cli/demo.jsonl"} <= set(names)
    assert "convmem/storage.pyi" not in names


def test_the_project_names_what_it_promises() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {dependency.split(">")[0] for dependency in project["dependencies"]}
    assert names == {"numpy", "crc32c", "python-ulid"}
