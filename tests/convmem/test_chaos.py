"""Six real servers on one data directory, killed and stopped at random, judged from outside.

What the simulation does in virtual time, with real processes, sockets, signals and files.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from convmem.cli.launch import server_command
from convmem.protocol import Client, ClientError, ServerGone
from tests.convmem.judge import SHARED, Answer, History
from tests.convmem.test_kill import everything

SEED = int(os.environ.get("CONVMEM_TEST_SEED") or random.randrange(1 << 32))
CLIENTS = 6
BUSY_TIMEOUT_S = 2.0
# Patience with one owner, with the next, and with joining, on a machine with little time to give.
ANSWER_S_MAX = 30.0
PAUSE_S_MAX = 0.3
STOP_S_MAX = 0.8
READ_SHARED = {"view": "history", "session_id": SHARED}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="stops processes")


class Host:
    """A client, and the server it has at the moment."""

    def __init__(self, data_dir: Path, name: str) -> None:
        self._command = [
            *server_command(data_dir),
            *("--client-id", name, "--busy-timeout", str(int(BUSY_TIMEOUT_S * 1000))),
        ]
        self.name = name
        self.client: Client | None = None

    async def call(self, tool: str, arguments: dict[str, Any]) -> Answer:
        """One call, on a new server where the last one is gone."""
        started_s = time.monotonic()
        try:
            if self.client is None:
                self.client = await Client.start(self._command)
            result = await self.client.call_tool(tool, arguments)
        except ServerGone:
            await self.close()
            return None
        assert time.monotonic() - started_s < ANSWER_S_MAX, "a call took too long"
        if result.is_error:
            return result.text.partition(":")[0]
        return dict(result.structured or {})

    async def close(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(ClientError):
                await client.close()

    def signal(self, number: int) -> bool:
        """Send a signal to the server, if there is one."""
        pid = self.client.pid if self.client else None
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, number)
                return True
        return False


async def ask_on(host: Host, told: History, choices: random.Random, until_s: float) -> None:
    number = 0
    while time.monotonic() < until_s:
        number += 1
        name = f"{host.name}.{number}"
        match choices.choice("wwwwcccfffdr"):
            case "c":
                await change(host, name, told)
            case "f":
                await set_fact(host, name, told)
            case "d" if known := told.to_delete():
                gone = choices.choice(known)
                told.maybe_deleted.add(gone)
                arguments = {"message_id": told.acknowledged[gone]}
                told.was_deleted(gone, await host.call("delete_message", arguments))
            case "r" if number % 10 == 0:
                await host.call("rebuild_index", {})
            case _:
                await write(host, "kills", name, told)


async def write(host: Host, session_id: str, name: str, told: History) -> None:
    message = {"session_id": session_id, "role": "user", "content": name}
    told.wrote(host.name, name, await host.call("write_message", message))


async def change(host: Host, name: str, told: History) -> None:
    page = await host.call("read_messages", READ_SHARED)
    if isinstance(page, dict):
        revision = told.saw(page["messages"])
        arguments = {
            "message_id": told.shared_id,
            "expected_revision": revision,
            "content": name,
        }
        told.message.changed(name, revision, await host.call("update_message", arguments))


async def set_fact(host: Host, name: str, told: History) -> None:
    fact = await host.call("memory_get", {"key": SHARED})
    if isinstance(fact, dict):
        revision = told.fact.saw(fact["revision"], fact["value"])
        arguments = {"key": SHARED, "value": name, "expected_revision": revision}
        told.fact.changed(name, revision, await host.call("memory_set", arguments))


async def disturb(hosts: list[Host], choices: random.Random, until_s: float) -> int:
    """Kill servers and make them stand still. How many."""
    disturbed = 0
    while time.monotonic() < until_s:
        await asyncio.sleep(choices.uniform(0, PAUSE_S_MAX))
        victim = choices.choice(hosts)
        if choices.random() < 0.6:
            disturbed += victim.signal(signal.SIGKILL)
        elif victim.signal(signal.SIGSTOP):
            disturbed += 1
            await asyncio.sleep(choices.uniform(0, STOP_S_MAX))
            victim.signal(signal.SIGCONT)
    return disturbed


@pytest.mark.parametrize("duration_s", [4, pytest.param(60, marks=pytest.mark.ci)])
def test_whatever_happens_to_servers_every_acknowledged_thing_is_there_once(
    duration_s: int, tmp_path: Path
) -> None:
    print(f"to repeat the choices: CONVMEM_TEST_SEED={SEED}")
    told = History()

    async def test() -> None:
        choices = random.Random(SEED)
        hosts = [Host(tmp_path, f"host {number}") for number in range(CLIENTS)]
        await write(hosts[0], SHARED, SHARED, told)
        created = await hosts[0].call("memory_set", {"key": SHARED, "value": SHARED})
        assert isinstance(created, dict), created
        until_s = time.monotonic() + duration_s
        async with asyncio.TaskGroup() as group:
            for host in hosts:
                own = random.Random(choices.random())
                group.create_task(ask_on(host, told, own, until_s))
            disturbing = group.create_task(disturb(hosts, choices, until_s))
        for host in hosts:
            host.signal(signal.SIGCONT)
            await host.close()
        assert disturbing.result() >= duration_s
        async with await Client.start(server_command(tmp_path)) as client:
            there = await everything(client)
            page = await client.call_tool("read_messages", READ_SHARED)
            fact = await client.call_tool("memory_get", {"key": SHARED})
        assert page.structured is not None
        assert fact.structured is not None
        told.fact.judge(fact.structured["revision"])  # type: ignore[arg-type]
        messages: Any = page.structured["messages"]
        told.judge(
            messages
            + [{"message_id": message_id, "content": content} for message_id, content in there]
        )

    async def bounded() -> None:
        async with asyncio.timeout(duration_s + 2 * ANSWER_S_MAX):
            await test()

    asyncio.run(bounded())
    counts = [len(told.acknowledged), len(told.message.revisions), len(told.fact.revisions)]
    print("{} written, {} changed, {} facts set".format(*counts))
    assert min(counts) > duration_s
