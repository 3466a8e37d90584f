"""What search by meaning costs: a fact set and found, a message found.

    python -m bench.semantic [--messages N]

Through the engine, as a server does. 200 facts are set and searched with the model and without, in
turns; then N messages (100,000 unless given) of the seeded corpus are searched by words and
meaning. Their vectors are random: to embed so many takes some five minutes, and a search takes as
long whatever they say. Needs convmem[semantic].
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus import SEED, fill, messages, question
from bench.measuring import p50_p95
from bench.tables import show
from convmem.engine import Engine
from convmem.limits import REPLY_BYTES_DEFAULT
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
    asyncio.run(measure_facts())
    asyncio.run(measure_messages(count))
    return 0


async def measure_facts() -> None:
    with tempfile.TemporaryDirectory(prefix="convmem-semantic-") as folder:
        engines = {
            name: Engine.open(Path(folder, name), recall=Wanted(embedder))
            for name, embedder in (("with", UNIVERSAL), ("without", None))
        }
        took: defaultdict[str, list[float]] = defaultdict(list)
        for engine in engines.values():
            for number in range(FACTS):
                await engine.execute(SetFact(key=f"note/{number}", value=f"meeting {number}"))
            await embedded(engine)
        for number in range(ROUNDS):
            for name, engine in engines.items():
                wanted = SearchFacts(
                    query=f"where do we meet, {number}", top_k=5, max_bytes=1 << 16
                )
                took[f"search {name}"].append(1000 * await timed_s(engine.query, wanted))
        for number in range(ROUNDS):
            for name, engine in engines.items():
                command = SetFact(key=f"note/{number}", value=f"another room, {number}")
                took[f"set {name}"].append(1000 * await timed_s(engine.execute, command))
        show(
            "semantic.facts",
            [f"{FACTS} facts; ms p50 / p95", "with the model", "without"],
            [
                [what, *(p50_p95(took[f"{what} {name}"]) for name in engines)]
                for what in ("search", "set")
            ],
        )
        for engine in engines.values():
            await engine.close()


async def measure_messages(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="convmem-semantic-") as folder:
        store = Path(folder)
        fill(store, messages(count))
        model = load(UNIVERSAL)
        directions = np.random.default_rng(SEED)
        first = Engine.open(store, recall=Wanted(UNIVERSAL))
        await first.query(SearchMessages(query="anything", limit=1, max_bytes=1 << 16))
        await first.close()
        (file,) = (store / "vectors").iterdir()
        with file.open("wb") as out:
            out.write(encode_header(model.name, model.dimensions))
            for message in messages(count):
                vector = directions.normal(size=(1, model.dimensions)).astype(np.float32)
                vector /= np.linalg.norm(vector)
                out.write(encode_block(rows_of([message.message_id], [1], vector)))
        engine = Engine.open(store, recall=Wanted(UNIVERSAL))
        await embedded(engine)
        took: list[float] = []
        for _ in range(ROUNDS):
            wanted = SearchMessages(
                query=question(len(took)), limit=10, max_bytes=REPLY_BYTES_DEFAULT
            )
            took.append(await timed_s(engine.query, wanted))
        took_ms = [1000 * each for each in took]
        show("semantic.messages", ["messages; ms p50 / p95", "search"], [[count, p50_p95(took_ms)]])
        await engine.close()


async def embedded(engine: Engine) -> None:
    """Wait until everything is embedded, where it is at all."""
    wanted = SearchMessages(query="anything", limit=1, max_bytes=REPLY_BYTES_DEFAULT)
    while "embedded" in await engine.query(wanted):
        await asyncio.sleep(0.2)


async def timed_s(work: Callable[[Any], Awaitable[object]], given: Any) -> float:
    began_s = time.perf_counter()
    await work(given)
    return time.perf_counter() - began_s


if __name__ == "__main__":
    sys.exit(main())
