"""The ranking against the formula, written down again without an index.

Everything is computed from the texts by the plain definitions of ``scoring``, ``lexicon`` and
``context``, one message at a time.
"""

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.search import Columns, Document, SearchIndex

# Words of one session after another: alike, repeated, in other order, Japanese among them.
SESSIONS = [
    [
        "We painted the kitchen green last summer",
        "Did you paint it yourself?",
        "Yes! My sister is a painter, she helped. Painting took three days",
        "台所を緑色に塗りました",
    ],
    [
        "The green kitchen of my sister is far too small for three",
        "She wants to sell the house. " * 20 + "The painter came by in summer.",
    ],
    ["夏に姉が台所の壁を塗った", "緑の壁はどうですか", "Nobody said a word about it"],
]
TEXTS = [text for session in SESSIONS for text in session]
SESSION_OF = [number for number, session in enumerate(SESSIONS) for _ in session]

QUERIES = [
    "painting",
    "Who painted the kitchen?",
    "green kitchen summer",
    "sister three days",
    "台所",
    "緑色の壁",
    "paint 台所",
    "when was it",
]

QUESTION_WORDS = re.findall(
    "[a-z]+",
    "a an and are as at be been by did do does for from had has have he her his how in is it its "
    "of on or she that the their they this to was were what when where which who whom whose why "
    "with",
)
JAPANESE = r"[\u3041-\u309f\u30a1-\u30ff\u4e00-\u9fff]"
KANJI_OR_KATAKANA = r"[\u30a1-\u30ff\u4e00-\u9fff]"


@dataclass(frozen=True)
class Segment:
    """A piece of a message, as the formula sees it."""

    message: int
    length: int
    words: frozenset[str]
    signs: frozenset[str]


class Naive:
    """The formula over the messages of some sessions."""

    def __init__(self, texts: Sequence[str], sessions: Sequence[int]) -> None:
        self.texts = texts
        self.sessions = sessions
        self.segments = [
            Segment(number, len(piece), frozenset(words(piece)), frozenset(signs(piece)))
            for number, text in enumerate(texts)
            for piece in pieces(text.casefold())
        ]
        self.lexicon = {word for segment in self.segments for word in segment.words}

    def ranking(self, query: str) -> list[tuple[int, float]]:
        """Messages with their scores, best first; the later of two that are level first."""
        own = self.own(query.casefold())
        scores = {message: self.score(own, message) for message in range(len(own))}
        holding = {
            message for message in scores if query.casefold() in self.texts[message].casefold()
        }
        shown = [message for message in scores if own[message] or message in holding]
        shown.sort(key=lambda each: (each in holding, scores[each], each), reverse=True)
        return [(message, scores[message]) for message in shown]

    def own(self, query: str) -> list[float]:
        scores = [0.0] * len(self.segments)
        asked = [word for word in dict.fromkeys(words(query)) if word not in QUESTION_WORDS]
        if not asked and not signs(query):
            asked = list(dict.fromkeys(words(query)))
        for word in asked:
            coverages = {v: self.coverage(word, v) for v in self.lexicon}
            alike = {v: c**4 for v, c in coverages.items() if c >= 0.4}
            likeness = [
                max((alike.get(word, 0.0) for word in segment.words), default=0.0)
                for segment in self.segments
            ]
            self.add(scores, likeness, weight=1, k1=0.8)
        for sign in dict.fromkeys(signs(query)):
            there = [float(sign in segment.signs) for segment in self.segments]
            self.add(scores, there, weight=1, k1=0.6)
        asked_runs = " ".join(dict.fromkeys(re.findall(JAPANESE + "+", query)))
        for run in re.findall(KANJI_OR_KATAKANA + "{2,}", asked_runs):
            pairs = {a + b for a, b in pairwise(run)}
            worth = {pair: self.rarity(self.df(pair)) ** 1.5 for pair in pairs}
            shares = [
                sum(worth[pair] for pair in pairs & segment.signs) / sum(worth.values())
                for segment in self.segments
            ]
            self.add(scores, [share**4 for share in shares], weight=0.5, k1=0.6)
        best = [0.0] * len(self.texts)
        for segment, score in zip(self.segments, scores, strict=True):
            best[segment.message] = max(best[segment.message], score)
        return best

    def add(self, scores: list[float], likeness: list[float], weight: float, k1: float) -> None:
        """BM25 with a likeness in the place of a frequency."""
        telling = self.rarity(sum(likeness))
        mean = sum(segment.length for segment in self.segments) / len(self.segments)
        for number, (segment, c) in enumerate(zip(self.segments, likeness, strict=True)):
            if c:
                held_back = k1 * (0.6 + 0.4 * segment.length / mean)
                scores[number] += weight * telling * c * (k1 + 1) / (c + held_back)

    def rarity(self, df: float) -> float:
        return math.log(1 + (len(self.segments) - df + 0.5) / (df + 0.5))

    def df(self, sign: str) -> int:
        return sum(sign in segment.signs for segment in self.segments)

    def coverage(self, word: str, other: str) -> float:
        """The share of the word's grams that the other has, rare ones worth more."""

        def worth(gram: str) -> float:
            df = sum(gram in grams(each) for each in self.lexicon)
            return float(
                math.log(1 + (max(1000, len(self.lexicon)) - df + 0.5) / (df + 0.5)) ** 1.5
            )

        shared = grams(word) & grams(other)
        return sum(map(worth, shared)) / sum(map(worth, grams(word)))

    def score(self, own: list[float], message: int) -> float:
        """What a message scores by itself and by what stands around it."""
        if not own[message]:
            return 0.0

        def score(other: int) -> float:
            inside = 0 <= other < len(own)
            return own[other] if inside and self.sessions[other] == self.sessions[message] else 0.0

        def above(distance: int) -> float:
            better = max(score(message - distance), score(message + distance))
            return max(0.0, better - 0.6 * own[message])

        near = 0.35 * above(1) + 0.15 * above(2)
        near *= min(1.0, 300 / len(self.texts[message].encode()))
        session = [
            o for o, s in zip(own, self.sessions, strict=True) if s == self.sessions[message]
        ]
        return own[message] + near + 0.3 * max(session)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text)


