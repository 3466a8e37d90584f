"""What the benchmarks measure with: times and the memory of a process."""

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
MB = 1_000_000  # as a unit of results; sizes that are given to a program are powers of two


def timed_ms(work: Callable[[], Result]) -> tuple[Result, float]:
    """What a piece of work comes to, and the milliseconds it takes."""
    began_s = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - began_s) * 1000


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def p50_p95(values: Sequence[float]) -> list[float]:
    """The median and the 95th percentile, a cell of a table."""
    return [percentile(values, 0.5), percentile(values, 0.95)]


def resident_mb(pid: int) -> float | None:
    """Resident memory of a process; None where the system does not tell it so (not Linux)."""
    pages = _memory_pages(pid)
    return None if pages is None else pages[1] * _PAGE_MB


def mapped_mb(pid: int) -> float | None:
    """The part of the resident memory that the system may drop: it is in files too."""
    pages = _memory_pages(pid)
    return None if pages is None else pages[2] * _PAGE_MB


def own_resident_mb() -> float:
    """Resident memory of this process now; the peak so far where the system tells only that."""
    resident = resident_mb(os.getpid())
    if resident is not None:
        return resident
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MB if sys.platform == "darwin" else peak * 1024 / MB


_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / MB


def _memory_pages(pid: int) -> list[int] | None:
    """Pages in all, resident, and shared with files, as /proc tells them."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/statm").read_text().split()]
    except OSError:
        return None
