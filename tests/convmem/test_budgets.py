"""What an operation may cost: writes, flushes and bytes of the disk; bytes of a reply."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from convmem import codec, ids, limits
from convmem.ledger import Ledger
from convmem.message import Message
from convmem.operations import WriteMessage
from convmem.records import PutMessage
from convmem.storage import Operation, OsDisk, Record, frame_bytes
from tests.convmem.harness import START_MS, Clock, Host

MIB = 1 << 20
SESSIONS = 150
MESSAGES = 1000  # in each
WRITER = "test host"


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


class TestDisk:
    """Counted where the store meets the disk. The host fixture's store is new and empty."""

    def spent(self, host: Host, work: Callable[[], object]) -> tuple[int, int, int]:
        """Writes, flushes and bytes that the log took."""

        def counted() -> dict[str, int]:
            told: dict[str, int] = host.call("get_system_health")["log_io"]
            return told

        before = counted()
        work()
        after = counted()
        writes, flushes, written = (
            after[name] - before[name] for name in ("writes", "flushes", "bytes_written")
        )
        return writes, flushes, written

    @pytest.mark.parametrize("content", ["", "x", "日本語 🎌", "x" * 500_000])
    def test_a_write_is_its_message_in_one_frame(self, host: Host, content: str) -> None:
        payload = 56 + len("s") + len(WRITER) + len(content.encode())
        assert self.spent(host, lambda: host.write(content)) == (1, 1, frame_bytes(payload))

    @pytest.mark.parametrize(
        ("changes", "changed_bytes"),
        [
            ({"content": "x" * 100}, 100),
            ({"metadata": {"importance": 3}}, 1),
            ({"metadata": {"memory_tier": "mid"}}, 1),
            ({"metadata": {"tags": ["abc"]}}, 1 + 4),
            ({"metadata": {"summary": "abc"}}, 2 + 3),
            ({"clear": ["tags"]}, 1),
        ],
        ids=str,
    )
    def test_an_update_is_what_changed_in_one_frame(
        self, host: Host, changes: dict[str, Any], changed_bytes: int
    ) -> None:
        message_id = host.write("y" * 10_000, metadata={"tags": ["old"]})["message_id"]
        update = {"message_id": message_id, "expected_revision": 1} | changes
        spent = self.spent(host, lambda: host.call("update_message", **update))
        assert spent == (1, 1, frame_bytes(40 + changed_bytes))

    @pytest.mark.parametrize("size", [0, 1, MIB])
    def test_a_deletion_is_a_tombstone_of_one_size(self, host: Host, size: int) -> None:
        message_id = host.write("x" * size)["message_id"]
        deleting = {"message_id": message_id}
        assert self.spent(host, lambda: host.call("delete_message", **deleting)) == (1, 1, 72)

    def test_writes_that_wait_together_share_one_frame_and_flush(self, host: Host) -> None:
        commands = [WriteMessage(session_id="s", role="user", content=str(n)) for n in range(100)]

        async def together() -> None:
            await asyncio.gather(*map(host.engine.execute, commands))

        writes, flushes, _ = self.spent(host, lambda: host.run(together()))
        assert (writes, flushes) == (1, 1)

    def test_what_changes_nothing_leaves_the_disk_alone(self, host: Host) -> None:
        written = host.write("text", metadata={"tags": ["a"]})
        message_id = written["message_id"]
        changes: list[Operation] = []
        host.disk.hook = changes.append
        host.write("text", metadata={"tags": ["a"]}, message_id=message_id)
        update = {"message_id": message_id, "expected_revision": 1}
        host.call("update_message", **update, content="text", metadata={"tags": ["a"]})
        host.call("update_message", **update, clear=["summary", "memory_tier"])
        host.call("rebuild_index")
        host.read("history", session_id="s")
        host.read("content", message_id=message_id)
        host.read("context", message_id=message_id)
        host.read("sessions")
        host.read("export")
        host.call("search_messages", query="text")
        host.call("get_system_health")
        assert changes == []
        host.write()
        assert [change.kind for change in changes] == ["pwrite", "sync_data"]

    def test_a_rebuild_is_what_is_live_and_two_flushes(self, host: Host) -> None:
        for number in range(50):
            message_id = host.write(f"{number} " + "x" * 300)["message_id"]
        host.call("delete_message", message_id=message_id)
        changes: list[Operation] = []
        host.disk.hook = changes.append
        answer = host.call("rebuild_index")
        flushes = [change for change in changes if change.kind.startswith("sync")]
        files = {name[-3:]: len(data) for name, data in host.disk.files.items()}
        assert sorted(change.name[-3:] for change in flushes if change.name) == ["cvl", "cvs"]
        assert files["cvl"] == answer["bytes_after"] < answer["bytes_before"]
        assert files["cvl"] + files["cvs"] < 2 * answer["bytes_after"]


