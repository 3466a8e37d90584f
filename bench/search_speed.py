"""How fast search is and what its index takes, beside other engines.

    python -m bench.search_speed [DATA] [--full]

DATA as for ``bench.search_quality``. The texts of LoCoMo (English) and JaQuAD (Japanese), a
sixth of their words or a half of their sentence exchanged with others, until there are 10,000
messages (with --full also 100,000, and 1,000,000 in English), 50 to a session. Queries go
through the engine as ``search_messages`` calls do, replies of 10 results included, each three
times, of which the best counts; and the whole questions over stdio as well.
"""

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.corpus import START_MS, fill
from bench.lean import LeanClient
from bench.measuring import p50_p95, timed_ms
from bench.search_corpora import data_folder, messages, read
from bench.search_engines import Search, peers
from bench.tables import Cell, show
from convmem.cli.launch import server_command
from convmem.engine import Engine
from convmem.limits import REPLY_BYTES_DEFAULT
from convmem.operations import SearchMessages
from convmem.search import Document, SearchIndex

Queries = dict[str, list[str]]

SESSION_MESSAGES = 50
CHUNK_TEXTS = 1 << 15  # in one go, as the thread that makes an index does
RESULTS = 10
QUERIES = 200
REPEATS = 3
PEER_S_MAX = 3.0  # for the queries of a kind; slow ones get fewer
# Those that find anything in the language.
PEERS = {
    "English": ("FTS5 porter, OR", "FTS5 trigram, OR of trigrams", "tantivy en_stem"),
    "Japanese": ("FTS5 trigram, OR of trigrams",),
}
# Beyond this a peer that takes a second a query is left out.
PEER_MESSAGES_MAX = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how fast search is.")
    data_folder(parser)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--probe", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        print(json.dumps(asyncio.run(probe(*options.probe))))
        return 0
    counts = [10_000, *([100_000] * options.full)]
    report("English", options.data, counts + [1_000_000] * options.full)
    report("Japanese", options.data, counts)
    return 0


def report(language: str, data: Path, counts: list[int]) -> None:
    """Measure and show all that is of one language."""
    latencies: dict[str, dict[str, list[float]]] = {}
    indexes: list[list[Cell]] = []
    for count in counts:
        print(f"{count:,} messages in {language}", flush=True)
        make = english if language == "English" else japanese
        texts, queries = make(data, count, random.Random(count))
        text_bytes = sum(len(text.encode()) for text in texts)
        indexes.append([f"convmem {count:,}", *measure_index(texts, text_bytes)])
        latencies[f"convmem {count:,}"], first_s = measure_ours(texts, queries)
        indexes[-1] += first_s
        for name in PEERS[language] if count <= PEER_MESSAGES_MAX else ():
            if name in peers():
                figures, latencies[f"{name} {count:,}"] = measure_peer(name, texts, queries)
                indexes.append([f"{name} {count:,}", *figures, None, None])
    kinds = dict.fromkeys(kind for took in latencies.values() for kind in took)
    show(
        f"search_speed.{language}",
        [f"{language}; ms p50 / p95", *latencies],
        [
            [kind, *(p50_p95(took[kind]) if kind in took else None for took in latencies.values())]
            for kind in kinds
        ],
    )
    columns = ["texts indexed in, s", "on disk, of the texts", "in memory, of the texts"]
    first = ["first search, index to be made, s", "first search, index saved, s"]
    show(f"search_speed.{language}.index", ["index", *columns, *first], indexes)


def measure_index(texts: list[str], text_bytes: int) -> list[float]:
    """Seconds to index the texts, and bytes of the index on disk and here for each of theirs."""
    index = SearchIndex()

    def make() -> None:
        for first in range(0, len(texts), CHUNK_TEXTS):
            here = texts[first : first + CHUNK_TEXTS]
            index.add([Document(first + row, text) for row, text in enumerate(here)])

    _, took_ms = timed_ms(make)
    saved = sum(column.nbytes for column in index.save()().values())
    return [took_ms / 1000, saved / text_bytes, index.memory_bytes() / text_bytes]


def measure_ours(
    texts: list[str], queries: Queries
) -> tuple[dict[str, list[float]], tuple[float, float]]:
    """Milliseconds of each query by kind, and seconds to the first answer of a new process:
    where the index is to be made, and where it was saved.
    """
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        store, asked = Path(folder, "store"), Path(folder, "queries.json")
        sessions = [f"session-{number // SESSION_MESSAGES}" for number in range(len(texts))]
        fill(store, messages(texts, sessions))
        asked.write_text(json.dumps(queries))
        first = run_probe(store, asked)
        again = run_probe(store, asked)
        took: dict[str, list[float]] = again["took_ms"]
        took["question, over stdio"] = over_stdio(store, queries["question"])
    return took, (first["first_s"], again["first_s"])


def over_stdio(store: Path, queries: list[str]) -> list[float]:
    """Milliseconds of each query to a server, the best of some times."""
    with LeanClient([*server_command(store), "--semantic", "off"]) as client:
        return best_of(
            [
                1000 * client.timed_s("search_messages", {"query": query, "limit": RESULTS})
                for _ in range(REPEATS)
                for query in queries
            ]
        )


