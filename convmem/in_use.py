"""What is said of a store in use, with how its holder is reached."""

from convmem.errors import StoreInUse
from convmem.storage import StoreLocked


def in_use(locked: StoreLocked) -> StoreInUse:
    """The refusal for a store that another has locked."""
    message = f"{locked}; close that client, or give this one another --data-dir"
    holder = locked.holder
    if holder is None:
        return StoreInUse(message, None)
    named = {"pid": holder.pid, "host": holder.host, "since_ms": holder.since_ms}
    return StoreInUse(message, holder.endpoint, holder=named)
