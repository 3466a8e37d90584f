"""Recall by meaning: the model, its vectors, and the thread that makes them while nobody asks.

    off        not wanted, or not installed: searches go by words, and say why
    loading    the model is being loaded, by whoever needed it first
    ready      searches go by words and meaning; what is not embedded yet, by words

The thread embeds a few texts at a time, and waits while calls come in: Python runs one thread at
a time, and a host must not wait for it. It never writes to the store; its file can be deleted.
"""

import asyncio
import contextlib
import hashlib
import re
import threading
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmem.errors import Code, Refusal
from convmem.ledger import Ledger
from convmem.limits import SEMANTIC_CATCH_UP_WAIT_S, SEMANTIC_LOAD_WAIT_S
from convmem.operations import JsonObject, SearchMode
from convmem.semantic import (
    BY_WORDS,
    INSTALL,
    SUFFIX,
    Embedder,
    Meaning,
    Meanings,
    Text,
    Unavailable,
    forget_files,
    is_installed,
    load,
)
from convmem.storage import VECTORS

_BATCH_TEXTS = 8
_CATCH_UP_TEXTS = 256  # waited for by a search: a second, mostly
_QUIET_S = 0.05  # since the last call, before the thread goes on
_UNQUIET_S_MAX = 2.0  # however many calls come in: then for one text
_LOAD_QUIET_S = 1.0  # before the model is loaded that no search needs yet
_IDLE_S = 60.0
_END_WAIT_S = 0.3

# More than a third of a query in such scripts: a model of English alone knows nothing of it.
_UNSPACED = "[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for at the start: the model, None for none, and whether to load it at once."""

    embedder: str | None = None
    preload: bool = False


OFF = Wanted()


