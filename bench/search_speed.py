"""How fast search is and what its index takes, beside other engines.

    python -m bench.search_speed [DATA] [--full]

DATA as for ``bench.search_quality``. The texts of LoCoMo (English) and JaQuAD (Japanese), a
sixth of their words or a half of their sentence exchanged with others, until there are 10,000
and 100,000 messages (with --full also 1,000,000 in English), 50 to a session. Queries go
through the engine as ``search_messages`` calls do, replies of 10 results included, each three
times, of which the best counts. The first searches are those of a new process.
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
from pathlib import Path
from typing import Any

from bench.messages import START_MS, fill, resident_bytes
from bench.search_corpora import data_folder, messages, read
from bench.search_engines import peers
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
PEER_S_MAX = 10.0
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
    counts = [10_000, 100_000]
    for count in counts + [1_000_000] * options.full:
        report("English", options.data, count)
    for count in counts:
        report("Japanese", options.data, count)
    return 0


def report(language: str, data: Path, count: int) -> None:
    """Print all figures for so many messages."""
    chance = random.Random(count)
    if language == "English":
        texts, queries = english(data, count, chance)
    else:
        texts, queries = japanese(data, count, chance)
    text_bytes = sum(len(text.encode()) for text in texts)
    print(f"\n{count} messages in {language}, {text_bytes / count:.0f} bytes each")
    for name, value in index_figures(texts, text_bytes).items():
        print(f"  {name:<44}{value:>9.2f}")
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        store, asked = Path(folder, "store"), Path(folder, "queries.json")
        sessions = [f"session-{number // SESSION_MESSAGES}" for number in range(count)]
        fill(store, messages(texts, sessions))
        asked.write_text(json.dumps(queries))
        first = run_probe(store, asked)
        again = run_probe(store, asked)
    print(f"  {'open and first search, index to be made':<44}{first['first_s']:>9.2f} s")
    print(f"  {'open and first search, index saved':<44}{again['first_s']:>9.2f} s")
    print(f"  {'resident then, above the process':<44}{again['resident_mb']:>9.0f} MB")
    for kind, took in again["took_ms"].items():
        show("convmem", kind, took)
    if count <= PEER_MESSAGES_MAX:
        for name in PEERS[language]:
            if name in peers():
                measure_peer(name, texts, queries)


def index_figures(texts: list[str], text_bytes: int) -> dict[str, float]:
    """Seconds to index the texts, and bytes of the index for each byte of text."""
    index = SearchIndex()
    began = time.perf_counter()
    for first in range(0, len(texts), CHUNK_TEXTS):
        here = texts[first : first + CHUNK_TEXTS]
        index.add([Document(first + row, text) for row, text in enumerate(here)])
    took = time.perf_counter() - began
    saved = sum(column.nbytes for column in index.save()().values())
    return {
        "index, s": took,
        "index in memory, x text": index.memory_bytes() / text_bytes,
        "index on disk, x text": saved / text_bytes,
        "index on disk, bytes a message": saved / len(texts),
    }


def run_probe(store: Path, queries: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.search_speed", "--probe", str(store), str(queries)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(shown.stdout)
    return figures


async def probe(store: Path, queries: Path) -> dict[str, Any]:
    """In a process of its own: open, search, and close, which saves the index."""
    asked: dict[str, list[str]] = json.loads(queries.read_text())
    base = resident_bytes()
    began = time.perf_counter()
    engine = Engine.open(store)

    async def search(query: str, **filters: Any) -> None:
        wanted = SearchMessages(
            query=query, limit=RESULTS, max_bytes=REPLY_BYTES_DEFAULT, **filters
        )
        await engine.query(wanted)

    await search(asked["question"][0])
    first_s = time.perf_counter() - began
    took = {kind: await latencies(search, texts) for kind, texts in asked.items()}
    half = START_MS + (await message_count(engine)) // 2
    took["question, filtered"] = await latencies(search, asked["question"], since=half)
    resident = resident_bytes() - base
    await engine.close()
    return {"first_s": first_s, "resident_mb": resident / 1e6, "took_ms": took}


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
            began = time.perf_counter()
            await search(query, **filters)
            took.append((time.perf_counter() - began) * 1000)
    return [min(took[number :: len(queries)]) for number in range(len(queries))]


def measure_peer(name: str, texts: list[str], queries: dict[str, list[str]]) -> None:
    """Print the latencies of a peer, of as many queries as some seconds allow."""
    with tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder:
        began = time.perf_counter()
        with peers()[name](Path(folder), texts) as search:
            made_s = time.perf_counter() - began
            disk = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
            text_bytes = sum(len(text.encode()) for text in texts)
            print(f"  {name + ': index, s':<44}{made_s:>9.2f}")
            print(f"  {name + ': on disk, x text':<44}{disk / text_bytes:>9.2f}")
            for kind, asked in queries.items():
                took: list[float] = []
                for query in asked:
                    began = time.perf_counter()
                    search(query, RESULTS)
                    took.append((time.perf_counter() - began) * 1000)
                    if sum(took) > PEER_S_MAX * 1000:
                        break
                show(name, kind, took)


def show(name: str, kind: str, took: list[float]) -> None:
    ordered = sorted(took)
    half, most = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]
    print(f"  {name + ': ' + kind:<44}{half:>9.2f} ms p50 {most:>9.2f} ms p95", flush=True)


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
