"""An index as named columns, for a snapshot.

An index that is restored uses the columns where they lie, and changes none of them.

rows fields lengths       of every segment, block after block; all blocks but the last full
block_keys                how many terms each block has
keys ends values          the posting lists of every block, one block after another
words tags                UTF-8, each followed by 0xFF, which stands in no UTF-8
uses                      of every word
gram_keys gram_ends gram_values   the lists over the lexicon
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.search.index import BLOCK_SEGMENTS, Block, Index
from convmem.search.lexicon import Lexicon

_END = b"\xff"
KINDS: Mapping[str, Any] = {
    "rows": np.uint32,
    "fields": np.uint8,
    "lengths": np.uint16,
    "block_keys": np.uint32,
    "keys": np.uint64,
    "ends": np.uint32,
    "values": np.uint16,
    "words": np.uint8,
    "tags": np.uint8,
    "uses": np.int32,
    "gram_keys": np.uint64,
    "gram_ends": np.uint32,
    "gram_values": np.uint32,
}


def save(index: Index) -> Callable[[], dict[str, NDArray[Any]]]:
    """Take a picture of an index, at once; what is returned makes its columns, in any thread."""
    for block in index.blocks:
        block.postings.merge()
    words, uses, grams = index.lexicon.saved()
    tags = list(index.tags)
    parts: dict[str, list[NDArray[Any]]] = {
        "rows": [block.rows for block in index.blocks],
        "fields": [block.fields for block in index.blocks],
        "lengths": [block.lengths for block in index.blocks],
        "block_keys": [np.array([len(block.postings.keys) for block in index.blocks], np.uint32)],
        "keys": [block.postings.keys for block in index.blocks],
        "ends": [block.postings.ends for block in index.blocks],
        "values": [block.postings.values for block in index.blocks],
        "uses": [uses],
        "gram_keys": [grams.keys],
        "gram_ends": [grams.ends],
        "gram_values": [grams.values],
    }

    def columns() -> dict[str, NDArray[Any]]:
        texts = {"words": [_joined(words)], "tags": [_joined(tags)]}
        whole = parts | texts
        return {
            name: np.concatenate([*whole[name], np.zeros(0, kind)]) for name, kind in KINDS.items()
        }

    return columns


def restore(saved: Mapping[str, memoryview]) -> Index | None:
    """The index of saved columns; None where they are missing or do not fit together."""
    try:
        columns = {name: np.frombuffer(saved[name], kind) for name, kind in KINDS.items()}
        words, tags = _apart(columns["words"]), _apart(columns["tags"])
    except (KeyError, ValueError):
        return None
    if not _fits(columns) or len(words) != len(columns["uses"]):
        return None
    grams = (columns["gram_keys"], columns["gram_ends"], columns["gram_values"])
    index = Index()
    index.restore(Lexicon.restored(words, columns["uses"], grams), tags, _blocks(columns))
    return index


def _fits(columns: Mapping[str, NDArray[Any]]) -> bool:
    segments = len(columns["rows"])
    blocks = -(-segments // BLOCK_SEGMENTS)
    return (
        segments == len(columns["fields"]) == len(columns["lengths"])
        and len(columns["block_keys"]) == blocks
        and int(columns["block_keys"].sum()) == len(columns["keys"]) == len(columns["ends"])
    )


def _blocks(columns: Mapping[str, NDArray[Any]]) -> Iterator[Block]:
    key, value = 0, 0
    for number, keys in enumerate(columns["block_keys"].tolist()):
        here = slice(number * BLOCK_SEGMENTS, (number + 1) * BLOCK_SEGMENTS)
        ends = columns["ends"][key : key + keys]
        values = int(ends[-1]) if keys else 0
        yield Block.restored(
            columns["rows"][here],
            columns["fields"][here],
            columns["lengths"][here],
            (columns["keys"][key : key + keys], ends, columns["values"][value : value + values]),
        )
        key, value = key + keys, value + values


def _joined(words: Iterable[str]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(word.encode() + _END for word in words), np.uint8)


def _apart(column: NDArray[np.uint8]) -> list[str]:
    return [word.decode() for word in column.tobytes().split(_END)[:-1]]
