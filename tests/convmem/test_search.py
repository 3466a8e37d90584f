"""Searches through the tools: what is found, in which order, and what a reply tells of it."""
# ruff: noqa: RUF001 -- letters that look like others are what some of this is about

import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from convmem import limits
from convmem.storage import Operation
from tests.convmem.harness import START_MS, Host, Refused
from tests.convmem.strategies import any_text


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as connected:
        yield connected


def search(host: Host, query: str, **arguments: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = host.call("search_messages", query=query, **arguments)[
        "results"
    ]
    return results


def found(host: Host, query: str, **arguments: Any) -> list[str]:
    return [result["content"] for result in search(host, query, **arguments)]


# Said by others, so that a query has something to choose from.
NOISE = [
    "Nothing of the sort was said, and nobody asked",
    "C is a language, and so is D; POL-359 and POL-35 are open, 10% of them",
    "カーテンを青色にしました。冷蔵庫も新しい",
    "The party was on Sunday 🎈; snakes, cases and names were drawn",
    "Éclair, über, ohne Strasse; οδηγός; 한글",
    "A great deal of a long story. " * 40,
]

PROVERB = "In for an inch, in for an ell; embrued hands"

# A text, and a query that it holds as a whole once both are normalised.
WHOLE = {
    "phrase": ("We painted the kitchen green", "the kitchen green"),
    "case": ("We painted the Kitchen Green", "KITCHEN green"),
    "part of a word": ("We repainted it", "paint"),
    "across a word's edge": ("hello world", "lo wo"),
    "white space": ("one\n\n  two\tthree", "one two\u3000three"),
    "C++": ("We use C++ and Rust", "c++"),
    "identifier": ("see POL-358 first", "POL-358"),
    "part of an identifier": ("see POL-358 first", "pol-358 f"),
    "apostrophe": ("I don't know", "don't"),
    "operators": ("a AND b OR NOT c", "b or not"),
    "per cent": ("100% sure", "%"),
    "underscore": ("snake_case_name", "_case_"),
    "quotes": ('he said "hi"', '"hi"'),
    "asterisk": ("2 * 3", "*"),
    "backslash": (r"C:\temp\new", r"\temp\n"),
    "brackets": ("f(x)[0] {y}", ")[0] {"),
    "dots": ("wait... what", "..."),
    "NUL": ("left\0right", "t\0r"),
    "emoji": ("a party 🎉 tonight", "🎉"),
    "joined emoji": ("the family 👩‍👩‍👧 came", "👩‍👩‍👧"),
    "question words alone": ("what is it", "what is it"),
    "one kanji": ("台所を緑色に塗りました", "緑"),
    "one kana": ("台所へ行く", "へ"),
    "two kanji": ("台所を緑色に塗りました", "緑色"),
    "within katakana": ("レイゾウコがある", "イゾウ"),
    "Han and Latin": ("私はPythonを使う", "pythonを"),
    "Chinese": ("我们把厨房漆成了绿色", "厨房漆成"),
    "Hangul": ("주방을 초록색으로 칠했다", "초록"),
    "Thai": ("เราทาสีห้องครัวเป็นสีเขียว", "ห้องครัว"),
    "Cyrillic": ("Мы покрасили кухню", "КУХН"),
    "Arabic": ("طلينا المطبخ باللون الأخضر", "المطبخ"),
    "decomposed text": (unicodedata.normalize("NFD", "Café Zürich"), "café zürich"),
    "decomposed query": ("Café が", unicodedata.normalize("NFD", "é が")),
    "full width": ("ＡＢＣ１２３", "abc123"),
    "half width": ("ｶﾞﾗｽ", "ガラス"),
    "ligature": ("the oﬃce", "office"),
    "sharp s": ("Hauptstraße", "HAUPTSTRASSE"),
    "final sigma": ("ΟΔΟΣ", "οδος"),
    "inner sigma": ("οδος και", "ΟΔΟΣ"),
    "dotted capital": ("İzmir", "i\u0307zmir"),
    "very long word": ("x" + "ab" * 500, "ba" * 100),
    "far into a long message": ("Padding of all sorts. " * 400 + "needle.", "sorts. needle."),
}

# A text, and a query that it answers without holding it.
PARTIAL = {
    "other order": ("We painted the kitchen green", "green kitchen"),
    "a question": ("We painted the kitchen green", "What colour did you paint the kitchen?"),
    "another form": ("painting takes time", "painted"),
    "a word too many": ("台所を緑色に塗りました", "台所を何色に塗りましたか"),
    "punctuation between": ("Kitchen: green!", "kitchen green"),
    "quotes around": ("We repainted it", '"repainted"'),
    "quotes around a part": ("We repainted it", '"epaint"'),
    "a question mark after a part": ("see POL-358 first", "ol-358?"),
    "another apostrophe": ("I don’t know him", "don't know"),
    "symbols apart": ("# and @", "@ #"),
}


TEXTS = list(dict.fromkeys([PROVERB, *NOISE, *(text for text, _ in (WHOLE | PARTIAL).values())]))


@pytest.fixture(scope="module")
def filled() -> Iterator[Host]:
    with Host() as host:
        for text in TEXTS:
            host.write(text)
        yield host


class TestFinding:
    @pytest.mark.parametrize("case", WHOLE)
    def test_who_holds_the_query_comes_first(self, filled: Host, case: str) -> None:
        text, query = WHOLE[case]
        results = search(filled, query, limit=1000, max_bytes=limits.REPLY_BYTES_MAX)
        holding = [holds["content"] for holds in results if holds["holds_query"]]
        assert text[:40] in [content[:40] for content in holding]
        assert [result["holds_query"] for result in results] == sorted(
            (result["holds_query"] for result in results), reverse=True
        )

    @pytest.mark.parametrize("case", PARTIAL)
    def test_who_answers_it_in_part_is_found(self, filled: Host, case: str) -> None:
        text, query = PARTIAL[case]
        results = search(filled, query, limit=1000, max_bytes=limits.REPLY_BYTES_MAX)
        (result,) = [result for result in results if result["content"] == text]
        assert result["holds_query"] is False

    @pytest.mark.parametrize("query", ['"bru"', "bru?", "(bru", "bru..."])
    def test_symbols_that_stand_in_the_way_are_left_out(self, filled: Host, query: str) -> None:
        assert found(filled, query) == [PROVERB]

    @pytest.mark.parametrize("query", ["zebra", "電", "\u200b", "€", "zz top", "x" * 10_000])
    def test_what_nobody_said_is_not_found(self, filled: Host, query: str) -> None:
        reply = filled.call("search_messages", query=query)
        assert (reply["results"], reply["total"]) == ([], 0)

    @pytest.mark.parametrize("query", ["", "   ", "\n\t", "\u3000"])
    def test_a_blank_query_finds_all_the_newest_first(self, filled: Host, query: str) -> None:
        reply = filled.call("search_messages", query=query, limit=1000)
        newest = filled.read("history", session_id="s", limit=1)["messages"][0]
        assert reply["results"][0]["message_id"] == newest["message_id"]
        assert reply["total"] == reply["searched"] == len(TEXTS)

    @given(query=any_text)
    def test_any_text_is_a_query(self, filled: Host, query: str) -> None:
        filled.call("search_messages", query=query)

    @pytest.mark.parametrize("letter", ["x", "日", "?", " x", "日 "])
    def test_a_query_may_be_long_and_no_longer(self, filled: Host, letter: str) -> None:
        longest = (letter * limits.QUERY_BYTES_MAX).encode()[: limits.QUERY_BYTES_MAX - 1]
        query = longest.decode(errors="ignore")
        query += "x" * (limits.QUERY_BYTES_MAX - len(query.encode()))
        filled.call("search_messages", query=query)
        with pytest.raises(Refused, match=str(limits.QUERY_BYTES_MAX)) as refused:
            filled.call("search_messages", query=query + "x")
        assert refused.value.code == "INVALID_ARGUMENT"


class TestOrder:
    def test_more_of_the_words_and_rarer_ones_win(self, host: Host) -> None:
        for text in ["the kitchen", "a green door", "a green kitchen", "kitchen", "kitchen"]:
            host.write(text, session_id=text)
        assert found(host, "green kitchen?")[:2] == ["a green kitchen", "a green door"]

    def test_importance_then_time_then_id_break_ties(self, host: Host) -> None:
        for number, importance in enumerate([5, 0, 9, 0]):
            host.clock.now_ms = START_MS - number * 1000 * (importance == 0)
            host.write(f"same {number}", f"s{number}", metadata={"importance": importance})
        for number in range(4, 6):
            host.write(f"same {number}", f"s{number}")
        host.clock.now_ms = START_MS
        order = found(host, "same?")
        assert order == ["same 2", "same 0", "same 1", "same 5", "same 4", "same 3"]
        assert found(host, "same?") == order

    def test_what_was_said_around_a_message_counts(self, host: Host) -> None:
        for session, answer in [("a", "It was green"), ("b", "It was brown")]:
            question = "What colour is the kitchen now?" if session == "a" else "How is the bike?"
            host.write(question, session_id=session)
            host.write(f"{answer}, as the colour of the sea", session_id=session)
        results = search(host, "colour of the kitchen")
        scores = {result["content"][:8]: result["scores"] for result in results}
        assert scores["It was g"]["context"] > scores["It was b"]["context"]
        assert scores["It was g"]["content"] == scores["It was b"]["content"]

    def test_the_best_part_of_a_long_message_counts(self, host: Host) -> None:
        filler = "Something else was discussed at length here. " * 200
        host.write(filler + "The green kitchen pleased us. " + filler, session_id="long")
        host.write("green things " + filler + " a kitchen", session_id="apart")
        assert search(host, "kitchen in green")[0]["session_id"] == "long"

    def test_scores_add_up(self, host: Host) -> None:
        metadata = {"summary": "a green kitchen", "tags": ["green"]}
        host.write("the kitchen is green", metadata=metadata)
        host.write("green")
        for result in search(host, "green kitchen?"):
            assert sum(result["scores"].values()) == pytest.approx(result["score"], abs=1e-3)
            assert result["matched_fields"] == [
                name for name in ("content", "summary", "tags") if name in result["scores"]
            ]
        assert search(host, "green kitchen?")[0]["matched_fields"] == ["content", "summary", "tags"]


class TestReply:
    @pytest.mark.parametrize("letter", ["x", "é", "日", "🎌", "e\u0301"])
    @pytest.mark.parametrize("place", [0, 1, 50, 300, 5000, 20_000])
    def test_the_excerpt_shows_the_match(self, host: Host, letter: str, place: int) -> None:
        content = f"{letter * place} Quokka {letter * (20_000 - place)}"
        host.write(content)
        for query in ("quokka", "a quokka?", "quokkas"):
            (result,) = search(host, query)
            excerpt, offset = result["excerpt"], result["excerpt_offset"]
            assert "Quokka" in excerpt
            assert len(excerpt.encode()) <= limits.EXCERPT_BYTES
            assert content.encode()[offset : offset + len(excerpt.encode())] == excerpt.encode()
            assert result["content_truncated"] is True
            assert result["content_bytes"] == len(content.encode())

    @pytest.mark.parametrize("field", ["summary", "tags"])
    def test_a_field_beside_the_content_is_shown_where_it_matches(
        self, host: Host, field: str
    ) -> None:
        value: dict[str, Any] = {"summary": "All about a quokka", "tags": ["one", "a quokka"]}
        host.write("nothing", metadata={field: value[field]})
        (result,) = search(host, "a quokka")
        assert (result["holds_query"], result["excerpt_field"]) == (True, field)
        assert result["matched_fields"] == [field]
        assert "a quokka" in result["excerpt"]

    def test_neighbours_are_those_of_the_session(self, host: Host) -> None:
        for number in range(6):
            host.write(f"word {number}" if number != 3 else "the quokka")
            host.write("elsewhere", session_id="other")
        (result,) = search(host, "quokka", before=2, after=5)
        assert [message["content"] for message in result["before"]] == ["word 1", "word 2"]
        assert [message["content"] for message in result["after"]] == ["word 4", "word 5"]
        assert "before" not in search(host, "quokka")[0]

    def test_neighbours_that_do_not_fit_are_counted(self, host: Host) -> None:
        for number in range(41):
            host.write(f"{number} " + "x" * 490 if number != 20 else "the quokka")
        (result,) = search(host, "quokka", before=50, after=3, max_bytes=limits.REPLY_BYTES_MIN)
        assert (result["before_left_out"], result["after_left_out"]) == (20, 3)

    def test_the_total_counts_what_is_not_shown(self, host: Host) -> None:
        for number in range(30):
            host.write(f"{number} quokka " + "x" * 400, session_id=f"s{number}")
        host.write("nothing")
        for query in ("quokka", "quokkas?"):
            reply = host.call("search_messages", query=query, limit=5)
            assert (len(reply["results"]), reply["total"]) == (5, 30)
            assert "left_out" not in reply
            least = limits.REPLY_BYTES_MIN
            reply = host.call("search_messages", query=query, limit=20, max_bytes=least)
            assert 0 < len(reply["results"]) == 20 - reply["left_out"]

    @pytest.mark.parametrize("mode", ["auto", "lexical"])
    def test_it_says_how_it_searched(self, host: Host, mode: str) -> None:
        host.write("text", role="assistant")
        filters = {"role": "user", "tags": ["a"], "min_importance": 0}
        since = {"since": "2023-11-14T23:13:20.001+01:00"}
        reply = host.call("search_messages", query="text", mode=mode, **filters, **since)
        assert (reply["mode"], reply["searched"]) == ("lexical", 0)
        assert reply["filters"] == filters | {"since": START_MS + 1}

    def test_an_unknown_session_is_told_with_those_spelled_like_it(self, host: Host) -> None:
        names = ["Project Alpha", "project-beta", "diary"]
        for name in names:
            host.write("text", session_id=name)
        gone = host.write("text", session_id="project alpha 2")["message_id"]
        host.call("delete_message", message_id=gone)
        reply = host.call("search_messages", query="text", session_id="project alpha 2")
        assert reply["results"] == []
        assert reply["near_session_ids"][0] == "Project Alpha"
        assert "project alpha 2" not in reply["near_session_ids"]
        reply = host.call("search_messages", query="nothing", session_id="diary")
        assert "near_session_ids" not in reply

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({"mode": "semantic"}, "switched off; use mode 'lexical'"),
            ({"since": 2, "until": 1}, "until: lies before since"),
            ({"since": "yesterday"}, "since: 'yesterday' is neither"),
            ({"until": "2026-03-01T09:00:00"}, "with its offset"),
            ({"until": "2026-02-30T09:00:00Z"}, "until"),
            ({"since": "x", "until": "y"}, "since.*until"),
        ],
        ids=str,
    )
    def test_what_makes_no_sense_is_refused(
        self, host: Host, arguments: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(Refused, match=f"(?s){problem}") as refused:
            host.call("search_messages", query="text", **arguments)
        assert refused.value.code == "INVALID_ARGUMENT"

    @pytest.mark.parametrize("query", ["text", "", " ", "?", "日"])
    def test_where_nothing_is_or_is_any_more_nothing_is_found(self, host: Host, query: str) -> None:
        for content in ("text", " ", ""):
            assert found(host, query) == []
            message_id = host.write(content)["message_id"]
            host.call("search_messages", query="text")
            host.call("delete_message", message_id=message_id)
            assert found(host, query) == []

    def test_a_search_leaves_the_disk_alone(self, host: Host) -> None:
        for number in range(300):
            host.write(f"text {number}")
        host.call("delete_message", message_id=host.write("gone")["message_id"])
        changes: list[Operation] = []
        host.disk.hook = changes.append
        for query in ("text", "text 7?", "", "日"):
            host.call("search_messages", query=query, tags=["a"], before=2)
        assert changes == []
