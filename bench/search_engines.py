"""Search engines behind one door, for the search benchmarks: convmem and its peers.

Each is a context manager that indexes texts in an empty folder and gives a search: a query and
a limit to the numbers of the best texts. Peers are set up as their users do for such texts;
tantivy and bm25s are left out where they cannot be imported.
"""

import asyncio
import importlib
import importlib.util
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from bench.corpus import fill
from bench.search_corpora import messages, number_of
from convmem.engine import Engine
from convmem.limits import REPLY_BYTES_MAX
from convmem.operations import SearchMessages, SearchMode
from convmem.recall import Wanted
from convmem.semantic import UNIVERSAL, is_installed

Search = Callable[[str, int], list[int]]
Peer = Callable[[Path, list[str]], AbstractContextManager[Search]]

_WORD = re.compile(r"\w+")


@contextmanager
def convmem(
    folder: Path, texts: list[str], sessions: list[str], mode: SearchMode = "lexical"
) -> Iterator[Search]:
    """This program: its engine over a store of the messages, embedded where the mode needs it."""
    fill(folder, messages(texts, sessions))
    with asyncio.Runner() as runner:
        engine = runner.run(_opened(folder, Wanted(None if mode == "lexical" else UNIVERSAL)))
        if mode != "lexical":
            runner.run(_embedded(engine))

        def search(query: str, limit: int) -> list[int]:
            wanted = SearchMessages(query=query, limit=limit, max_bytes=REPLY_BYTES_MAX, mode=mode)
            results: Any = runner.run(engine.query(wanted))["results"]
            return [number_of(item) for item in results]

        yield search
        runner.run(engine.close())


async def _opened(folder: Path, recall: Wanted) -> Engine:
    return Engine.open(folder, recall=recall)


async def _embedded(engine: Engine) -> None:
    """Wait until everything is embedded."""
    wanted = SearchMessages(query="anything", limit=1, max_bytes=REPLY_BYTES_MAX, mode="semantic")
    while "embedded" in await engine.query(wanted):
        await asyncio.sleep(1)


@contextmanager
def _fts5(
    folder: Path, texts: list[str], tokenize: str, parts: Callable[[str], list[str]]
) -> Iterator[Search]:
    database = sqlite3.connect(folder / "fts5.db")
    database.execute(
        f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='{tokenize}')"
    )
    with database:
        rows = enumerate(texts)
        database.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", rows)

    def search(query: str, limit: int) -> list[int]:
        wanted = " OR ".join(f'"{part}"' for part in dict.fromkeys(parts(query)))
        if not wanted:
            return []
        best = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank, rowid LIMIT ?"
        return [row for (row,) in database.execute(best, (wanted, limit))]

    yield search
    database.close()


OURS: dict[str, SearchMode] = {
    "convmem": "lexical",
    **(
        {"convmem hybrid": "auto", "convmem semantic": "semantic"}
        if is_installed(UNIVERSAL)
        else {}
    ),
}
"""This program's ways to search, by the names they go by."""


def fts5_porter(folder: Path, texts: list[str]) -> AbstractContextManager[Search]:
    """SQLite FTS5 with its stemmer, any of the words."""
    return _fts5(folder, texts, "porter unicode61", _WORD.findall)


def fts5_trigram(folder: Path, texts: list[str]) -> AbstractContextManager[Search]:
    """SQLite FTS5 with trigrams, any of them."""

    def trigrams(query: str) -> list[str]:
        folded = query.lower().replace('"', " ")
        return [folded[start : start + 3] for start in range(len(folded) - 2)]

    return _fts5(folder, texts, "trigram", trigrams)


@contextmanager
def _tantivy(folder: Path, texts: list[str]) -> Iterator[Search]:
    """tantivy with its English stemmer, any of the words."""
    tantivy: Any = importlib.import_module("tantivy")
    schema = (
        tantivy.SchemaBuilder()
        .add_text_field("text", tokenizer_name="en_stem")
        .add_unsigned_field("number", stored=True)
        .build()
    )
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(num_threads=1)
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=text, number=number))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query: str, limit: int) -> list[int]:
        parsed, _ = index.parse_query_lenient(" ".join(_WORD.findall(query)).lower(), ["text"])
        hits = searcher.search(parsed, limit).hits
        return [searcher.doc(address)["number"][0] for _, address in hits]

    yield search


@contextmanager
def _bm25s(_: Path, texts: list[str]) -> Iterator[Search]:
    """bm25s with the Snowball stemmer and its list of English stop words; in memory."""
    bm25s: Any = importlib.import_module("bm25s")
    stemmer = importlib.import_module("Stemmer").Stemmer("english")

    def tokens(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25()
    index.index(tokens(texts), show_progress=False)

    def search(query: str, limit: int) -> list[int]:
        found, _ = index.retrieve(tokens([query]), k=min(limit, len(texts)), show_progress=False)
        return [int(number) for number in found[0]]

    yield search


def peers() -> dict[str, Peer]:
    """The peers that are here, by name."""
    found: dict[str, Peer] = {
        "FTS5 porter, OR": fts5_porter,
        "FTS5 trigram, OR of trigrams": fts5_trigram,
    }
    if _is_here("tantivy"):
        found["tantivy en_stem"] = _tantivy
    if _is_here("bm25s", "Stemmer"):
        found["bm25s, stemmed"] = _bm25s
    return found


def _is_here(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)
