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
from typing import TYPE_CHECKING, Any, Protocol

from odmlib._core.arrays import Floats, Places
from odmlib.names import STATUSES

if TYPE_CHECKING:
    from odmlib.kernels.cache import RowCache


# STOPPED: by the callback; STALLED: no progress possible in the arithmetic at hand
CONVERGED, EARLY, MAX_ITER, TIME_LIMIT, STOPPED, STALLED = STATUSES


@dataclass(frozen=True)
class Progress:
    """What a callback is told; `gap` is relative: (primal - dual) / |primal|."""

    iteration: int
    primal: float  #: objective
    gap: float  #: relative duality gap; infinity where it is not known yet
    seconds: float  #: since training began
    task: int = 1  #: with more than two classes: which of the tasks, counted from 1
    tasks: int = 1  #: how many there are
    stage: str = ""  #: of training by levels: which part of which level


Callback = Callable[[Progress], object]


@dataclass(frozen=True)
class Regions:
    """Clusters of rows with a machine each: the cluster of every row, and their parts of the total weight."""

    clusters: Places
    shares: Floats


@dataclass
class SolverResult:
    """The outcome of a solver. `gap` is the relative duality gap on all rows."""

    status: str
    primal: float
    dual: float
    gap: float
    iterations: int
    solver: str
    # float64 arrays, None where the solver has none of a kind
    weights: Any = None  # linear machines: one per column, then the bias column's
    duals: Any = None  # kernel machines: one signed multiplier per row
    margins: Any = None  # margins of the training rows, the offset taken off
    details: dict[str, Any] = field(default_factory=dict)  # for the report; no code reads them
    offset: float = 0.0  # subtracted from the scores
    shift: float | None = None  # that was added to the diagonal of the kernel; linear machines: None
    support_vectors: int | None = None  # rows with a dual that is not 0; linear machines: None
    signs: Any = None  # +1 or -1 for all rows, where the task left some open
    levels: list[dict[str, Any]] | None = None  # of training by levels: a record of each
    regions: Regions | None = None  # of machines that each answer for a region

    @classmethod
    def at(
        cls, status: str, primal: float, gap: float, iterations: int, solver: str, **found: Any
    ) -> SolverResult:
        """The result at a point with this objective and absolute gap; `found`: the other fields."""
        return cls(status, primal, primal - gap, relative_gap(primal, gap), iterations, solver, **found)


class FindsStart(Protocol):
    """Features of a kernel of little rank (distributed/low_rank.py)."""

    def start(
        self, problem: Any, control: Control, resources: Resources, start: WarmStart | None
    ) -> WarmStart | None: ...


@dataclass(frozen=True)
class Resources:
    """What a solver may use: threads, memory for kernel rows, and the seed of its random choices."""

    threads: int = 1
    cache_bytes: int = 0
    cache: RowCache | None = None  # rows of this very kernel, shared with other tasks
    seed: int = 0
    features: FindsStart | None = None  # of this very kernel, shared as the cache is


@dataclass(frozen=True)
class WarmStart:
    """Where a solver begins: what is known about the solution, from another solver or another problem."""

    weights: Floats | None = None
    duals: Floats | None = None
    scores: Floats | None = None  # f(x_i) of all rows under the duals
    iterations: int = 0  # done before; counted on
    bound: float = -math.inf  # a known lower bound of the objective

    @classmethod
    def of(cls, result: SolverResult) -> WarmStart:
        """Go on from where another solver of the same problem ended."""
        return cls(result.weights, result.duals, None, result.iterations, result.dual)


def relative_gap(primal: float, gap: float) -> float:
    """The gap as a part of the objective; at an objective of 0 only no gap at all is small."""
    if primal == 0:
        return 0.0 if gap <= 0 else math.inf
    return gap / abs(primal)


@dataclass(eq=False)
class Control:
    """Stopping rule, clock and callback of one training run."""

    tol: float = 1e-3
    max_iter: int | None = None
    time_limit: float | None = None
    callback: Callback | None = None
    started: float = field(default_factory=time.perf_counter)
    over: Callable[[], str | None] = lambda: None  # a further reason to end, asked first

    def part(
        self,
        *,
        tol: float | None = None,
        max_iter: int | None = None,
        callback: Callback | None = None,
        over: Callable[[], str | None] | None = None,
    ) -> Control:
        """The control of a part of this run: the same clock and end, limits and callback of its own.

        `tol`: this run's unless given. `over`: a further reason to end, asked first.
        """
        ends = self.out_of_time if over is None else lambda: over() or self.out_of_time()
        return Control(
            self.tol if tol is None else tol, max_iter, self.time_limit, callback, self.started, ends
        )

    def told(self, change: Callable[[Progress], Progress]) -> Callback | None:
        """This run's callback for a part that tells its progress in other words; None if there is none."""
        callback = self.callback
        return None if callback is None else lambda progress: callback(change(progress))

    def left(self, done: int, least: int = 0) -> int | None:
        """What is left of the iterations, if the user has limited them."""
        return None if self.max_iter is None else max(least, self.max_iter - done)

    def target(self, primal: float) -> float:
        """The absolute gap that is small enough at this objective."""
        return self.tol * abs(primal)

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
        late = self.time_limit is not None and self.seconds() >= self.time_limit
        return self.over() or (TIME_LIMIT if late else None)


class StallDetector:
    """Tells when a run has made no progress for too long: neither a larger bound nor a clearly smaller gap.

    The gap is looked at because it can still fall when the bound's last digits no longer change.
    """

    def __init__(self, patience: float, least: float = 1e-13, gap_part: float = 0.8):
        self.patience = patience  # iterations, or whatever `at` counts
        self.least = least  # part of the bound by which it must rise
        self.gap_part = gap_part  # part of the smallest gap to which the gap must fall
        self.restart(0)

    def restart(self, at: float) -> None:
        """Forget the past: the problem has changed."""
        self.bound, self.gap, self.since = -math.inf, math.inf, at

    def stalled(self, at: float, bound: float, gap: float) -> bool:
        if bound > self.bound + self.least * abs(bound):
            self.bound, self.since = bound, at
        if gap < self.gap_part * self.gap:
            self.gap, self.since = gap, at
        return at - self.since >= self.patience


def steps_to_come(done: float, before: float, now: float, target: float) -> float:
    """Steps until a gap falls to `target` if it goes on as it did from `before` to `now` in `done` steps.

    Infinity where the gap does not fall.
    """
    if now <= target:
        return 0.0
    if not 0 < now < before:
        return math.inf
    return done * math.log(now / target) / math.log(before / now)
