"""Conversations that branch where something was edited or asked again. Pure, and never recursive:
chains of a hundred thousand messages and cycles are met.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def path_to(leaf: T | None, parents: Mapping[T, T | None]) -> list[T]:
    """From the root, or where the chain is broken or closes upon itself, down to a leaf."""
    path: dict[T, None] = {}
    while leaf is not None and leaf in parents and leaf not in path:
        path[leaf] = None
        leaf = parents[leaf]
    return [*path][::-1]


def off_path(path: list[T], parents: Mapping[T, T | None]) -> list[T]:
    """All that is not on a path, each behind its parent but in cycles, else as it stands."""
    placed = set(path)
    order: list[T] = []
    for each in parents:
        above: dict[T, None] = {}
        node: T | None = each
        while node is not None and node in parents and node not in placed and node not in above:
            above[node] = None
            node = parents[node]
        order += [*above][::-1]
        placed.update(above)
    return order


def branches(path: list[T], parents: Mapping[T, T | None]) -> int:
    """How many branches leave a path, or stand apart from it."""
    on_path = set(path)
    return sum(
        node not in on_path and (parent in on_path or parent is None or parent not in parents)
        for node, parent in parents.items()
    )
