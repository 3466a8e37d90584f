"""The memory for Python programs, on real folders, alone and beside a server."""

import contextlib
import io
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import convmem
from tests.convmem.test_serve import call, client_of

ROOT = Path(__file__).parents[2]


def test_the_example_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    page = (ROOT / "docs" / "api.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (expected,) = re.findall(r"```\n(garden .*?)```", page, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(example, {})
    assert printed.getvalue() == expected
    assert (tmp_path / ".convmem").is_dir()


def test_every_tool_has_its_method(tmp_path: Path) -> None:
    with convmem.open(tmp_path) as memory:
        tools = set(memory._tools)
        assert tools <= set(dir(memory))
        for number in range(120):
            memory.write_message(f"s{number % 60}", "user", str(number))
        assert len(list(memory.sessions())) == 60
        assert [m["content"] for m in memory.history("s1", order="newest_first")] == ["61", "1"]
        first = next(memory.history("s0"))
        memory.delete_message(first["message_id"], expected_revision=1)
        assert memory.read_messages("history", session_id="s0")["messages"][0]["content"] == "60"
        for number in range(120):
            memory.memory_set(f"k{number:03}", "v" * 1000)
        assert [fact["key"] for fact in memory.memory_list()] == [f"k{n:03}" for n in range(120)]
        assert memory.memory_search("k007")["facts"][0]["key"] == "k007"
        assert memory.memory_delete("k000", purge=True)["purged"] is True
        assert memory.rebuild_index()["rebuilt"] is True
        assert memory.get_system_health()["facts"] == 119
    with pytest.raises(ValueError, match="closed"):
        memory.get_system_health()
    memory.close()


def test_what_is_not_granted_raises_with_its_code(tmp_path: Path) -> None:
    with convmem.open(tmp_path) as memory:
        with pytest.raises(convmem.Refusal) as refused:
            memory.memory_get("nothing")
        assert refused.value.code == "NOT_FOUND"
        with pytest.raises(convmem.Refusal, match="256") as refused:
            memory.memory_set("k" * 257, "x")
        assert refused.value.code == "INVALID_ARGUMENT"
        with pytest.raises(convmem.Refusal, match="in use") as refused:
            convmem.open(tmp_path, exclusive=True)
        assert refused.value.details["holder"]
    (tmp_path / "file").write_text("")
    with pytest.raises(convmem.Refusal):
        convmem.open(tmp_path / "file")


def test_many_threads_and_a_server_share_a_folder(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        call(client, "get_system_health")
        with convmem.open(tmp_path, client_id="script") as memory, ThreadPoolExecutor(8) as pool:
            assert memory.get_system_health()["sharing"]["role"] == "guest"
            list(pool.map(lambda n: memory.memory_set(f"k{n}", str(n)), range(40)))
            listed = call(client, "memory_list", prefix="k", limit=100)["facts"]
            assert {fact["client_id"] for fact in listed} == {"script"}
            assert len(listed) == 40
