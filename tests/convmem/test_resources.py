"""Resources, prompts and completion through the installed server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convmem.protocol import BlockingClient, RequestFailed
from tests.convmem.test_serve import call, client_of

SESSION = "work / 日本"
QUOTED = "work%20%2F%20%E6%97%A5%E6%9C%AC"
KEY = "user/日本"
QUOTED_KEY = "user%2F%E6%97%A5%E6%9C%AC"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    folder: Path = tmp_path_factory.mktemp("store")
    with client_of(folder) as connected:
        for content in ("first", "second"):
            call(connected, "write_message", session_id=SESSION, role="user", content=content)
        call(connected, "write_message", session_id="home", role="user", content="other")
        for key in (KEY, "user/theme", "user/gone"):
            call(connected, "memory_set", key=key, value=f"value of {key}")
        call(connected, "memory_delete", key="user/gone")
        yield connected


def read(client: BlockingClient, uri: str) -> dict[str, Any]:
    contents: Any = client.request("resources/read", {"uri": uri})["contents"]
    (content,) = contents
    assert content["mimeType"] == "application/json"
    parsed: dict[str, Any] = json.loads(content["text"])
    return parsed


def complete(
    client: BlockingClient, beginning: str, reference: dict[str, str], name: str = "session_id"
) -> list[str]:
    argument = {"name": name, "value": beginning}
    answer: Any = client.request("completion/complete", {"ref": reference, "argument": argument})
    values: list[str] = answer["completion"]["values"]
    return values


def test_what_is_listed_can_be_read(client: BlockingClient) -> None:
    listed: Any = client.request("resources/list")["resources"]
    templates: Any = client.request("resources/templates/list")["resourceTemplates"]
    assert [resource["uri"] for resource in listed] == ["convmem://sessions", "convmem://facts"]
    assert [template["uriTemplate"] for template in templates] == [
        "convmem://session/{session_id}",
        "convmem://message/{message_id}",
        "convmem://fact/{key}",
    ]
    sessions = read(client, "convmem://sessions")["sessions"]
    assert [session["session_id"] for session in sessions] == ["home", SESSION]
    messages = read(client, f"convmem://session/{QUOTED}")["messages"]
    assert [message["content"] for message in messages] == ["second", "first"]
    around = read(client, f"convmem://message/{messages[0]['message_id']}")
    assert around["message"] == messages[0]
    assert around["before"] == [messages[1]]


def test_facts_can_be_read_as_well(client: BlockingClient) -> None:
    facts = read(client, "convmem://facts")["facts"]
    assert [fact["key"] for fact in facts] == ["user/theme", KEY]
    assert read(client, f"convmem://fact/{QUOTED_KEY}") == facts[1]
    (told,) = call(client, "memory_history", key=KEY, include_reads=True)["reads"]
    assert (told["action"], told["client_id"]) == ("read", "convmem")


@pytest.mark.parametrize(
    "path",
    ["session/nowhere", f"message/{'0' * 26}", "message/x", "fact/nothing", "fact/user%2Fgone"],
)
def test_what_is_not_there_is_not_found(client: BlockingClient, path: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        client.request("resources/read", {"uri": f"convmem://{path}"})
    assert failed.value.code == -32602  # the client speaks 2026-07-28; before, it was -32002


def test_session_ids_are_completed(client: BlockingClient) -> None:
    template = {"type": "ref/resource", "uri": "convmem://session/{session_id}"}
    assert complete(client, "wo", template) == [SESSION]
    assert complete(client, "", template) == ["home", SESSION]
    prompt_reference = {"type": "ref/prompt", "name": "hand_over"}
    assert complete(client, "h", prompt_reference) == ["home"]


def test_keys_of_facts_are_completed(client: BlockingClient) -> None:
    template = {"type": "ref/resource", "uri": "convmem://fact/{key}"}
    assert complete(client, "user/", template, "key") == ["user/theme", KEY]
    assert complete(client, "u/", template, "key") == []


def prompt(client: BlockingClient, name: str, **arguments: str) -> str:
    got: Any = client.request("prompts/get", {"name": name, "arguments": arguments})
    text: str = got["messages"][0]["content"]["text"]
    return text


def test_prompts_hold_what_they_are_about(client: BlockingClient) -> None:
    listed: Any = client.request("prompts/list")["prompts"]
    assert [each["name"] for each in listed] == ["recall", "hand_over"]
    assert "the beta" in prompt(client, "recall", topic="the beta")
    text = prompt(client, "hand_over", session_id=SESSION)
    assert '"first"' in text
    assert '"second"' in text
    with pytest.raises(RequestFailed, match="nowhere") as failed:
        prompt(client, "hand_over", session_id="nowhere")
    assert failed.value.code == -32602


def test_a_store_that_cannot_be_opened_is_told_here_too() -> None:
    with client_of(None) as client, pytest.raises(RequestFailed, match="no data directory"):
        client.request("resources/read", {"uri": "convmem://sessions"})
