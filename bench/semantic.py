"""What search by meaning costs: a fact set and found, a message found, memory.

    python -m bench.semantic [--messages N]

Through the engine, as a server does. 200 facts are set and searched with the model and without, in
turns; then N messages (100,000 unless given) of the seeded corpus are searched by words and
meaning. Their vectors are random: to embed so many takes some five minutes, and a search takes as
long whatever they say. Needs convmem[semantic].
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.messages import fill, resident_bytes
from bench.wire import SEED, corpus, sentence
from convmem.engine import Engine
from convmem.limits import REPLY_BYTES_MAX
from convmem.operations import SearchFacts, SearchMessages, SetFact
from convmem.recall import Wanted
from convmem.semantic import UNIVERSAL, is_installed, load
from convmem.semantic.vectors import encode_block, encode_header, rows_of

FACTS = 200
ROUNDS = 100


def main() -> int:
    parser = argparse.ArgumentParser(description="Time search by meaning.")
    parser.add_argument("--messages", type=int, default=100_000)
    count = parser.parse_args().messages
    if not is_installed(UNIVERSAL):
        print("convmem[semantic] is not installed, not measured")
        return 0
    asyncio.run(show_facts())
    asyncio.run(show_messages(count))
    return 0


async def show_facts() -> None:
    with tempfile.TemporaryDirectory(prefix="convmem-semantic-") as folder:
        engines = {
            name: Engine.open(Path(folder, name), recall=Wanted(embedder))
            for name, embedder in (("with", UNIVERSAL), ("without", None))
        }
        took: dict[str, list[float]] = {}
        for engine in engines.values():
            for number in range(FACTS):
                await engine.execute(SetFact(key=f"note/{number}", value=f"meeting {number}"))
            await embedded(engine)
        for number in range(ROUNDS):
            for name, engine in engines.items():
                wanted = SearchFacts(
                    query=f"where do we meet, {number}", top_k=5, max_bytes=1 << 16
                )
                took.setdefault(f"search {name}", []).append(await timed(engine.query, wanted))
        for number in range(ROUNDS):
            for name, engine in engines.items():
                command = SetFact(key=f"note/{number}", value=f"another room, {number}")
                took.setdefault(f"set {name}", []).append(await timed(engine.execute, command))
        for name, each in took.items():
            print(f"{FACTS} facts, {name:<16} {1000 * statistics.median(each):8.2f} ms")
        for engine in engines.values():
            await engine.close()


async def show_messages(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="convmem-semantic-") as folder:
        store = Path(folder)
        fill(store, corpus(count))
        model = load(UNIVERSAL)
        directions = np.random.default_rng(SEED)
        before = resident_bytes()
        first = Engine.open(store, recall=Wanted(UNIVERSAL))
        await first.query(SearchMessages(query="anything", limit=1, max_bytes=1 << 16))
        await first.close()
        (file,) = (store / "vectors").iterdir()
        with file.open("wb") as out:
            out.write(encode_header(model.name, model.dimensions))
            for message in corpus(count):
                vector = directions.normal(size=(1, model.dimensions)).astype(np.float32)
                vector /= np.linalg.norm(vector)
                out.write(encode_block(rows_of([message.message_id], [1], vector)))
        engine = Engine.open(store, recall=Wanted(UNIVERSAL))
        await embedded(engine)
        took: list[float] = []
        for _ in range(ROUNDS):
            query = " ".join(sentence(random.Random(len(took)), 8))
            wanted = SearchMessages(query=query, limit=10, max_bytes=REPLY_BYTES_MAX)
            took.append(await timed(engine.query, wanted))
        mib = (resident_bytes() - before) / (1 << 20)
        print(f"{count:,} messages, search   {1000 * statistics.median(took):8.2f} ms")
        print(f"resident beyond the start    {mib:8.0f} MB, index and model included")
        await engine.close()


async def embedded(engine: Engine) -> None:
    """Wait until everything is embedded, where it is at all."""
    wanted = SearchMessages(query="anything", limit=1, max_bytes=REPLY_BYTES_MAX)
    while "embedded" in await engine.query(wanted):
        await asyncio.sleep(0.2)


async def timed(work: Callable[[Any], Awaitable[object]], given: Any) -> float:
    began_s = time.perf_counter()
    await work(given)
    return time.perf_counter() - began_s


if __name__ == "__main__":
    sys.exit(main())
