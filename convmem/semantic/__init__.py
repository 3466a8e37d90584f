"""Search by meaning, where a model is installed: optional, local, and derived from the log.

embedder    texts to vectors, by a model from a package or folder
vectors     a byte for each number, in memory and on disk
meanings    the vectors of what a memory holds, and what is near a query
"""

from convmem.semantic.embedder import (
    INSTALL,
    UNIVERSAL,
    Embedder,
    Unavailable,
    is_installed,
    load,
)
from convmem.semantic.meaning import BY_WORDS, Meaning
from convmem.semantic.meanings import SUFFIX, Meanings, Text, forget_files

__all__ = [
    "BY_WORDS",
    "INSTALL",
    "SUFFIX",
    "UNIVERSAL",
    "Embedder",
    "Meaning",
    "Meanings",
    "Text",
    "Unavailable",
    "forget_files",
    "is_installed",
    "load",
]
