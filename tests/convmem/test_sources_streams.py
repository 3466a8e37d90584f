"""Reading what is long: arrays in any pieces, deep trees, a hundred megabytes on one line."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.transfer.incoming import Findings
from convmem.transfer.sources import detect, text, trees
from convmem.transfer.sources.arrays import DamagedArray, elements
from convmem.transfer.sources.drafts import shortened

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
_CONVERSATION_COUNT = 2_600


def _pieces(whole: str, size: int) -> list[str]:
    return [whole[start : start + size] for start in range(0, len(whole), size)]


@given(st.lists(JSON), st.integers(1, 40), st.booleans(), st.sampled_from([None, 1]))
def test_an_array_in_any_pieces(
    values: list[object], size: int, is_ascii: bool, indent: int | None
) -> None:
    whole = json.dumps(values, ensure_ascii=is_ascii, indent=indent)
    assert list(elements(_pieces(whole, size))) == values
    wrapped = json.dumps({"a": {"b": [1]}, "conversations": values, "z": 1}, indent=indent)
    assert list(elements(_pieces(wrapped, size))) == values


@given(st.lists(JSON, min_size=1), st.integers(1, 40), st.data())
def test_an_array_that_ends_early_gives_whole_elements_and_an_error(
    values: list[object], size: int, data: st.DataObject
) -> None:
    whole = json.dumps(values)
    end = data.draw(st.integers(1, len(whole) - 1))
    found: list[object] = []
    with pytest.raises(DamagedArray):
        found.extend(elements(_pieces(whole[:end], size)))
    assert found == values[: len(found)]


@pytest.mark.parametrize("whole", ["", "7", "[1 2]", "[1,]", '{"a" 1}', "[1] x", "[" * 100_000])
def test_a_damaged_array(whole: str) -> None:
    with pytest.raises(DamagedArray, match=r"character|starts with"):
        list(elements([whole]))


def test_an_object_is_an_element() -> None:
    assert list(elements(['{"a": [1], "b": {}}'])) == [{"a": [1], "b": {}}]


@given(st.text(st.sampled_from("aé語\U0001f600"), max_size=40), st.integers(4, 20))
def test_pieces_of_text_are_joined_again(whole: str, size: int) -> None:
    found = list(text.pieces(whole, size))
    assert "".join(found) == whole
    assert all(len(piece.encode()) <= size for piece in found)
    assert whole.startswith(text.cut(whole, size))
    assert len(text.cut(whole, size).encode()) <= size


@given(st.text(), st.integers(40, 80))
def test_a_shortened_name_keeps_its_limit(name: str, bytes_max: int) -> None:
    assert len(shortened(name, bytes_max).encode()) <= bytes_max


@given(st.dictionaries(st.integers(0, 8), st.none() | st.integers(0, 10)), st.integers(0, 10))
def test_a_tree_of_any_shape_is_passed_through_once(
    parents: dict[int, int | None], leaf: int
) -> None:
    path = trees.path_to(leaf, parents)
    order = path + trees.off_path(path, parents)
    assert sorted(order) == sorted(parents)
    assert trees.branches(path, parents) <= len(parents) - len(path)


def test_a_chain_of_a_hundred_thousand() -> None:
    parents = {n: n - 1 if n else None for n in range(100_000)}
    assert trees.path_to(99_999, parents) == list(range(100_000))
    assert trees.off_path([], dict(reversed(parents.items()))) == list(range(100_000))


def test_many_unclosed_envelopes_take_no_time() -> None:
    said = "<system-reminder>" * 100_000
    assert text.without_envelopes(said, Findings()) == said


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (1772366400.5, 1_772_366_400_500),
        (1772366400500, 1_772_366_400_500),
        ("2026-03-01T12:00:00.500Z", 1_772_366_400_500),
        ("2026-03-01T21:00:00.5+09:00", 1_772_366_400_500),
        ("2026-03-01T12:00:00.500", 1_772_366_400_500),
        (float("nan"), None),
        (True, None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_times(written: object, ms: int | None) -> None:
    assert text.milliseconds(written) == ms


@pytest.mark.ci
def test_a_hundred_megabytes_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    said = "word " * 7_700
    with path.open("w") as file:
        for number in range(_CONVERSATION_COUNT):
            content = {"content_type": "text", "parts": [said]}
            message = {"author": {"role": "user"}, "content": content, "create_time": number}
            mapping = {"n": {"parent": None, "message": message}}
            conversation = {"id": str(number), "current_node": "n", "mapping": mapping}
            file.write("," if number else "[")
            json.dump(conversation, file)
        file.write("]")
    assert os.path.getsize(path) > 100_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in detect(path).read()) == _CONVERSATION_COUNT
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_the_command_line_reports(tmp_path: Path) -> None:
    turns = [{"role": role, "content": role} for role in ("user", "assistant", "wizard")]
    source = tmp_path / "chat.jsonl"
    source.write_text(json.dumps({"messages": turns}))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "convmem", "import", str(source), "--data-dir"]
        command += [str(tmp_path / "store"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    first = run("--json", "--all-branches")
    told = json.loads(first.stdout)
    assert (told["source"], told["read"], told["messages"]) == ("chat messages", 3, 2)
    assert told["skipped"] == {"of a role that is not known: wizard": 1}
    second = run()
    assert second.returncode == 0
    assert "skipped: of a role that is not known: wizard" in second.stdout
    source.write_text(json.dumps({"messages": turns[2:]}))
    third = run()
    assert third.returncode == 1
    assert "nothing was found to import (1 of a role that is not known: wizard)" in third.stderr
