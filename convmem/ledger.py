"""A store and the state over it, kept in step.

The ledger turns log entries into state (on replay and after a live write, by the same
``State.apply``), decides commands on it, and answers queries from it. It blocks and knows no
event loop: ``append`` may run in a writer thread while everything else stays on one thread.
Every storage error leaves it as a ``Refusal``.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import assert_never

from convmem import codec, compaction, host, ids, views
from convmem.audit import Audit
from convmem.commands import Granted, Settled, decide
from convmem.errors import Code, Refusal
from convmem.fact import Fact
from convmem.fact_commands import decide_fact
from convmem.health import health
from convmem.indexer import Indexer
from convmem.memory import Change, FactChange, MessageChange
from convmem.operations import (
    FactCommand,
    JsonObject,
    Query,
    ReadFact,
    ReadFactHistory,
    ReadHealth,
    SearchFacts,
    SearchMessages,
    WriteCommand,
)
from convmem.records import (
    ChangeEffect,
    DeleteFact,
    DeleteMessage,
    GreatestFactRevision,
    GreatestId,
    Place,
    PutMessage,
    Record,
    RefuseFact,
    SetFact,
    UpdateMessage,
)
from convmem.refusals import refusals
from convmem.replica import Replica
from convmem.semantic import BY_WORDS, Meaning
from convmem.state import State
from convmem.storage import Compacted, Disk, Entry, Environment, Origin, OsDisk, Store
from convmem.storage import Record as LogRecord


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A compacted log that is durable and not yet in use, and the state it leads to."""

    compacted: Compacted
    replica: Replica
    dropped_links: int


