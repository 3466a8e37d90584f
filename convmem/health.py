"""What ``get_system_health`` tells, as JSON: the store, how it was recovered, what runs here."""

import platform
from dataclasses import asdict

import numpy

from convmem import __version__, ids
from convmem.operations import JsonObject
from convmem.state import State
from convmem.storage import Clean, Created, Cut, Recovery, StoreStatus


def health(state: State, store: StoreStatus, directory: str) -> JsonObject:
    """The health of an open store. Sizes are bytes."""
    report: JsonObject = {
        "status": "failed" if store.failed else "ok",
        "messages": len(state.messages),
        "sessions": len(state.sessions),
        "store": {
            "directory": directory,
            "store_id": ids.to_text(store.store_id),
            "generation": store.generation,
            "next_seq": store.next_seq,
            "log_bytes": store.log_bytes,
            "strange_files": list(store.strange_names),
            "quarantine": {"files": store.quarantine_files, "bytes": store.quarantine_bytes},
        },
        "recovery": _recovery(store.recovery),
        "log_io": asdict(store.log_io),
        "memory_bytes": {"state": state.memory_bytes()},
        "versions": {
            "convmem": __version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
        },
    }
    if store.failed:
        report["failed"] = store.failed
    return report


def _recovery(recovery: Recovery) -> JsonObject:
    match recovery:
        case Created():
            return {"outcome": "created"}
        case Clean():
            return {"outcome": "clean"}
        case Cut():
            details = {name: value for name, value in asdict(recovery).items() if value is not None}
            return {"outcome": "cut", **details}
