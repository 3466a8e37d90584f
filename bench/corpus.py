"""The seeded corpus: as many messages as wanted, the same ones everywhere, and stores of them.

Message N is a function of N alone. Even ones are of an alphabet, odd ones Japanese; their words
are drawn from made-up vocabularies by Zipf's law, the n-th word as often as 1/n, as in languages.
Every message is of 300 bytes and belongs to one of 150 sessions, which take turns.
"""

import functools
import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from convmem import codec, ids
from convmem.ledger import Ledger
from convmem.message import Message
from convmem.records import PutMessage
from convmem.storage import Record

SEED = 20
SESSIONS = 150
START_MS = 1_700_000_000_000
MESSAGE_BYTES = 300
BATCH = 16  # what comes in together in life; a large frame is verified whole at every read
BATCH_BYTES_MAX = 1 << 19

WORDS = 20_000
_ONSETS = "b bl c ch d dr f g gr h j k l m n p pr qu r s sh sl st t th tr v w y".split()  # noqa: SIM905
_VOWELS = "a e i o u a e i o ai ea ee ou oo".split()  # noqa: SIM905
_ENDS = ["", "", "", *"l m n nd ng nt r s st t ck".split()]  # noqa: SIM905
_PARTICLES = "はをにがのでと"
_FIRST_KANJI, _KANJI = 0x4E00, 1500
_FIRST_KATAKANA, _KATAKANA = 0x30A2, 70


def messages(count: int, first: int = 0, size: int = MESSAGE_BYTES) -> Iterator[Message]:
    """So many messages from the first one on, of so many bytes each."""
    for number in range(first, first + count):
        yield Message(
            message_id=ids.successor(ids.NO_ID, START_MS + number, number.to_bytes(10, "big")),
            session_id=f"session-{number % SESSIONS}",
            timestamp=START_MS + number,
            updated_at=START_MS + number,
            revision=1,
            role="user" if number % 3 else "assistant",
            content=content(number, size),
            written_by="bench",
        )


def content(number: int, size: int = MESSAGE_BYTES) -> str:
    """The text of a message, which begins with its number."""
    choices = random.Random(SEED + number)
    words = sentence(choices, MESSAGE_BYTES // 5) if number % 2 == 0 else [japanese(choices)]
    text = " ".join([str(number), *words]).encode()
    text *= size // len(text) + 1
    return text[:size].decode(errors="ignore")


def sentence(choices: random.Random, length: int) -> list[str]:
    """So many words of an alphabet."""
    return choices.choices(_words(), cum_weights=_shares(), k=length)


def japanese(choices: random.Random) -> str:
    """A text without spaces, of more signs than a message takes."""
    words = choices.choices(_japanese_words(), cum_weights=_shares(), k=MESSAGE_BYTES // 6)
    return "".join(word + choices.choice(_PARTICLES) for word in words)


def question(number: int) -> str:
    """What somebody may ask: eight words, drawn as those of messages are."""
    return " ".join(sentence(random.Random(-SEED - number), 8))


def fill(store: Path, new: Iterator[Message]) -> None:
    """Append messages to a store in batches, past the tools."""
    ledger = Ledger.open(store)
    batch: list[Record] = []
    size = 0
    for message in new:
        record = Record(*codec.encode(PutMessage(message)))
        if batch and (len(batch) == BATCH or size + len(record.payload) > BATCH_BYTES_MAX):
            ledger.append(batch)
            batch, size = [], 0
        batch.append(record)
        size += len(record.payload)
    ledger.append(batch)
    ledger.close()


def save_snapshot(store: Path) -> None:
    """Write a snapshot of all that a store holds."""
    ledger = Ledger.open(store)
    ledger.snapshot()()
    ledger.close()


@functools.cache
def _shares() -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, WORDS + 1)))


@functools.cache
def _words() -> list[str]:
    """The vocabulary, from the most common word; common ones are short."""
    choices = random.Random(SEED)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        syllables = 1 + (len(words) > 300) + (len(words) > 3000) * choices.randrange(2)
        word = "".join(
            choices.choice(_ONSETS) + choices.choice(_VOWELS) + choices.choice(_ENDS)
            for _ in range(syllables)
        )
        words[word] = None
    return list(words)


@functools.cache
def _japanese_words() -> list[str]:
    """Words of one to three kanji, and some of katakana."""
    choices = random.Random(SEED)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        first, count, length = (
            (_FIRST_KATAKANA, _KATAKANA, choices.randint(2, 5))
            if choices.random() < 0.2
            else (_FIRST_KANJI, _KANJI, 1 + (len(words) > 300) + choices.randrange(2))
        )
        words["".join(chr(first + choices.randrange(count)) for _ in range(length))] = None
    return list(words)
