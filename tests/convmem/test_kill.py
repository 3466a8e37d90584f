"""kill -9 at random moments of writing, again and again, on one data directory.

Host and server are real processes, with several calls in flight at every kill. After each
one a new server must tell what the dead one acknowledged, unchanged and in order, and of
what it had not answered each message once or not at all. What was left unanswered under an
id of the host's own is then sent again, as a host would, and must be there once.

This finds what a dying process loses; what a power cut loses, tests/storage finds.
"""

import asyncio
import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from convmem import ids
from convmem.cli.launch import server_command
from convmem.limits import PAGE_ITEMS_MAX, REPLY_BYTES_MAX
from convmem.protocol import Client, ServerGone

# Repeats sizes, ids and delays; what is in flight at a kill is up to the machine.
SEED = int(os.environ.get("CONVMEM_TEST_SEED") or random.randrange(1 << 32))
SESSION = "kills"
OWN_ID_MS = 1_700_000_000_000
WRITERS = 4
LIFE_TIMEOUT_S = 60.0
# A kill comes this soon after the last of these answers: a few commits may fall between.
ANSWERS_MAX = 12
KILL_DELAY_S_MAX = 0.005
# Most messages are short, some are larger than a pipe takes at once.
REPEATS, REPEAT_WEIGHTS = (0, 100, 3_000, 40_000), (10, 10, 4, 1)


@dataclass(slots=True)
class Expectation:
    """What a server must tell at its start, by what those before it told and answered.

    Every content is unlike all others, so that it names its message.
    """

    told: list[tuple[str, str]] = field(default_factory=list)
    """Id and content of every message in order, when a server last started."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """Content and id of what was created since."""

    unanswered: dict[str, str | None] = field(default_factory=dict)
    """Content, and own id if it has one, of what was sent since and not answered."""

    def compare(self, stored: list[tuple[str, str]]) -> None:
        """Hold a new server to it. What the server tells is itself a promise from now on."""
        before = len(self.told)
        assert stored[:before] == self.told, "what was told once has changed"
        new = {content: message_id for message_id, content in stored[before:]}
        assert len(new) == len(stored) - before, "a message is there twice"
        assert len({message_id for message_id, _ in stored}) == len(stored), "an id is given twice"
        assert self.acknowledged.items() <= new.items(), "an acknowledged message is lost"
        for content in new.keys() - self.acknowledged.keys():
            assert content in self.unanswered, "a message is there that nobody wrote"
            assert self.unanswered[content] in (None, new[content])
        self.told, self.acknowledged = stored, {}

    async def write(self, client: Client, content: str, own_id: str | None) -> bool:
        """Write a message; whether that created it. Raises ServerGone."""
        self.unanswered[content] = own_id
        arguments = {"session_id": SESSION, "role": "user", "content": content}
        arguments |= {"message_id": own_id} if own_id else {}
        result = await client.call_tool("write_message", arguments)
        assert not result.is_error, result.text
        del self.unanswered[content]
        answer = json.loads(result.text)
        if answer["created"]:
            self.acknowledged[content] = answer["message_id"]
        return bool(answer["created"])

    async def write_again(self, client: Client) -> None:
        """Send what was left unanswered; without an id of its own it would be a new message."""
        left, self.unanswered = self.unanswered, {}
        there = {content for _, content in self.told}
        for content, own_id in left.items():
            if own_id is not None:
                assert await self.write(client, content, own_id) == (content not in there)


@pytest.mark.parametrize("kills", [10, pytest.param(70, marks=pytest.mark.ci)])
def test_what_was_acknowledged_outlives_the_server(kills: int, tmp_path: Path) -> None:
    print(f"to repeat: CONVMEM_TEST_SEED={SEED}")
    expectation = Expectation()
    choices = random.Random(SEED)

    async def life(number: int) -> None:
        async with (
            asyncio.timeout(LIFE_TIMEOUT_S),
            await Client.start(server_command(tmp_path)) as client,
        ):
            expectation.compare(await everything(client))
            await expectation.write_again(client)
            if number < kills:
                await write_until_killed(client, expectation, number, choices)

    for number in range(kills + 1):
        asyncio.run(life(number))
    assert not expectation.unanswered
    assert len(expectation.told) >= kills


async def write_until_killed(
    client: Client, expectation: Expectation, life: int, choices: random.Random
) -> None:
    answers: asyncio.Queue[bool] = asyncio.Queue()

    async def write_on(writer: int) -> None:
        number = 0
        try:
            while True:
                content, own_id = message(f"{life}.{writer}.{number} ", choices)
                answers.put_nowait(await expectation.write(client, content, own_id))
                number += 1
        except ServerGone:
            return

    async with asyncio.TaskGroup() as writers:
        for writer in range(WRITERS):
            writers.create_task(write_on(writer))
        for _ in range(choices.randint(1, ANSWERS_MAX)):
            assert await answers.get(), "a new message was there already"
        await asyncio.sleep(choices.uniform(0, KILL_DELAY_S_MAX))
        client.kill()


def message(name: str, choices: random.Random) -> tuple[str, str | None]:
    """Content that begins with a name, and for every second message an id of its own."""
    (repeats,) = choices.choices(REPEATS, REPEAT_WEIGHTS)
    content = name + choices.choice("a\0é語😀") * repeats
    own_id = OWN_ID_MS.to_bytes(6, "big") + choices.randbytes(10)
    return content, choices.choice((None, ids.to_text(own_id)))


async def everything(client: Client) -> list[tuple[str, str]]:
    """Id and content of every message, oldest first."""
    arguments: dict[str, Any] = {
        "view": "history",
        "session_id": SESSION,
        "order": "oldest_first",
        "limit": PAGE_ITEMS_MAX,
        "max_bytes": REPLY_BYTES_MAX,
    }
    found: list[tuple[str, str]] = []
    while True:
        result = await client.call_tool("read_messages", arguments)
        if result.is_error:
            assert result.text.startswith("NOT_FOUND"), result.text
            return found
        page = json.loads(result.text)
        found += [(item["message_id"], item["content"]) for item in page["messages"]]
        if "next_cursor" not in page:
            return found
        arguments["cursor"] = page["next_cursor"]