def answer_of_every_view(host: Host, session_id: str, message_id: str) -> Iterator[tuple[str, int]]:
    """Ask each view with each budget; what was asked, and how many bytes it may take."""
    views: dict[str, dict[str, Any]] = {
        "history": {"session_id": session_id},
        "context": {"message_id": message_id, "before": 50, "after": 50, "relation_depth": 2},
        "sessions": {},
        "export": {},
    }
    for view, arguments in views.items():
        for max_bytes in (None, limits.REPLY_BYTES_MIN, limits.REPLY_BYTES_MAX):
            paged = {} if view == "context" else {"limit": limits.PAGE_ITEMS_MAX}
            host.read(view, **arguments, **paged, max_bytes=max_bytes)
            yield f"{view} {max_bytes}", max_bytes or limits.REPLY_BYTES_DEFAULT


def answer_of_every_search(host: Host, session_id: str) -> Iterator[tuple[str, int]]:
    """Ask for much and for little with each budget, as ``answer_of_every_view`` does."""
    everything = {"query": "", "limit": limits.PAGE_ITEMS_MAX, "before": 50, "after": 50}
    long = "\x01" * limits.TAG_BYTES_MAX
    searches: dict[str, dict[str, Any]] = {
        "everything": everything,
        "of a session": everything | {"session_id": session_id},
        "of no session": {"query": "x", "session_id": session_id[:-1] + "?"},
        "much filtered": {"query": "x", "tags": [long[n:] for n in range(limits.TAGS_MAX)]},
        "a word and a question": {"query": "0003 何を覚えて?", "limit": 20},
    }
    for name, arguments in searches.items():
        for max_bytes in (None, limits.REPLY_BYTES_MIN, limits.REPLY_BYTES_MAX):
            reply = host.call("search_messages", **arguments, max_bytes=max_bytes)
            assert bool(reply["results"]) == bool(reply["total"])
            yield f"search {name} {max_bytes}", max_bytes or limits.REPLY_BYTES_DEFAULT


