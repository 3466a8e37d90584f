"""What a power cut can leave of files and names with changes pending: the rules, as values.

    names   every prefix of the pending changes, or (weak order) every subset of few
    files   every prefix of the pending changes; each change missing; the last write cut
            after each sector and at odd bytes, each sector missing, each one alone,
            none but with the new size, the same and zeros up to a block; what was not
            written holds what it held
    both    each file against nothing and everything else that survived; all
            combinations when they are few

`memory_disk` keeps the files; nothing here knows of a disk.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .format import SECTOR_BYTES

BLOCK_BYTES: Final = 4096
# Pending changes of names are few; more than this would not be enumerated in a lifetime.
SUBSET_CHANGES_MAX: Final = 6
# Combinations of files beyond this are sampled: one file at a time.
PRODUCT_STATES_MAX: Final = 400
# A megabyte has 2,048 sectors: take those at both ends, and some between.
SECTORS_TRIED_MAX: Final = 48
ODD_CUTS: Final = (1, 7, 8, 9, 31, 32, 33)


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put at an offset."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """A file made shorter or longer."""

    size: int


Change = Write | Resize


@dataclass(slots=True, eq=False)
class Inode:
    """What a file holds, and what was done to it since it was last flushed."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[Change] = field(default_factory=list)
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A name given to an inode, or taken away (None)."""

    name: str
    inode: Inode | None


def name_states(
    durable: Mapping[str, Inode], changes: Sequence[Link], *, weak_order: bool
) -> Iterator[dict[str, Inode]]:
    """The names that a power cut may leave, of those that were durable and changed since."""
    if weak_order and len(changes) <= SUBSET_CHANGES_MAX:
        picks = itertools.product((False, True), repeat=len(changes))
        survivors = [list(itertools.compress(changes, pick)) for pick in picks]
    else:
        survivors = [list(changes[:count]) for count in range(len(changes) + 1)]
    for links in survivors:
        names = relinked(durable, links)
        yield {
            name: inode
            for name, inode in names.items()
            if not inode.is_directory and (directory_of(name) == "" or directory_of(name) in names)
        }


def directory_of(name: str) -> str:
    return name.rpartition("/")[0]


def relinked(names: Mapping[str, Inode], links: Iterable[Link]) -> dict[str, Inode]:
    result = dict(names)
    for link in links:
        if link.inode is None:
            result.pop(link.name, None)
        else:
            result[link.name] = link.inode
    return result


def change_content(inode: Inode, change: Change) -> None:
    apply(inode.content, change)
    inode.pending.append(change)


def apply(content: bytearray, change: Change) -> None:
    match change:
        case Write(offset, data):
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        case Resize(size):
            del content[size:]
            content.extend(bytes(size - len(content)))


def changed(durable: bytes, changes: Iterable[Change]) -> bytes:
    content = bytearray(durable)
    for change in changes:
        apply(content, change)
    return bytes(content)


def file_states(names: Mapping[str, Inode]) -> Iterator[dict[str, bytes]]:
    """The contents that the files under `names` may have together."""
    variants = {name: list(variants_of(inode)) for name, inode in names.items()}
    combinations = 1
    for options in variants.values():
        combinations *= len(options)
    if combinations <= PRODUCT_STATES_MAX:
        for contents in itertools.product(*variants.values()):
            yield dict(zip(variants, contents, strict=True))
        return
    nothing = {name: inode.durable for name, inode in names.items()}
    everything = {name: changed(inode.durable, inode.pending) for name, inode in names.items()}
    for others in (nothing, everything):
        for name, options in variants.items():
            for content in options:
                yield others | {name: content}


def variants_of(inode: Inode) -> set[bytes]:
    """What one file may hold after a power cut."""
    durable, pending = inode.durable, inode.pending
    variants = {changed(durable, pending[:count]) for count in range(len(pending) + 1)}
    variants |= {
        changed(durable, pending[:index] + pending[index + 1 :]) for index in range(len(pending))
    }
    for index, change in enumerate(pending):
        if isinstance(change, Write):
            before = changed(durable, pending[:index])
            variants |= {changed(before, [torn]) for torn in torn_writes(change, before)}
    return variants


def torn_writes(write: Write, before: bytes) -> Iterator[Write]:
    """What of one interrupted write to a file of content `before` may have got through."""
    offset, data, length = write.offset, write.data, len(write.data)
    # A sector that was not written holds what it held: past the old end, zeros.
    old = before[offset : offset + length].ljust(length, b"\0")
    first = SECTOR_BYTES - offset % SECTOR_BYTES
    bounds = [0, *range(first, length, SECTOR_BYTES), length]
    sectors = list(itertools.pairwise(bounds))
    step = max(1, len(sectors) // SECTORS_TRIED_MAX)
    for start, end in [*sectors[:4], *sectors[4:-4:step], *sectors[4:][-4:]]:
        yield Write(offset, data[:end])
        yield Write(offset, data[:start] + old[start:end] + data[end:])
        yield Write(offset, old[:start] + data[start:end] + old[end:])
    yield Write(offset, old)
    if len(before) <= offset + length:
        yield Write(offset, old + bytes(BLOCK_BYTES))
    for cut in (*ODD_CUTS, length - 1):
        if 0 < cut < length:
            yield Write(offset, data[:cut])
