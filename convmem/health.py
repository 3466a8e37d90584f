"""What ``get_system_health`` tells, as JSON: the store, how it was recovered, what runs here."""

import platform
from dataclasses import asdict

import numpy

from convmem import __version__, ids
from convmem.indexer import Indexer
from convmem.limits import HEALTH_NAMES_MAX
from convmem.operations import JsonObject
from convmem.state import State
from convmem.state.overview import live_messages
from convmem.storage import Adopted, Clean, Created, Cut, Recovery, StoreStatus, Unusable


def health(
    state: State,
    indexer: Indexer,
    store: StoreStatus,
    directory: str,
    failed: str | None,
) -> JsonObject:
    """The health of an open store. Sizes are bytes.

    ``failed`` is why it takes no more writes.
    """
    report: JsonObject = {
        "status": "failed" if failed else "damaged" if indexer.unreadable else "ok",
        "messages": len(state.messages) - state.messages.deleted,
        "deleted": state.messages.deleted,
        "sessions": int(numpy.count_nonzero(live_messages(state.messages, len(state.sessions)))),
        "facts": state.facts.live,
        "store": {
            "directory": directory,
            "store_id": ids.to_text(store.store_id),
            "generation": store.generation,
            "next_seq": store.next_seq,
            "log_bytes": store.log_bytes,
            "strange_files": _some(store.strange_names),
            "quarantine": {"files": store.quarantine_files, "bytes": store.quarantine_bytes},
            "snapshot": _snapshot(store),
            "removed_at_open": _some(store.removed),
        },
        "recovery": _recovery(store.recovery),
        "log_io": asdict(store.log_io),
        "snapshot_io": asdict(store.snapshot_io),
        "search": _search(indexer),
        "memory_bytes": {"state": state.memory_bytes(), "search": indexer.memory_bytes()},
        "versions": {
            "convmem": __version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
        },
    }
    warnings = [f"{hazard.kind.value} ({hazard.detail})" for hazard in store.hazards]
    if indexer.unreadable:
        warnings.append(unreadable_told(indexer.unreadable))
    if warnings:
        report["warnings"] = warnings
    if failed:
        report["failed"] = failed
    return report


def unreadable_told(count: int) -> str:
    """What an operator is told of messages whose bodies the log does not give."""
    messages = "1 message" if count == 1 else f"{count:,} messages"
    return f"the log is damaged: {messages} cannot be read or searched; `convmem check` says where"


def _search(indexer: Indexer) -> JsonObject:
    told: JsonObject = {
        "mode": "lexical",
        "not_indexed": indexer.backlog,
        "unreadable": indexer.unreadable,
    }
    if indexer.failure is not None:
        told["failed"] = indexer.failure
    return told


def _some(names: tuple[str, ...]) -> list[str]:
    """The first of the names, and how many more there are."""
    left_out = len(names) - HEALTH_NAMES_MAX
    more = [f"and {left_out} more"] if left_out > 0 else []
    return [*names[:HEALTH_NAMES_MAX], *more]


def _snapshot(store: StoreStatus) -> JsonObject:
    """The snapshot on disk, and whether the start was spared a replay by one."""
    told: JsonObject = {"bytes": store.snapshot_bytes}
    if store.snapshot_next_seq is not None:
        told["next_seq"] = store.snapshot_next_seq
    match store.opened_with:
        case Adopted(name):
            told["opened_with"] = name
        case Unusable(name, reason):
            told["not_used"] = f"{name}: {reason}"
        case None:
            pass
    return told


def _recovery(recovery: Recovery) -> JsonObject:
    match recovery:
        case Created():
            return {"outcome": "created"}
        case Clean():
            return {"outcome": "clean"}
        case Cut():
            details = {name: value for name, value in asdict(recovery).items() if value is not None}
            return {"outcome": "cut", **details}
