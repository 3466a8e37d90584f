"""Every limit at its exact boundary, in bytes; every kind of text, byte for byte."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from convmem import limits
from tests.convmem.harness import Host, Refused

MIB = 1 << 20


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def filled(size: int) -> str:
    """A text of that many bytes, most of its characters of three."""
    return "日" * (size // 3) + "x" * (size % 3)


def write_with(host: Host, **arguments: Any) -> dict[str, Any]:
    return host.write(**{"content": "text", "session_id": "s"} | arguments)


BOUNDARIES: dict[str, tuple[int, Callable[[str], dict[str, Any]]]] = {
    "content": (limits.CONTENT_BYTES_MAX, lambda text: {"content": text}),
    "session_id": (limits.SESSION_ID_BYTES_MAX, lambda text: {"session_id": text}),
    "tool_call_id": (
        limits.TOOL_CALL_ID_BYTES_MAX,
        lambda text: {"metadata": {"tool_call_id": text}},
    ),
    "tags": (limits.TAG_BYTES_MAX, lambda text: {"metadata": {"tags": [text]}}),
    "summary": (limits.SUMMARY_BYTES_MAX, lambda text: {"metadata": {"summary": text}}),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_the_last_byte_is_accepted_and_one_more_refused(host: Host, name: str) -> None:
    size, arguments = BOUNDARIES[name]
    write_with(host, **arguments(filled(size)))
    for text in (filled(size + 1), filled(size - 2) + "日"):
        with pytest.raises(Refused) as refused:
            write_with(host, **arguments(text))
        assert refused.value.code == "INVALID_ARGUMENT"
        assert str(size) in str(refused.value)
        assert name in str(refused.value)
    assert host.call("get_system_health")["messages"] == 1


@pytest.mark.parametrize(
    ("name", "most", "items"),
    [
        ("tags", limits.TAGS_MAX, [str(n) for n in range(limits.TAGS_MAX + 1)]),
        ("relations", limits.RELATIONS_MAX, None),
        ("source_message_ids", limits.SOURCES_MAX, None),
    ],
)
def test_as_many_as_allowed_and_one_more(
    host: Host, name: str, most: int, items: list[Any] | None
) -> None:
    if items is None:
        target = host.write()["message_id"]
        item = {"type": "cites", "message_id": target} if name == "relations" else target
        items = [item] * (most + 1)
    write_with(host, metadata={name: items[:most]})
    with pytest.raises(Refused, match=str(most)):
        write_with(host, metadata={name: items})


def test_a_relation_type_is_a_word_of_limited_length(host: Host) -> None:
    target = host.write()["message_id"]
    size = limits.RELATION_TYPE_BYTES_MAX

    def relate(type_: str) -> None:
        write_with(host, metadata={"relations": [{"type": type_, "message_id": target}]})

    relate("a" + "_9" * ((size - 1) // 2) + "z" * ((size - 1) % 2))
    for wrong in ("a" * (size + 1), "", "9a", "A", "a-b", "é"):
        with pytest.raises(Refused, match="INVALID_ARGUMENT"):
            relate(wrong)


@pytest.mark.parametrize("value", [0, 100])
def test_importance_goes_from_0_to_100(host: Host, value: int) -> None:
    write_with(host, metadata={"importance": value})
    for wrong in (-1, 101, 50.5, "many"):
        with pytest.raises(Refused, match="importance"):
            write_with(host, metadata={"importance": wrong})


TEXTS = {
    "nothing": "",
    "NUL": "a\0b\0",
    "family emoji": "👨‍👩‍👧‍👦🏳️‍🌈",
    "combining marks": "e\u0301 \u0928\u093f Z\u0351\u036b\u0343",
    "both forms": "\u00e9 e\u0301",
    "right to left": "שלום \u202eevil\u202c عربى",
    "controls": "\x01\x1b[31m\r\n\x7f\x85\u2028\u2029",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "byte order mark": "\ufeffx",
    "replacement character": "\ufffd",
    "quotes": '\\"\\\\"\\u0000',
    "a mebibyte of one code point": "🎌" * (MIB // 4),
    "a mebibyte of NUL": "\0" * MIB,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_text_is_the_same_after_wire_restart_and_rebuild(host: Host, text: str) -> None:
    message_id = host.write(text, session_id="\u202e日本 🎌", metadata={"summary": text[:500]})[
        "message_id"
    ]
    host.call("delete_message", message_id=host.write()["message_id"])
    for again in (lambda: None, host.restart, lambda: host.call("rebuild_index")):
        again()
        read, offset = "", 0
        while offset < len(text.encode()):
            window = host.read("content", message_id=message_id, offset=offset, limit=65536)
            read, offset = read + window["content"], window["next_offset"]
        assert read == text
        (message,) = host.read("history", session_id="\u202e日本 🎌")["messages"]
        assert message["metadata"].get("summary") == text[:500]