class Ledger:
    """An open store with its state."""

    @classmethod
    def open(cls, place: Path | Disk, allow_network: bool = False, audit: bool = True) -> "Ledger":
        """Lock, recover and replay the store of a directory or its disk. Raises Refusal.

        A network file system is refused unless that is allowed: its locks may not hold.
        ``audit``: reads of facts are noted.
        """
        disk = OsDisk(place) if isinstance(place, Path) else place
        return cls(disk, environment_of_host(), allow_network, audit)

    def __init__(
        self,
        disk: Disk,
        environment: Environment,
        allow_network: bool = False,
        audit: bool = False,
    ) -> None:
        self.disk = disk
        self._environment = environment
        self._replica = Replica(self._read)
        with refusals():
            self._store = Store.open(disk, environment, self._replica, allow_network=allow_network)
        self._audit = Audit(disk)
        self._is_audited = audit
        self._diverged: str | None = None
        self.last_error: str | None = None  # of work that nobody waits for, as snapshots
        self._last_id = self.state.last_id  # and of every id given out since

    def decide(self, command: WriteCommand) -> Granted | Settled:
        """What a command leads to. Raises Refusal."""
        self._refuse_diverged()
        now_ms = self._environment.now_ms()

        def new_id() -> bytes:
            random = self._environment.random_bytes(ids.RANDOM_BYTES)
            return ids.successor(self._last_id, now_ms, random)

        with refusals():
            if isinstance(command, FactCommand):
                decided = decide_fact(self.state, command, now_ms, new_id)
            else:
                decided = decide(self.state, command, now_ms, new_id)
        if isinstance(decided, Granted):
            self._last_id = max(self._last_id, decided.given_id)
        return decided

    def append(self, records: Sequence[LogRecord]) -> list[Entry]:
        """Make records durable, together or not at all. Raises Refusal."""
        with refusals():
            return self._store.append(records)

    def apply(self, record: Record, entry: Entry) -> None:
        """Take a durable record into the state.

        Should that fail, log and state differ from then on: nothing more is decided on the
        state, and no snapshot is taken of it. Raises Refusal.
        """
        try:
            self._replica.apply(record, entry)
        except Exception as error:
            self._diverged = (
                f"a record that is safe in the log could not be applied ({type(error).__name__}); "
                "restart the server"
            )
            raise Refusal(Code.STORE_FAILED, self._diverged) from error

    def change(self, record: Record) -> Change | None:
        """What a record that was applied has changed for those who read."""
        match record:
            case PutMessage(message):
                return MessageChange(message.session_id, message.message_id)
            case UpdateMessage(message_id=message_id) | DeleteMessage(message_id=message_id):
                row = self.state.messages.row(message_id)
                assert row is not None
                return MessageChange(self.state.session_of(row), message_id)
            case SetFact(fact=Fact(key=key)) | DeleteFact(key=key):
                return FactChange(key)
            case RefuseFact() | GreatestId() | GreatestFactRevision() | ChangeEffect():
                return None
            case _:
                assert_never(record)

    def _refuse_diverged(self) -> None:
        if self._diverged is not None:
            raise Refusal(Code.STORE_FAILED, self._diverged)

    def answer(self, query: Query, meaning: Meaning = BY_WORDS) -> JsonObject:
        """Answer a query from the state as last applied. Raises Refusal.

        ``meaning`` is that of a search. A search indexes on its way what is not indexed yet; not
        while ``catch_up`` does.
        """
        with refusals():
            match query:
                case ReadHealth():
                    return self._health()
                case SearchMessages():
                    return self._search(query, meaning)
                case SearchFacts():
                    return self._noted(query, self._search_facts(query, meaning))
                case ReadFact():
                    return self._noted(query, views.answer(self.state, query))
                case ReadFactHistory():
                    reads = self._audit.reads_of(query.key) if self._is_audited else None
                    return views.fact_history(self.state, query, reads)
                case _:
                    return views.answer(self.state, query)

    def _health(self) -> JsonObject:
        status = self._store.status()
        failed = status.failed or self._diverged
        told = health(self.state, self._indexer, status, self.disk.path, failed)
        told["audit"] = self._audit.report() if self._is_audited else "off"
        return told | ({"last_error": self.last_error} if self.last_error else {})

    def _noted(self, query: ReadFact | SearchFacts, answer: JsonObject) -> JsonObject:
        """The answer, once it is noted who was given it."""
        if self._is_audited:
            who = {"at": self._environment.now_ms(), "client_id": query.client_id}
            self._audit.note(who | _what(query, answer))
        return answer

    def _search(self, query: SearchMessages, meaning: Meaning) -> JsonObject:
        indexer = self._indexer
        if indexer.is_behind:
            indexer.catch_up()()
        if indexer.failure is not None:
            raise Refusal(Code.STORE_FAILED, indexer.failure)
        answer = views.search(self.state, indexer.index, query, meaning)
        return answer | ({"unreadable": indexer.unreadable} if indexer.unreadable else {})

    def _search_facts(self, query: SearchFacts, meaning: Meaning) -> JsonObject:
        index = self._replica.fact_index
        if index.backlog:
            index.catch_up()()
        if index.failure is not None:
            raise Refusal(Code.STORE_FAILED, index.failure)
        return views.search_facts(self.state, index, query, meaning)

    @property
    def is_index_far_behind(self) -> bool:
        """Whether so much is not indexed that a search should not do it on its way."""
        return self._indexer.is_far_behind or self._replica.fact_index.is_far_behind

    def catch_up(self) -> Callable[[], None]:
        """Note what is not indexed; what is returned indexes it, in any thread, one at a time.

        It blocks and does not raise.
        """
        indexes = (self._indexer, self._replica.fact_index)
        works = [index.catch_up() for index in indexes if index.backlog]

        def work() -> None:
            for each in works:
                each()

        return work

    def stop_indexing(self) -> None:
        """Have the thread that catches up end soon."""
        self._indexer.stop()

    def renew_index(self) -> None:
        """Make an index that was given up again."""
        self._replica.renew_index()

    def publish(self, endpoint: str) -> None:
        """Let those who find the store in use know how to reach its owner. Raises Refusal."""
        with refusals():
            self._store.publish(endpoint)

    @property
    def snapshot_due(self) -> bool:
        """Whether so much was written that a snapshot would spare the next start much replay."""
        return self._store.snapshot_due

    def snapshot(self) -> Callable[[], None]:
        """Take a picture of the state now; what is returned writes it, in any thread.

        The writing blocks and raises Refusal, which hurts nothing but the next start.
        """
        self._refuse_diverged()
        renew = self._indexer.is_worth_saving
        position = self._store.position()
        sections = self._replica.sections()
        counts = (self.live, 0)

        def write() -> None:
            with refusals():
                self._store.write_snapshot(position, sections(), counts, renew=renew)

        return write

    def compact(self, on_progress: Callable[[int, int], None]) -> Rebuilt | None:
        """Write a new log of what counts, durably; ``switch`` puts it to use. None if all does.

        What it leads to is not indexed yet: that takes longer, and writes would wait for it.
        Blocks, in the thread that appends; nothing may be applied until it is done.
        ``on_progress`` is told the records written and their number. Raises Refusal.
        """
        self._refuse_diverged()
        found = compaction.dead(self.state)
        if not found:
            return None
        now_ms = self._environment.now_ms()
        records = compaction.live_records(self.state, found.dangling, now_ms)
        expected_bytes = min(self.log_bytes, self.state.live_bytes())
        total = self.live + self.state.facts.events
        return self._rewrite(
            records,
            self.live,
            expected_bytes,
            len(found.dangling),
            lambda done: on_progress(min(done, total), total),
        )

    def merge(
        self,
        incoming: Iterable[Record],
        left_out: AbstractSet[bytes],
        is_gone: Callable[[bytes], bool],
        incoming_bytes: int,
        live: int,
        on_progress: Callable[[int], None],
    ) -> Rebuilt:
        """As ``compact``, with records that come in behind what counts.

        ``left_out`` are messages that count no more, ``is_gone`` tells of any message whether it
        is not there in the end, ``live`` is how many there are then. Raises Refusal, and what
        taking the records raises; the store goes on as it was then.
        """
        self._refuse_diverged()
        dangling = {target for target in self.state.links.targets() if is_gone(target)}
        now_ms = self._environment.now_ms()
        kept = compaction.live_records(self.state, dangling, now_ms, left_out)
        expected_bytes = self.state.live_bytes() + incoming_bytes
        records = chain(kept, incoming)
        return self._rewrite(
            records, live, expected_bytes, len(dangling), on_progress, Origin.IMPORTED
        )

    def _rewrite(
        self,
        records: Iterable[Record],
        live: int,
        expected_bytes: int,
        dropped_links: int,
        on_progress: Callable[[int], None],
        origin: Origin = Origin.COMPACTED,
    ) -> Rebuilt:
        replica = Replica(self._read)
        with refusals():
            compacted = self._store.compact(
                (LogRecord(*codec.encode(record)) for record in records),
                (live, 0),
                expected_bytes=expected_bytes,
                on_entry=replica.replay,
                progress=on_progress,
                origin=origin,
            )
        return Rebuilt(compacted, replica, dropped_links)

    def switch(self, rebuilt: Rebuilt) -> None:
        """Use the new log and its state from now on: at once, in memory. Raises Refusal."""
        if self.state.facts.purged:  # first: after a crash the new log knows of no purge
            self._audit.forget(self.state.facts.purged)
        with refusals():
            self._store.switch(rebuilt.compacted)
        self._replica = rebuilt.replica

    def retire(self) -> None:
        """Remove the log that was replaced. Blocks; what cannot be removed goes later."""
        self._store.retire()

    @property
    def log_bytes(self) -> int:
        """Size of the log."""
        return self._store.position().offset

    @property
    def state(self) -> State:
        """All that is known, to read: only ``apply`` changes it."""
        return self._replica.state

    @property
    def _indexer(self) -> Indexer:
        return self._replica.indexer

    @property
    def live(self) -> int:
        """Messages that are there."""
        return len(self.state.messages) - self.state.messages.deleted

    def close(self) -> None:
        """Let go of the store."""
        self._audit.close()
        self._store.close()

    def _read(self, place: Place) -> Record:
        return codec.decode(*self._store.read(place.frame_offset, place.start))


def _what(query: ReadFact | SearchFacts, answer: JsonObject) -> JsonObject:
    """What a note says of a read."""
    match query, answer:
        case ReadFact(key=key), _:
            return {"action": "read", "key": key}
        case SearchFacts(query=text), {"facts": [{"key": winner, "score": score}, *_]}:
            found = {"winner": winner, "score": score}
        case _:
            text, found = query.query, {"winner": None, "score": None}
    return {"action": "search", "query": text, **found}


def environment_of_host() -> Environment:
    """What a store takes from this machine."""
    return Environment(now_ms=host.now_ms, random_bytes=host.random_bytes, host_id=host.host_id())
