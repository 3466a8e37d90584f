"""Conversations whose messages point to the one before them: a tree, of which one path was seen."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node")


def path_to(leaf: str, parents: Mapping[str, str]) -> list[str]:
    """The keys from the root to a leaf; a circle is left where it closes."""
    path: dict[str, None] = {}
    key = leaf
    while key in parents and key not in path:
        path[key] = None
        key = parents[key]
    return list(path)[::-1]


def leaves(parents: Mapping[str, str]) -> set[str]:
    """The keys that nothing follows."""
    return parents.keys() - set(parents.values())


def in_order(parents: Mapping[str, str], order: Sequence[str]) -> list[str]:
    """All keys, each behind the one before it, else as ``order`` has them."""
    done: dict[str, None] = {}
    for key in order:
        for each in path_to(key, parents):
            done.setdefault(each)
    return list(done)
