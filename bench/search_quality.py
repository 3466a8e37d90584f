"""How well search finds what answers a question, beside other engines.

    python -m bench.search_quality [DATA] [--sets NAME...] [--ours]

DATA holds the corpora (see ``bench.search_corpora``); ``CONVMEM_DATA`` names it as well. Every
question goes through the engine as a ``search_messages`` call does: by words, and where
convmem[semantic] is installed by words and meaning, and by meaning alone. Beside it SQLite
FTS5 and, where installed, tantivy and bm25s on the same texts. Figures are means over the
questions, in percent: the share of a question's evidence in the first k results (R@k), nDCG of
the first 10 with binary relevance, and the reciprocal rank of the first evidence.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from math import log2
from pathlib import Path

from bench.search_corpora import Corpus, data_folder, read
from bench.search_engines import OURS, Search, convmem, peers
from bench.tables import Cell, show

SETS = {
    "locomo": "LoCoMo",
    "beam100k": "BEAM",
    "jaquad_sent": "JaQuAD, sentences",
    "jsquad": "JSQuAD, paragraphs",
}
RESULTS = 20
NDCG_RESULTS = 10
RECALL_RESULTS = (1, 5, 10, 20)
METRICS = (*(f"R@{k}" for k in RECALL_RESULTS), f"nDCG@{NDCG_RESULTS}", "MRR")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how well search finds what was said.")
    data_folder(parser)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--ours", action="store_true", help="convmem only")
    options = parser.parse_args()
    names = [*OURS, *([] if options.ours else peers())]
    for file in options.sets:
        corpora = read(options.data, file)
        questions = sum(len(corpus.questions) for corpus in corpora)
        rows: list[list[Cell]] = []
        for name in names:
            print(f"{SETS[file]}: {name}", flush=True)
            rows.append([name, *(100 * value for value in measure(name, corpora))])
        show(f"search_quality.{file}", [f"{SETS[file]}, {questions:,} questions", *METRICS], rows)
    return 0


def measure(name: str, corpora: Sequence[Corpus]) -> list[float]:
    """The metrics of an engine, means over the questions of all corpora."""
    figures = [each for corpus in corpora for each in measure_each(name, corpus)]
    return [statistics.fmean(column) for column in zip(*figures, strict=True)]


def measure_each(name: str, corpus: Corpus) -> Iterator[tuple[float, ...]]:
    """The metrics of each question."""
    with (
        tempfile.TemporaryDirectory(prefix="convmem-bench-") as folder,
        indexed(name, Path(folder), corpus) as search,
    ):
        for question in corpus.questions:
            yield metrics(search(question.text, RESULTS), question.relevant)


def indexed(name: str, folder: Path, corpus: Corpus) -> AbstractContextManager[Search]:
    """An engine over a corpus."""
    if name in OURS:
        return convmem(folder, corpus.texts, corpus.sessions, OURS[name])
    return peers()[name](folder, corpus.texts)


def metrics(found: Sequence[int], relevant: frozenset[int]) -> tuple[float, ...]:
    """The metrics of one answer, in the order of ``METRICS``."""
    hits = [number in relevant for number in found]
    recall = [sum(hits[:k]) / len(relevant) for k in RECALL_RESULTS]
    gains = [1 / log2(rank + 2) for rank in range(NDCG_RESULTS)]
    gained = sum(gain for gain, hit in zip(gains, hits, strict=False) if hit)
    ndcg = gained / sum(gains[: len(relevant)])
    reciprocal = 1 / (hits.index(True) + 1) if any(hits) else 0.0
    return (*recall, ndcg, reciprocal)


if __name__ == "__main__":
    sys.exit(main())
