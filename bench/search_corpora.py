"""Corpora of messages with questions about them, for the search benchmarks.

A corpus file is gzip JSON lines, one corpus a line, searched as one:
``{"id", "docs": [{"sess", "spk", "text", "cap"?}], "queries": [{"q", "rel", "cat"}]}``, where
``rel`` names the docs that answer, from 0.
They are made from LoCoMo, BEAM, JaQuAD and JSQuAD; their licences keep them out of this
repository, so the folder is named by an argument or by ``CONVMEM_DATA``.
"""

import argparse
import gzip
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.corpus import START_MS
from convmem import ids
from convmem.message import Message

DATA_VARIABLE = "CONVMEM_DATA"

# Questions that the chat does not answer, meant to mislead: LoCoMo reports them apart.
_ADVERSARIAL = 5


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the messages that answer it."""

    text: str
    relevant: frozenset[int]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Messages in order, the session of each, and questions; searched apart from others."""

    texts: list[str]
    sessions: list[str]
    questions: list[Question]


def data_folder(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark take the folder of the corpora."""
    folder = os.environ.get(DATA_VARIABLE)
    parser.add_argument("data", type=Path, nargs="?", default=folder and Path(folder))


def read(folder: Path | None, name: str) -> list[Corpus]:
    """The corpora of one file."""
    if folder is None:
        sys.exit(f"name the folder of the corpora, or set {DATA_VARIABLE}")
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [_corpus(json.loads(line)) for line in lines]


def messages(texts: list[str], sessions: list[str]) -> Iterator[Message]:
    """Messages of these texts, a millisecond apart; ``number_of`` gives back the place."""
    for number, (text, session_id) in enumerate(zip(texts, sessions, strict=True)):
        yield Message(
            message_id=ids.successor(ids.NO_ID, START_MS + number, bytes(ids.RANDOM_BYTES)),
            session_id=session_id,
            timestamp=START_MS + number,
            updated_at=START_MS + number,
            revision=1,
            role="user",
            content=text,
            written_by="bench",
        )


def number_of(item: dict[str, Any]) -> int:
    """The place in its corpus of a message that was found."""
    return int(item["timestamp"]) - START_MS


def _corpus(line: dict[str, Any]) -> Corpus:
    docs = line["docs"]
    return Corpus(
        texts=[_text(doc) for doc in docs],
        sessions=[f"session-{doc['sess']}" for doc in docs],
        questions=[
            Question(query["q"], frozenset(query["rel"]))
            for query in line["queries"]
            if query["rel"] and query["cat"] != _ADVERSARIAL
        ],
    )


def _text(doc: dict[str, Any]) -> str:
    caption = f" [{doc['cap']}]" if doc.get("cap") else ""
    return f"{doc['spk']}: {doc['text']}{caption}"
