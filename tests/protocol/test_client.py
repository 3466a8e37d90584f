"""The raw client against our server and against odd ones, as real processes."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from convmem.protocol import (
    BlockingClient,
    Client,
    ClientError,
    Era,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
    memory_pair,
)

from .example import example
from .process import EXAMPLE, ROOT
from .requirements import proves

SCENARIO_TIMEOUT_S = 30.0


def fake(kind: str) -> list[str]:
    return [sys.executable, "-m", "tests.protocol.fakes", kind]


def meet(command: list[str], scenario: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Run a scenario with a client of this server; the process must be gone afterwards."""

    async def run() -> None:
        async with asyncio.timeout(SCENARIO_TIMEOUT_S):
            async with await Client.start(command, cwd=str(ROOT), **options) as client:
                await scenario(client)
            assert client.pid is not None
            assert not is_running(client.pid)

    asyncio.run(run())


def nested(depth: int) -> object:
    return [nested(depth - 1)] if depth else []


def is_running(pid: int) -> bool:
    """Whether a process does anything; one that has ended may wait for its parent to look."""
    row = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return row.stdout.strip()[:1] not in ("", "Z")


@pytest.mark.parametrize(
    ("era", "version"),
    [(None, "2026-07-28"), (Era.MODERN, "2026-07-28"), (Era.HANDSHAKE, "2025-11-25")],
)
def test_our_client_and_our_server(era: Era | None, version: str) -> None:
    async def scenario(client: Client) -> None:
        assert (client.server_name, client.server_version) == ("example", "1.2.3")
        assert (client.protocol_version, client.instructions) == (version, "Ask it.")
        assert client.capabilities == {"tools": {"listChanged": False}}
        assert [tool["name"] for tool in await client.list_tools()][:2] == ["say", "fail"]
        said = await client.call_tool("say", {"text": "\u00fc", "times": 2})
        assert said.structured == {"said": "\u00fc\u00fc", "client": "convmem"}
        assert said.text == '{"said":"\u00fc\u00fc","client":"convmem"}'
        assert not said.is_error
        refused = await client.call_tool("say", {})
        assert refused.is_error
        assert refused.text.startswith("INVALID_ARGUMENT: text: required\n")
        with pytest.raises(RequestFailed) as caught:
            await client.call_tool("nosuch", {})
        assert caught.value.code == -32602

    meet(list(EXAMPLE), scenario, era=era)


@proves("CLIENT-06", "CLIENT-07", "CLIENT-08")
@pytest.mark.parametrize(
    ("kind", "version", "server"),
    [
        ("modern", "2026-07-28", "modern"),
        ("other_version", "2026-07-28", "modern"),
        ("later_version", "2025-11-25", "fake"),
        ("without_version", "2025-11-25", "fake"),
        ("nervous", "2025-06-18", ""),
        pytest.param("shy", "2025-11-25", "fake", marks=pytest.mark.ci),
    ],
)
def test_the_era_is_found_out(kind: str, version: str, server: str) -> None:
    async def scenario(client: Client) -> None:
        assert (client.protocol_version, client.server_name) == (version, server)
        told: Any = await client.request("x", {"_meta": {"a": 1}})
        meta = told["heard"]["params"]["_meta"]
        assert meta["a"] == 1
        assert meta.get("io.modelcontextprotocol/protocolVersion", version) == version
        assert ("io.modelcontextprotocol/clientInfo" in meta) is (server == "modern")

    meet(fake(kind), scenario)


@pytest.mark.parametrize("kind", ["later_version", "without_version", "nervous"])
def test_an_era_that_is_insisted_on_and_not_spoken_is_told(kind: str) -> None:
    with pytest.raises(ClientError):
        asyncio.run(Client.start(fake(kind), cwd=str(ROOT), era=Era.MODERN))


async def roots(params: Mapping[str, object]) -> Mapping[str, object]:
    return {"roots": [], "asked": dict(params)}


async def unable(params: Mapping[str, object]) -> Mapping[str, object]:
    raise ValueError("the secret")


@proves("CLIENT-13")
def test_input_that_is_required_is_given_with_the_state_as_it_came() -> None:
    async def scenario(client: Client) -> None:
        result: Any = await client.request("tools/call", {"name": "x"})
        capabilities = "io.modelcontextprotocol/clientCapabilities"
        assert all(
            each["params"]["_meta"][capabilities] == {"roots": {}} for each in result["told"]
        )
        given = {"a": {"roots": [], "asked": {}}, "b": {"roots": [], "asked": {"n": 1}}}
        states = [each["params"].get("requestState") for each in result["told"]]
        assert states == [None, "s1", None, ""]
        inputs = [each["params"].get("inputResponses") for each in result["told"]]
        assert inputs == [None, given, given, given]
        assert len({each["id"] for each in result["told"]}) == 4

    meet(fake("demanding"), scenario, answers={"roots/list": roots})


