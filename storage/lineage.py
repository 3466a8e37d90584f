"""Which of several logs is the store: a pure decision on what each says of itself.

A generation is made from its parent, sealed, made durable, and only then used; the parent
goes last. So two logs beside each other are a compaction that was interrupted somewhere:

    the child is not sealed                                        it goes  (unfinished)
    the parent ends where the child says                           the parent goes
    the parent is shorter, torn or damaged                         the parent goes
    the parent went on, nothing was added to the child             the child goes (abandoned)
    the parent went on, and the child too                          refused: a fork
    not parent and child, or not of one store                      refused: foreign

A child that is damaged before its seal and holds frames behind it was in use: no compaction
leaves that, so it is refused as damage and never taken for an unfinished one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from .errors import CorruptLog, ForkedLogs, FormatTooNew
from .format import HeaderFault
from .scan import Verdict
from .survey import Survey, Unreadable


@dataclass(frozen=True, slots=True)
class Lineage:
    """The generation that is the store, and the leftovers.

    `superseded` are its ancestors, the oldest first: they are to go in this order, so that
    none is ever left without its child. `discarded` are later generations that never counted.
    `fresh`: nothing was added since it took the place of an ancestor that is still there.
    """

    live: int
    superseded: tuple[int, ...] = ()
    discarded: tuple[int, ...] = ()
    fresh: bool = False


class _Relation(Enum):
    SUPERSEDED = "the child counts, the parent may go"
    ABANDONED = "the parent counts, the child may go"


def choose(logs: Sequence[Survey | Unreadable]) -> Lineage:
    """Decide between logs, the highest generation first.

    Raises ForkedLogs where they contradict each other, CorruptLog for the one that would be
    the store and is damaged before its seal, FormatTooNew.
    """
    discarded: list[int] = []
    superseded: list[int] = []
    live, *others = logs
    while others and _is_unfinished(live):
        discarded.append(live.generation)
        live, *others = others
    child = live
    for parent in others:
        match _relation(child, parent):
            case _Relation.SUPERSEDED:
                superseded.insert(0, parent.generation)
            case _Relation.ABANDONED if child is live:
                discarded.append(child.generation)
                live = parent
            case _Relation.ABANDONED:
                raise _fork(child, parent, "which went on after it")
        child = parent
    fresh = bool(superseded) and isinstance(live, Survey) and not live.appended
    return Lineage(live.generation, tuple(superseded), tuple(discarded), fresh)


def _is_unfinished(log: Survey | Unreadable) -> bool:
    """Whether a log that has elders never became valid."""
    match log:
        case Unreadable():
            if not log.unwritten:
                raise _unreadable(log)
            return True
        case Survey():
            if log.end.ending.verdict is Verdict.TOO_NEW:
                raise FormatTooNew(log.name, log.end.position.offset, log.end.reason)
            if not log.sealed and log.after_seal is not None:
                raise CorruptLog(log.name, log.end.position.offset, log.end.reason)
            return not log.sealed


def _relation(child: Survey | Unreadable, parent: Survey | Unreadable) -> _Relation:
    if not isinstance(child, Survey) or child.origin is None:
        raise _fork(child, parent, "from which it may or may not have been made: it is damaged")
    origin = child.origin
    if origin.parent != parent.generation:
        raise _fork(child, parent, "which is not its parent")
    if isinstance(parent, Unreadable):
        if parent.fault is not HeaderFault.DAMAGED:
            raise _fork(child, parent, parent.fault.value)
        return _Relation.SUPERSEDED
    if child.header.store_id != parent.header.store_id:
        raise _fork(child, parent, "which is of another store")
    end = parent.end
    if end.ending.verdict is Verdict.TOO_NEW:
        raise FormatTooNew(parent.name, end.position.offset, end.reason)
    last_seq = max(end.position.seq - 1, parent.after.last if parent.after else 0)
    if origin.parent_next_seq <= last_seq:
        if parent.chain_at_claim != origin.parent_chain:
            raise _fork(child, parent, "whose records are others than it was made from")
        if child.appended:
            raise _fork(child, parent, "and both went on: two histories of one store")
        return _Relation.ABANDONED
    ends_there = end.position.seq == origin.parent_next_seq
    if ends_there and end.position.chain != origin.parent_chain:
        raise _fork(child, parent, "whose records are others than it was made from")
    return _Relation.SUPERSEDED


def _unreadable(log: Unreadable) -> CorruptLog | FormatTooNew:
    kind = FormatTooNew if log.fault is HeaderFault.TOO_NEW else CorruptLog
    return kind(log.name, 0, log.fault.value)


def _fork(child: Survey | Unreadable, parent: Survey | Unreadable, reason: str) -> ForkedLogs:
    return ForkedLogs(child.name, 0, f"beside {parent.name}, {reason}")