class TestReplies:
    """No text over its budget, no line over 8 MiB, whatever the store holds."""

    def check(self, host: Host, session_id: str, message_id: str) -> None:
        answers = (
            answer_of_every_view(host, session_id, message_id),
            answer_of_every_search(host, session_id),
        )
        for asked, text_bytes_max in itertools.chain(*answers):
            assert host.text_bytes <= text_bytes_max, asked
        assert host.wire.line_bytes_max <= limits.REPLY_LINE_BYTES_MAX

    def test_many_sessions_of_many_messages(self, tmp_path: Path) -> None:
        clock = Clock()
        last_id = fill(tmp_path, clock)
        with Host(OsDisk(tmp_path), clock) as host:
            assert host.call("get_system_health")["messages"] == SESSIONS * MESSAGES
            self.check(host, "session 7", ids.to_text(last_id))
            pages = host.pages("history", "messages", session_id="session 7")
            assert sum(map(len, pages)) == MESSAGES
            assert len(pages) > 10
            listed = [item for page in host.pages("sessions", "sessions") for item in page]
            assert [item["messages"] for item in listed] == [MESSAGES] * SESSIONS

    @pytest.mark.parametrize("letter", ["x", "é", "日", "🎌", '"', "\\", "\x01"], ids=ascii)
    def test_messages_as_large_as_they_may_be(self, host: Host, letter: str) -> None:
        def filled(bytes_max: int, number: int = 0) -> str:
            number_text = f"{number:04}"
            return letter * ((bytes_max - 4) // len(letter.encode())) + number_text

        session_id = filled(limits.SESSION_ID_BYTES_MAX)
        target = host.write(session_id=session_id)["message_id"]
        metadata = {
            "tool_call_id": filled(limits.TOOL_CALL_ID_BYTES_MAX),
            "tags": [filled(limits.TAG_BYTES_MAX, n) for n in range(limits.TAGS_MAX)],
            "summary": filled(limits.SUMMARY_BYTES_MAX),
            "relations": [{"type": "r" * limits.RELATION_TYPE_BYTES_MAX, "message_id": target}]
            * limits.RELATIONS_MAX,
            "source_message_ids": [target] * limits.SOURCES_MAX,
        }
        for number in range(3):
            content = filled(limits.CONTENT_BYTES_MAX, number)
            message_id = host.write(content, session_id, metadata=metadata)["message_id"]
        self.check(host, session_id, message_id)
        whole = host.read(
            "history", session_id=session_id, limit=1, max_bytes=limits.REPLY_BYTES_MAX
        )
        assert "metadata_truncated" not in whole["messages"][0]

    def test_twenty_large_messages(self, host: Host) -> None:
        for letter in 'é🎌x"日' * 4:
            content = letter * (MIB // len(letter.encode()))
            message_id = host.write(content)["message_id"]
        self.check(host, "s", message_id)
        for size in (None, limits.WINDOW_BYTES_MAX):
            host.read("content", message_id=message_id, limit=size)
        pages = host.pages("history", "messages", session_id="s")
        assert sum(map(len, pages)) == 20

    def test_links_to_what_is_gone(self, host: Host) -> None:
        gone = [host.write()["message_id"] for _ in range(3 * limits.SOURCES_MAX)]
        parts = [gone[n::3] for n in range(3)]
        middle = [
            host.write(session_id="m", metadata={"source_message_ids": part})["message_id"]
            for part in parts
        ]
        root = host.write("x", "r", metadata={"source_message_ids": middle})["message_id"]
        for id_ in gone:
            host.call("delete_message", message_id=id_)
        for number in range(40):
            host.write(f"{number} " + "y" * 900, session_id="r")
        self.check(host, "r", root)
        reply = host.read("context", message_id=root, relation_depth=2, max_bytes=64_000)
        assert sorted(reply["missing_message_ids"]) == sorted(gone)


def fill(directory: Path, clock: Clock) -> bytes:
    """Many messages in many sessions, in turn, past the tools; the last id."""
    ledger = Ledger(OsDisk(directory), clock.environment())
    message_id = ids.NO_ID
    for number in range(MESSAGES):
        records = []
        for session in range(SESSIONS):
            message_id = ids.successor(message_id, START_MS + number, bytes(ids.RANDOM_BYTES))
            message = Message(
                message_id=message_id,
                session_id=f"session {session}",
                timestamp=START_MS + number,
                updated_at=START_MS + number,
                revision=1,
                role="user",
                content=f"{number} 覚えておいてください。 " * 10,
            )
            records.append(PutMessage(message))
        entries = ledger.append([Record(*codec.encode(record)) for record in records])
        for record, entry in zip(records, entries, strict=True):
            ledger.apply(record, entry)
    ledger.snapshot()()
    ledger.close()
    return message_id
