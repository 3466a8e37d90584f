"""What is held against a store that many share: only what was asked, answered and is there.

Clients write messages, change a message and a fact that all share, and delete. Every content is
unlike all others, so that it names what was asked. An answer is its JSON, the code of a
refusal, or None where there was none; after None or BUSY a thing may have come to be or not.
"""

from dataclasses import dataclass, field
from typing import Any

Answer = dict[str, Any] | str | None

SHARED = "shared"


@dataclass
class Register:
    """One thing that all clients change, each by the revision it has read."""

    revisions: dict[int, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    seen: set[tuple[int, str]] = field(default_factory=set)

    def saw(self, revision: int, content: str) -> int:
        """What a client read; the revision."""
        self.seen.add((revision, content))
        return revision

    def changed(self, name: str, read_revision: int, answer: Answer) -> None:
        """It was to get a content, if it was as read."""
        if isinstance(answer, dict):
            assert answer["revision"] == read_revision + 1, answer
            assert read_revision + 1 not in self.revisions, "two changes of one revision"
            self.revisions[read_revision + 1] = name
        elif answer == "CONFLICT":
            self.refused.add(name)
        else:
            assert answer in (None, "BUSY"), answer
            self.unknown.add(name)

    def judge(self, revision: int) -> None:
        """Hold its last revision, and all that was ever read of it, to what was answered."""
        assert max(self.revisions, default=1) <= revision, "an acknowledged change is lost"
        unexplained = revision - 1 - len(self.revisions) - len(self.unknown)
        assert unexplained <= 0, "a change was made that nobody was told of"
        assert len(dict(self.seen)) == len(self.seen), "a revision has two contents"
        for at, content in self.seen:
            assert content not in self.refused, "a refused change was seen"
            assert self.revisions.get(at, content) == content, "a revision has two contents"


@dataclass
class History:
    """What was asked and answered, held to be consistent as it comes in."""

    asked: set[str] = field(default_factory=set)
    acknowledged: dict[str, str] = field(default_factory=dict)
    orders: dict[str, list[str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    maybe_deleted: set[str] = field(default_factory=set)
    message: Register = field(default_factory=Register)
    fact: Register = field(default_factory=Register)

    @property
    def shared_id(self) -> str:
        return self.acknowledged[SHARED]

    def wrote(self, client: str, name: str, answer: Answer) -> None:
        self.asked.add(name)
        if isinstance(answer, dict):
            assert answer["created"] is True, answer
            self.acknowledged[name] = answer["message_id"]
            self.orders.setdefault(client, []).append(name)
        else:
            assert answer in (None, "BUSY"), answer

    def saw(self, messages: list[dict[str, Any]]) -> int:
        """The revision of the shared message in what a client read."""
        (shared,) = (each for each in messages if each["message_id"] == self.shared_id)
        return self.message.saw(shared["revision"], shared["content"])

    def to_delete(self) -> list[str]:
        """Messages that are there for certain."""
        return sorted(self.acknowledged.keys() - self.maybe_deleted - {SHARED})

    def was_deleted(self, name: str, answer: Answer) -> None:
        if isinstance(answer, dict):
            self.deleted.add(name)
        else:
            assert answer in (None, "BUSY"), answer

    def judge(self, there: list[dict[str, Any]]) -> None:
        """Hold what is there in the end to all of it."""
        revision = self.saw(there)
        contents = {each["message_id"]: each["content"] for each in there}
        assert len(contents) == len(there), "an id is there twice"
        del contents[self.shared_id]
        places = {content: place for place, content in enumerate(contents.values())}
        assert len(places) == len(contents), "a message is there twice"
        assert places.keys() <= self.asked
        for name, message_id in self.acknowledged.items():
            if name in self.deleted:
                assert message_id not in contents, "a deleted message is there"
            elif name not in self.maybe_deleted | {SHARED}:
                assert contents.get(message_id) == name, "an acknowledged message is lost"
        for names in self.orders.values():
            order = [places[name] for name in names if name in places]
            assert order == sorted(order), "a client's messages are in another order"
        self.message.judge(revision)