def signs(text: str) -> list[str]:
    """Characters and pairs of Japanese script."""
    runs = re.findall(JAPANESE + "+", text)
    return [each for run in runs for each in (*run, *(a + b for a, b in pairwise(run)))]


def grams(word: str) -> set[str]:
    edged = f" {word} "
    return {edged[start : start + n] for n in (2, 3) for start in range(len(edged) - n + 1)}


def pieces(text: str) -> list[str]:
    """A long text in pieces of whole sentences, of at most 300 characters."""
    if len(text) <= 390:
        return [text]
    cut: list[str] = [""]
    for sentence in re.findall(r".*?\.(?=\s|$)", text):
        if len(cut[-1]) + len(sentence) > 300:
            cut.append("")
        cut[-1] += sentence
    return cut


def ranked(
    texts: Sequence[str], sessions: Sequence[int], query: str, limit: int = 100
) -> list[tuple[int, float]]:
    """What the index makes of it."""
    count = len(texts)
    rows = np.arange(count)
    index = SearchIndex()
    index.add([Document(row, text) for row, text in enumerate(texts)])
    index.extend(np.array(sessions, np.uint32), np.ones(count, bool))
    columns = Columns(
        sessions=np.array(sessions, np.uint32),
        importance=np.zeros(count, np.uint8),
        timestamps=rows.astype(np.int64),
        content_bytes=np.array([len(text.encode()) for text in texts], np.uint32),
        ids=(rows.astype(np.uint64), rows.astype(np.uint64)),
    )
    found = index.find(
        query,
        columns=columns,
        allowed=np.ones(count, bool),
        limit=limit,
        read=lambda row: Document(row, texts[row]),
    )
    return [(hit.row, hit.score) for hit in found.hits]


@pytest.mark.parametrize("query", QUERIES)
def test_order_and_scores_are_those_of_the_formula(query: str) -> None:
    naive = Naive(TEXTS, SESSION_OF).ranking(query)
    found = ranked(TEXTS, SESSION_OF, query)
    assert [row for row, _ in found] == [row for row, _ in naive]
    assert [score for _, score in found] == pytest.approx([score for _, score in naive], rel=1e-3)


WORDS = (
    "paint",
    "painted",
    "painter",
    "green",
    "greener",
    "kitchen",
    "sold",
    "台所",
    "緑色",
    "の壁",
)
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


MESSAGES = st.lists(st.tuples(st.integers(0, 2), SENTENCES), min_size=1, max_size=12)


@given(MESSAGES, SENTENCES)
def test_scores_are_those_of_the_formula_for_any_messages(
    messages: list[tuple[int, str]], query: str
) -> None:
    messages.sort(key=lambda message: message[0])  # a session's messages stand together
    sessions, texts = [session for session, _ in messages], [text for _, text in messages]
    naive = Naive(texts, sessions).ranking(query)
    assert dict(ranked(texts, sessions, query)) == pytest.approx(dict(naive), rel=1e-3)


@given(MESSAGES, SENTENCES, st.integers(1, 5))
def test_a_few_results_are_the_first_of_all(
    messages: list[tuple[int, str]], query: str, limit: int
) -> None:
    sessions, texts = [session for session, _ in messages], [text for _, text in messages]
    everything = ranked(texts, sessions, query)
    assert ranked(texts, sessions, query, limit) == everything[:limit]


@pytest.mark.parametrize("query", ["paint", "green kitchen", "台所 sold painted"])
def test_a_few_results_are_the_first_of_thousands(query: str) -> None:
    drawn = random.Random(query)
    texts = [" ".join(drawn.choices(WORDS, k=drawn.randint(1, 6))) for _ in range(4000)]
    sessions = [number % 40 for number in range(len(texts))]
    everything = ranked(texts, sessions, query, len(texts))
    assert len(everything) > 2000
    for limit in (1, 5, 14):
        assert ranked(texts, sessions, query, limit) == everything[:limit]