class Recall:
    """Of one ledger. Used from one event loop."""

    def __init__(self, ledger: Ledger, wanted: Wanted) -> None:
        self._ledger = ledger
        self._wanted = wanted
        self._why_off = _why_off(wanted)
        self._embedder: Embedder | None = None
        self._meanings: Meanings | None = None
        self._loaded = threading.Event()
        self._is_needed = threading.Event()  # by a search, or at once
        self._surveys = 0  # begun; of what is to embed
        self._in_a_hurry: dict[asyncio.Future[None], int] = {}  # searches, and the survey they need
        self._changes = 1  # of the store
        self._changes_surveyed = 0
        self._model_lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._may_work = threading.Lock()  # held by whoever has the thread stand still
        self._loading: asyncio.Task[bool] | None = None  # what all who need the model wait for
        self._called_s = 0.0
        self._thread: threading.Thread | None = None
        self._is_rebuilt = False
        self._left: list[str | int] = []  # to embed, as last surveyed
        if wanted.preload:
            self._is_needed.set()
            self.start()

    def note_call(self) -> None:
        """Somebody asks something: let them."""
        self._called_s = time.monotonic()

    def note_change(self) -> None:
        """Something was written."""
        self._changes += 1
        self.start()

    def start(self) -> None:
        """Load the model, if it is not, and embed what there is. Nothing where recall is off."""
        if self._why_off is None and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="convmem-recall", daemon=True)
            self._thread.start()
        self._wake.set()

    async def meaning(self, text: str, mode: SearchMode) -> Meaning:
        """What a query means, for a search in that mode.

        Raises Refusal where a search by meaning was asked for and cannot be.
        """
        if mode == "lexical":
            return BY_WORDS
        self._is_needed.set()
        self.start()
        vector: NDArray[np.float32] | None = None
        why = self._why_off
        if why is None:
            why = await self._wait_for_model()
        if why is None and self._embedder is not None:
            if self._embedder.only_english and _is_mostly_unspaced(text):
                why = "the model knows English only"
            else:
                try:
                    vector = await asyncio.to_thread(self._embed_query, text)
                except Exception as error:  # its text may quote the query
                    why = f"the model failed ({type(error).__name__})"
        if vector is None:
            if mode == "semantic":
                raise Refusal(Code.INVALID_ARGUMENT, f"mode 'semantic': {why}; use mode 'lexical'")
            return Meaning(None, {"mode": "lexical", "semantic": why})
        assert self._meanings is not None
        covered, total = await self._caught_up()
        told: JsonObject = {"mode": "hybrid" if mode == "auto" else "semantic"}
        if covered < total:
            told["embedded"] = {"done": covered, "of": total}
        return Meaning(vector, told, self._meanings, by_words=mode == "auto")

    def health(self) -> JsonObject:
        """For the health report."""
        if self._why_off is not None:
            return {"state": "off", "why": self._why_off}
        if self._meanings is None or self._embedder is None:
            return {"state": "loading" if self._thread else "not needed yet"}
        covered, total = self._meanings.covered
        told: JsonObject = {
            "state": "ready",
            "model": self._embedder.name,
            "embedded": {"done": covered, "of": total},
            "memory_bytes": self._meanings.memory_bytes(),
        }
        return told | ({"failed": self._meanings.failure} if self._meanings.failure else {})

    async def stand_still(self) -> None:
        """Have the thread read nothing until ``go_on``: the log is about to be replaced."""
        await asyncio.to_thread(self._may_work.acquire)

    def leave(self) -> None:
        """The store was rebuilt: its rows are others now, and what is gone is to be forgotten."""
        self._is_rebuilt = True
        self._changes += 1
        if self._meanings is not None:
            self._meanings.leave()
        if self._why_off is not None:
            self._forget_files()

    def go_on(self) -> None:
        """Work again."""
        self._may_work.release()
        self._wake.set()

    async def close(self) -> None:
        """End soon, and keep what was made."""
        self._stopping.set()
        self._is_needed.set()
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _END_WAIT_S)  # a daemon: it may be loading
        if self._is_rebuilt:
            self._forget_files()

    def _forget_files(self) -> None:
        """Leave no vectors of what is gone where no model is there to tell which those are."""
        with contextlib.suppress(OSError):  # the next time a model is loaded they go
            forget_files(self._ledger.disk)

    async def _wait_for_model(self) -> str | None:
        """None once the model is there; else why it is not. All wait together, in one thread."""
        if not self._loaded.is_set():
            if self._loading is None or self._loading.done():
                waiting = asyncio.to_thread(self._loaded.wait, SEMANTIC_LOAD_WAIT_S)
                self._loading = asyncio.create_task(waiting)
            if not await asyncio.shield(self._loading):
                return "the model is still being loaded"
        return self._why_off

    async def _caught_up(self) -> tuple[int, int]:
        """How much is embedded of how much there is, after a moment for what is little.

        Who writes something and looks for it next should find it.
        """
        assert self._meanings is not None
        covered, total = self._meanings.covered
        left = total - covered
        has_changed = self._changes != self._changes_surveyed
        if left <= _CATCH_UP_TEXTS and (left or has_changed):
            await self._wait_for_survey()
            covered, total = self._meanings.covered
        return covered, total

    async def _wait_for_survey(self) -> None:
        """Wait for what is there now to be embedded, not for what comes meanwhile."""
        done = asyncio.get_running_loop().create_future()
        self._in_a_hurry[done] = self._surveys + 1
        try:
            self._wake.set()
            if self._why_off is None:  # else nobody is there to be waited for
                async with asyncio.timeout(SEMANTIC_CATCH_UP_WAIT_S):
                    await done
        except TimeoutError:
            pass  # the reply tells of what is left
        finally:
            del self._in_a_hurry[done]

    def _note_worked_off(self, survey: int) -> None:
        """All that a survey found is embedded: tell the searches that waited for it."""
        for done, needed in list(self._in_a_hurry.items()):
            if needed <= survey:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                    done.get_loop().call_soon_threadsafe(_succeed, done)

    def _embed_query(self, text: str) -> NDArray[np.float32]:
        assert self._embedder is not None
        with self._model_lock:
            vector: NDArray[np.float32] = self._embedder.embed([text])[0]
        return vector

    def _run(self) -> None:
        try:
            self._wait_for_need()
            if not self._stopping.is_set():
                self._load()
            while self._why_off is None and not self._stopping.is_set():
                self._wake.clear()
                if not self._work():
                    self._wake.wait(_IDLE_S)
            if self._is_rebuilt and self._meanings is not None:
                self._forget()
        except Exception as error:  # a mistake of ours: searches go by words
            failed = type(error).__name__  # its text may quote what was stored
            self._why_off = f"given up after a mistake ({failed}); restart the server"
        finally:
            self._loaded.set()
            self._note_worked_off(self._surveys + 1)  # there will be no other
            if self._meanings is not None:
                self._meanings.close()

    def _load(self) -> None:
        try:
            embedder = load(self._wanted.embedder or "")
        except Unavailable as error:
            self._why_off = str(error)
            return
        name = f"{VECTORS}/{hashlib.sha256(embedder.name.encode()).hexdigest()[:16]}{SUFFIX}"
        meanings = Meanings(self._ledger.disk, name, embedder)
        meanings.open()
        with self._may_work:
            meanings.follow(self._ledger.state)
            if meanings.holds_what_is_gone():
                meanings.forget()
        self._embedder, self._meanings = embedder, meanings
        self._loaded.set()

    def _work(self) -> bool:
        """Embed some; False when nothing is left."""
        assert self._embedder is not None
        assert self._meanings is not None
        with self._may_work:
            if self._is_rebuilt or self._meanings.is_wasteful:
                self._forget()
            if not self._left:
                self._surveys += 1
                changes = self._changes
                self._left = self._meanings.survey()
                self._changes_surveyed = changes
            texts = self._meanings.texts_of(self._left[:_BATCH_TEXTS])
            del self._left[:_BATCH_TEXTS]
        if texts and not self._embed(texts):
            return False
        if not self._left:
            self._note_worked_off(self._surveys)
        if not texts:
            self._meanings.save()
        return bool(texts or self._left)

    def _forget(self) -> None:
        """Keep the vectors of what there is now, and no others."""
        assert self._meanings is not None
        self._is_rebuilt, self._left = False, []
        self._meanings.follow(self._ledger.state)
        self._meanings.forget()

    def _embed(self, texts: list[Text]) -> bool:
        """Make the vectors of texts, between calls. False, and nothing is kept, at the end."""
        assert self._embedder is not None
        assert self._meanings is not None
        parts = [segment for text in texts for segment in text.segments]
        left = sorted(range(len(parts)), key=lambda place: len(parts[place]))
        embedded = np.zeros((len(parts), self._embedder.dimensions), np.float32)
        while left:
            size = _BATCH_TEXTS if self._let_calls_through() else 1
            if self._stopping.is_set():
                return False
            places, left = left[:size], left[size:]
            with self._model_lock:
                embedded[places] = self._embedder.embed([parts[place] for place in places])
        self._meanings.add(texts, embedded)
        return True

    def _let_calls_through(self) -> bool:
        """Wait until no call came in for a moment, but not for ever; False then."""
        since_s = time.monotonic()
        while not self._stopping.is_set() and not self._in_a_hurry:
            now_s = time.monotonic()
            if now_s - self._called_s >= _QUIET_S:
                return True
            if now_s - since_s >= _UNQUIET_S_MAX:
                return False
            self._stopping.wait(_QUIET_S / 5)
        return True

    def _wait_for_need(self) -> None:
        """Wait until a search needs the model, or nobody needs anything else."""
        while not self._stopping.is_set() and not self._is_needed.is_set():
            if time.monotonic() - self._called_s >= _LOAD_QUIET_S:
                return
            self._is_needed.wait(_LOAD_QUIET_S / 5)


def _succeed(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


def _why_off(wanted: Wanted) -> str | None:
    if wanted.embedder is None:
        return "switched off"
    if not is_installed(wanted.embedder):
        return f"not installed: {INSTALL}"
    return None


def _is_mostly_unspaced(text: str) -> bool:
    letters = [char for char in text if char.isalnum()]
    return len(re.findall(_UNSPACED, text)) * 3 > len(letters)
