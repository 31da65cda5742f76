"""How many threads to use."""

from __future__ import annotations

import os

from odmlib.errors import ParameterError

MAX_THREADS = 1024


def available_threads() -> int:
    """Cores this process may use: affinity, container quota and OMP_NUM_THREADS, whichever is least."""
    counts = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        if quota != "max":
            counts.append(int(quota) // int(period))
    except (OSError, ValueError):
        pass  # no cgroup v2 here: no quota to honour
    wish = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if wish.isdigit():
        counts.append(int(wish))
    return max(1, min(counts))


FEW_ROWS = 128  # that one thread predicts: so many are a chunk of work


def resolve_threads(threads: int | None, n_rows: int | None = None) -> int:
    """The thread count to use for a user's wish; None means all available, or one for a few rows."""
    if threads is None:
        return 1 if n_rows is not None and n_rows <= FEW_ROWS else available_threads()
    if not 1 <= threads <= MAX_THREADS:
        raise ParameterError(f"threads must be from 1 to {MAX_THREADS}, found {threads}")
    return int(threads)