@pytest.mark.parametrize(
    ("kind", "text"), [("demanding", "not given"), ("insatiable", "more than 10 times")]
)
def test_input_that_nobody_gives_ends_the_request(kind: str, text: str) -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(ClientError, match=text):
            await client.request("tools/call", {"name": "x"})

    meet(fake(kind), scenario)


def test_only_what_servers_ask_can_be_answered() -> None:
    with pytest.raises(ValueError, match="no server asks tools/list"):
        asyncio.run(Client.connect(memory_pair()[0], answers={"tools/list": roots}))


def test_the_same_over_memory() -> None:
    async def run() -> None:
        ours, theirs = memory_pair()
        serving = asyncio.create_task(example().serve(theirs))
        async with await Client.connect(ours, client_name="me") as client:
            assert client.pid is None
            said = await client.call_tool("say", {"text": "x"})
            assert said.structured == {"said": "x", "client": "me"}
            await theirs.close()
        await serving

    asyncio.run(run())


def test_many_calls_at_once_find_their_answers() -> None:
    async def scenario(client: Client) -> None:
        texts = [str(n) for n in range(300)]
        results = await asyncio.gather(*(client.call_tool("say", {"text": t}) for t in texts))
        assert [r.structured and r.structured["said"] for r in results] == texts

    meet(list(EXAMPLE), scenario)


@proves("CLIENT-01", "CLIENT-03", "CLIENT-04")
def test_noise_is_skipped_and_never_answered() -> None:
    async def scenario(client: Client) -> None:
        first, second = await client.request("one"), await client.request("two", {"a": 1})
        assert first["heard"] == {"jsonrpc": "2.0", "id": 3, "method": "one"}
        expected = {"jsonrpc": "2.0", "id": 4, "method": "two", "params": {"a": 1}}
        assert second["heard"] == expected

    meet(fake("noisy"), scenario)


@proves("CLIENT-05")
def test_a_server_may_ask() -> None:
    async def scenario(client: Client) -> None:
        result: Any = await client.request("x")
        ping, listed, sampled, elicited = result["told"]
        assert ping == {"jsonrpc": "2.0", "id": "p", "result": {}}
        assert listed["result"] == {"roots": [], "asked": {"n": 1}}
        assert sampled["error"]["code"] == -32601
        assert elicited["error"] == {"code": -32603, "message": "Internal error"}

    answers = {"roots/list": roots, "elicitation/create": unable}
    meet(fake("asking"), scenario, answers=answers)


@proves("CLIENT-09")
def test_all_pages_are_listed_and_a_circle_ends() -> None:
    async def scenario(client: Client) -> None:
        assert [tool["name"] for tool in await client.list_tools()] == ["a", "b", "c"]

    meet(fake("paged"), scenario)


def test_progress_is_passed_on() -> None:
    async def scenario(client: Client) -> None:
        heard: list[tuple[float, float | None, str | None]] = []
        result = await client.call_tool("x", {}, on_progress=lambda *said: heard.append(said))
        assert (result.text, result.structured) == ("done", None)
        assert heard == [(1, 4, "so far"), (2.5, None, None)]

    meet(fake("reporting"), scenario)


def test_an_error_is_told_with_its_data() -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(RequestFailed, match="Unknown tool") as caught:
            await client.request("x")
        assert (caught.value.code, caught.value.data) == (-32602, {"name": "x"})
        with pytest.raises(RequestFailed, match="malformed result"):
            await client.request("x")

    meet(fake("failing"), scenario)


@proves("CLIENT-10")
def test_a_call_given_up_is_cancelled_and_its_late_answer_ignored() -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(RequestTimedOut, match=r"no answer to slow within 0\.05 s"):
            await client.request("slow", timeout_s=0.05)
        abandoned = asyncio.create_task(client.request("dropped"))
        await asyncio.sleep(0)
        abandoned.cancel()
        with pytest.raises(asyncio.CancelledError):
            await abandoned
        result: Any = await client.request("report")
        slow, slow_cancelled, dropped, dropped_cancelled = result["told"]
        assert slow_cancelled["method"] == dropped_cancelled["method"] == "notifications/cancelled"
        assert slow_cancelled["params"]["requestId"] == slow["id"]
        assert dropped_cancelled["params"]["requestId"] == dropped["id"]

    meet(fake("mute"), scenario)


