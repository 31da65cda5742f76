"""What every solver shares: when to stop, whom to tell, and what happened.

A solver works in slices that last well under a second with the interpreter lock released. Between two
slices it calls `Control.step`, which tells the callback, looks at the clock and at the iteration count,
and gives Python the chance to deliver Ctrl-C.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib.names import STATUSES

# STOPPED: by the callback; STALLED: no progress possible in the arithmetic at hand
CONVERGED, EARLY, MAX_ITER, TIME_LIMIT, STOPPED, STALLED = STATUSES


@dataclass(frozen=True)
class Progress:
    """What a callback is told; `gap` is relative: (primal - dual) / max(1, |primal|)."""

    iteration: int
    primal: float  #: objective
    gap: float  #: relative duality gap; infinity where it is not known yet
    seconds: float  #: since training began
    task: int = 1  #: with more than two classes: which of the tasks, counted from 1
    tasks: int = 1  #: how many there are
    stage: str = ""  #: of training by levels: which part of which level


@dataclass
class SolverResult:
    """The outcome of a solver. `gap` is the relative duality gap on all rows."""

    status: str
    primal: float
    dual: float
    gap: float
    iterations: int
    solver: str
    weights: NDArray[np.float64] | None = None  # linear machines: one per column, then the bias column's
    duals: NDArray[np.float64] | None = None  # kernel machines: one signed multiplier per row
    margins: NDArray[np.float64] | None = None  # margins of the training rows, the offset taken off
    details: dict[str, Any] = field(default_factory=dict)
    offset: float = 0.0  # subtracted from the scores
    signs: NDArray[np.float64] | None = None  # +1 or -1 for all rows, where the task left some open


def relative_gap(primal: float, gap: float) -> float:
    return gap / max(1.0, abs(primal))


class Control:
    """Stopping rule, clock and callback of one training run."""

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int | None = None,
        time_limit: float | None = None,
        callback: Callable[[Progress], object] | None = None,
    ):
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.callback = callback
        self.started = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def step(self, iteration: int, primal: float, gap: float, max_iter: int) -> str | None:
        """Report one iteration; a status means: stop now with that status.

        `gap` is the absolute gap on all rows (infinity where it is not known yet), `max_iter` the
        solver's own limit for when the user gave none.
        """
        relative = relative_gap(primal, gap)
        stop_wished = False
        if self.callback is not None:
            stop_wished = bool(self.callback(Progress(iteration, primal, relative, self.seconds())))
        if not math.isfinite(primal):
            return STALLED
        if relative <= self.tol:
            return CONVERGED
        if stop_wished:
            return STOPPED
        if iteration >= (max_iter if self.max_iter is None else self.max_iter):
            return MAX_ITER
        return self.out_of_time()

    def out_of_time(self) -> str | None:
        """For the slices inside an iteration: only the clock (and Ctrl-C, which Python delivers here)."""
        if self.time_limit is not None and self.seconds() >= self.time_limit:
            return TIME_LIMIT
        return None