def run_probe(store: Path, queries: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.search_speed", "--probe", str(store), str(queries)]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(shown.stdout)
    return figures


async def probe(store: Path, queries: Path) -> dict[str, Any]:
    """In a process of its own: open, search, and close, which saves the index."""
    asked: Queries = json.loads(queries.read_text())
    began_s = time.perf_counter()
    engine = Engine.open(store)

    async def search(query: str, **filters: Any) -> None:
        wanted = SearchMessages(
            query=query, limit=RESULTS, max_bytes=REPLY_BYTES_DEFAULT, **filters
        )
        await engine.query(wanted)

    await search(asked["question"][0])
    first_s = time.perf_counter() - began_s
    took = {kind: await latencies(search, texts) for kind, texts in asked.items()}
    half = START_MS + (await message_count(engine)) // 2
    took["question, newer half only"] = await latencies(search, asked["question"], since=half)
    await engine.close()
    return {"first_s": first_s, "took_ms": took}


async def message_count(engine: Engine) -> int:
    everything = SearchMessages(query="", limit=1, max_bytes=REPLY_BYTES_DEFAULT)
    total = (await engine.query(everything))["total"]
    assert isinstance(total, int)
    return total


async def latencies(search: Callable[..., Any], queries: list[str], **filters: Any) -> list[float]:
    """Milliseconds that each query takes, the best of some times."""
    took = []
    for _ in range(REPEATS):
        for query in queries:
            began_s = time.perf_counter()
            await search(query, **filters)
            took.append((time.perf_counter() - began_s) * 1000)
    return best_of(took)


def best_of(took: list[float]) -> list[float]:
    """Of each query the least, where all queries were asked REPEATS times in turn."""
    count = len(took) // REPEATS
    return [min(took[number::count]) for number in range(count)]


def measure_peer(
    name: str, texts: list[str], queries: Queries
) -> tuple[list[Cell], dict[str, list[float]]]:
    """The index and the latencies of a peer, of as many queries as some seconds allow."""
    print(f"  {name}", flush=True)
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        began_s = time.perf_counter()
        with peers()[name](Path(folder), texts) as search:
            made_s = time.perf_counter() - began_s
            disk = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
            text_bytes = sum(len(text.encode()) for text in texts)
            took = {kind: peer_latencies(search, asked) for kind, asked in queries.items()}
    return [made_s, disk / text_bytes, None], took


def peer_latencies(search: Search, queries: list[str]) -> list[float]:
    took: list[float] = []
    for query in queries:
        took.append(timed_ms(partial(search, query, RESULTS))[1])
        if sum(took) > PEER_S_MAX * 1000:
            break
    return took


def english(data: Path, count: int, chance: random.Random) -> tuple[list[str], Queries]:
    """Messages and queries from the chats."""
    corpora = read(data, "locomo")
    originals = [text for corpus in corpora for text in corpus.texts]
    questions = [each.text for corpus in corpora for each in corpus.questions]
    vocabulary = [word for text in originals for word in text.split()]
    texts = list(_exchanged(originals, vocabulary, count, chance))
    known = Counter(word for text in texts[:20_000] for word in re.findall(r"[a-z]{3,}", text))
    by_use = [word for word, _ in known.most_common()]
    asked = chance.sample(questions, QUERIES)
    phrases = [text.split()[2:5] for text in chance.sample(texts, QUERIES)]
    return texts, {
        "question": asked,
        "keyword": [max(re.findall(r"\w+", each), key=len) for each in asked],
        "rare word": by_use[-QUERIES:],
        "common word": by_use[:QUERIES],
        "phrase of three words": [" ".join(words) for words in phrases],
        "page of 2 KB": [
            " ".join(chance.sample(originals, 15))[:2048] for _ in range(QUERIES // 5)
        ],
    }


def _exchanged(
    originals: list[str], vocabulary: list[str], count: int, chance: random.Random
) -> Iterator[str]:
    """Texts with some words exchanged for others and some put in."""
    for _ in range(count):
        words = chance.choice(originals).split()
        for _ in range(max(1, len(words) // 6)):
            words[chance.randrange(len(words))] = chance.choice(vocabulary)
            words.insert(chance.randrange(len(words) + 1), chance.choice(vocabulary))
        yield " ".join(words)


def japanese(data: Path, count: int, chance: random.Random) -> tuple[list[str], Queries]:
    """Messages and queries from the sentences of articles."""
    (corpus,) = read(data, "jaquad_sent")
    texts = []
    for _ in range(count):
        one, other = chance.choice(corpus.texts), chance.choice(corpus.texts)
        texts.append(one[: len(one) // 2] + other[len(other) // 2 :])
    asked = chance.sample([each.text for each in corpus.questions], QUERIES)
    return texts, {
        "question": asked,
        "word of two signs": [text[3:5] for text in asked],
        "one sign": [text[3] for text in asked],
        "phrase of six signs": [text[9:15] for text in chance.sample(texts, QUERIES)],
    }


if __name__ == "__main__":
    sys.exit(main())