@proves("CLIENT-11")
def test_a_server_that_dies_is_told_with_its_last_words() -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(ServerGone, match=r"exit status 3.*last words") as caught:
            await client.request("x")
        assert caught.value.returncode == 3
        assert len(caught.value.stderr_tail) <= 8192
        with pytest.raises(ServerGone):
            await client.request("again")

    meet(fake("dying"), scenario)


def test_a_killed_server_is_gone() -> None:
    async def scenario(client: Client) -> None:
        waiting = asyncio.create_task(client.call_tool("wait", {"seconds": 60}))
        await client.request("tools/list")
        client.kill()
        with pytest.raises(ServerGone) as caught:
            await waiting
        assert caught.value.returncode == -9

    meet(list(EXAMPLE), scenario)


@proves("CLIENT-11")
def test_stderr_is_drained() -> None:
    async def scenario(client: Client) -> None:
        for _ in range(100):
            await asyncio.gather(*(client.request("x") for _ in range(100)))
        assert set(client.stderr_tail) == {"y"}

    meet(fake("chatty"), scenario)


@proves("CLIENT-04")
def test_an_answer_may_be_long_and_not_quite_unicode() -> None:
    async def scenario(client: Client) -> None:
        result = await client.call_tool("x", {})
        assert result.text == "z" * 17_000_000 + "\ufffd"

    meet(fake("lavish"), scenario)


@pytest.mark.parametrize(
    ("command", "kind", "text"),
    [
        (fake("wordless"), ServerGone, "no credentials"),
        (fake("future"), ClientError, "2099-01-01"),
        (fake("silent"), RequestTimedOut, "no answer to initialize within 1 s"),
        (["/no/such/program"], ServerGone, "No such file"),
    ],
    ids=["exits", "version", "silent", "missing"],
)
def test_a_handshake_that_fails_is_told(
    command: list[str], kind: type[ClientError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        asyncio.run(Client.start(command, cwd=str(ROOT), timeout_s=1.0))


@proves("CLIENT-12")
@pytest.mark.ci
def test_a_server_that_will_not_leave_is_killed_with_all_it_started() -> None:
    children: list[int] = []
    started = time.monotonic()

    async def scenario(client: Client) -> None:
        children.append(int(client.instructions or ""))
        assert is_running(children[0])

    meet(fake("stubborn"), scenario)
    assert time.monotonic() - started < 8
    assert not is_running(children[0])


def test_without_an_event_loop() -> None:
    with BlockingClient(list(EXAMPLE), cwd=str(ROOT), client_name="sync") as client:
        assert client.server_name == "example"
        assert len(client.list_tools()) == 6
        said = client.call_tool("say", {"text": "x"})
        assert said.structured == {"said": "x", "client": "sync"}
        client.notify("notifications/unknown")
        assert client.request("tools/list")["tools"]
        with pytest.raises(RequestTimedOut):
            client.call_tool("wait", {"seconds": 60}, timeout_s=0.05)
        pid = client.pid
    assert pid is not None
    assert not is_running(pid)
    client.close()


def test_a_blocking_client_that_cannot_start_says_why() -> None:
    with pytest.raises(ServerGone, match="no credentials"):
        BlockingClient(fake("wordless"), cwd=str(ROOT))


@proves("CLIENT-02")
@pytest.mark.parametrize(
    ("text", "problem"),
    [("\ud800", "not Unicode"), ("x" * 9_000_000, "too long"), (nested(200), "deeper than 128")],
    ids=["lone surrogate", "long", "deep"],
)
def test_what_a_server_could_not_take_is_refused_before_it_is_sent(
    text: object, problem: str
) -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(ClientError, match=problem):
            await client.call_tool("say", {"text": text})
        await client.request("tools/list")

    meet(list(EXAMPLE), scenario)


def test_a_callback_that_fails_costs_nobody_an_answer() -> None:
    async def scenario(client: Client) -> None:
        told: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))

        def fail(done: float, total: float | None, message: str | None) -> None:
            raise ZeroDivisionError("in a callback")

        waited = await client.call_tool("wait", {"seconds": 1.3}, on_progress=fail)
        assert not waited.is_error
        assert set(told) == {"in a callback"}

    meet(list(EXAMPLE), scenario)
