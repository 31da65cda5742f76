"""Where a kernel has little rank, its machine is trained as a linear one first, and begins at those duals.

Pivoted Cholesky (landmarks.py) gives every row r features, K = G G' + R with R positive semidefinite.
Newton's method trains on G, for about two Hessians of m r^2 / 2 multiply-adds. The working set starts from
the duals that it ends with. It computes their scores from K itself, and goes on where the gap is too large:
the result is certified as any other. A factor serves all C and all folds, so a search has it for nearly
nothing.

How small R must be: at the optimum a_i^2 <= 4 cost_i loss_i, so that sum a_i^2 <= 4 cost P. The duals on G
are worth about a'Ra less than the best ones. That is sum R_ii a_i^2 <= max R_ii 4 cost P as long as rows
differ from each other by more than R. Where they do not, blocks make up for it.

Whether it pays: blocks take every row twice or more, 2 m / 512 blocks of 512 m multiply-adds for the scores
and `sweeps` 512^2 for their solution. Newton's m r^2 are fewer for  r^2 < 2 (m + 512 sweeps).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.rows import Rows
from odmlib.data.dataset import dense_rows
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.distributed.landmarks import NystromTuning, choose_landmarks, rows_to_search
from odmlib.solvers.kernel.precision import EXACT_ROWS
from odmlib.solvers.linear.newton import solve_newton
from odmlib.solvers.problem import KernelProblem, LinearProblem


@dataclass(frozen=True)
class LowRankTuning:
    # of the tolerance over the cost: what may be left of a squared length. 1/64, 1/16, 1/4 and 1 took 0.41,
    # 0.38, 0.37 and 0.38 of the time of a search without features (svmguide1, gamma 2^-13 to 2^-1), and 0.84,
    # 0.82, 0.77 and 0.75 (SUSY)
    part: float = 1 / 4
    sweeps: float = 20.0  # over a block, with what else its solution takes; 10 and 40 took as long
    block_rows: int = 512
    # of the tolerance, to which Newton's method solves. 0.5 and 0.02 took as long, 1e-3 and 1e-6 1.16 times
    # as long (svmguide1)
    newton_part: float = 0.1
    rounding: float = 1e-13  # of the largest k(x, x): what the sums of a factor leave of 0
    kept: int = 2  # factors of different ranks: folds side by side may be at different C

    def most_rank(self, n_rows: int) -> int:
        """The largest rank that pays."""
        return int(min(math.sqrt(2 * (n_rows + self.block_rows * self.sweeps)), n_rows / 8))

    def allowed(self, cost: float, tol: float) -> float:
        """What may be left of the squared length of a row."""
        return self.part * tol / cost if cost > 0 else math.inf


TUNING = LowRankTuning()
# of large data, on which the rank is judged first: in vain, a search among all rows of phishing took a fifth
# as long as training
SAMPLE = NystromTuning(sample_rows=1000, sample_per_landmark=4)
BYTES_PER_FEATURE = 50  # of a row: the factor, its transpose while it is made, and two sets of sparse rows
PART_OF_MEMORY = 1 / 4


class LowRank:
    """The features of a kernel, found when they are first asked for; threads may share them."""

    def __init__(
        self,
        kernel: Kernel,
        costs: tuple[float, float],
        tol: float,
        memory: int,
        tuning: LowRankTuning = TUNING,
    ):
        """They serve problems whose largest cost is between these two, and take a part of the memory."""
        self.kernel, self.tuning = kernel, tuning
        fitting = int(PART_OF_MEMORY * memory) // (BYTES_PER_FEATURE * max(1, kernel.n_rows))
        self.most_rank = min(tuning.most_rank(kernel.n_rows), fitting)
        self.goal, self.least = (tuning.allowed(cost, tol) for cost in costs)
        self.lock = threading.Lock()
        self.factor: Floats | None = None
        self.left = np.empty(0)  # the largest squared length left by the first 0, 1, ... features

    @property
    def most_bytes(self) -> int:
        """What they may take."""
        return self.most_rank * self.kernel.n_rows * BYTES_PER_FEATURE

    def restricted(self, rows: Places) -> Features:
        """Those of some of the rows."""
        return Features(self, rows)

    def first(self, allowed: float, most: int, out_of_time: Callable[[], object]) -> Floats | None:
        """As many features, at most so many, as leave no more than that."""
        with self.lock:
            factor = self._find(out_of_time) if self.factor is None else self.factor
        enough = np.flatnonzero(self.left <= allowed)
        if len(enough) == 0 or not 0 < enough[0] <= most:
            return None
        return factor[:, : enough[0]]

    def _find(self, out_of_time: Callable[[], object]) -> Floats:
        kernel = self.kernel
        largest = float(kernel.diagonal().max(initial=0.0))
        goal, least = (part / largest if largest > 0 else math.inf for part in (self.goal, self.least))
        most, least = self.most_rank, max(least, self.tuning.rounding)
        goal = min(goal, 1.0)
        some = rows_to_search(kernel.n_rows, most, 0, SAMPLE)
        if 2 * len(some) <= kernel.n_rows:  # what some rows are too many for, all are
            judged = choose_landmarks(kernel.restricted(some), most, out_of_time, goal, goal)
            if judged.residual.max(initial=0.0) > goal * largest:
                self.factor = np.empty((kernel.n_rows, 0))
                self.left = np.array([largest])
                return self.factor
        found = choose_landmarks(kernel, most, out_of_time, least, goal)
        self.left = np.append(found.pivots, found.residual.max(initial=0.0))
        self.factor = found.factor
        return found.factor


class Features:
    """The features of the rows of one problem, and the start that they give it."""

    def __init__(self, whole: LowRank, places: Places | None = None):
        self.whole, self.places, self.tuning = whole, places, whole.tuning
        self.lock = threading.Lock()
        self.known: dict[int, Rows] = {}  # by rank

    def start(
        self, problem: KernelProblem, control: Control, resources: Resources, start: WarmStart | None
    ) -> WarmStart | None:
        """Duals to begin with; `start` itself where the rank is too large."""
        n_rows = problem.kernel.n_rows
        cost = float(problem.costs.max(initial=0.0))
        if n_rows <= EXACT_ROWS or not problem.loss.smooth or not cost > 0:
            return start
        tuning = self.tuning
        allowed, most = tuning.allowed(cost, control.tol), tuning.most_rank(n_rows)
        factor = self.whole.first(allowed, most, control.out_of_time)
        if factor is None:
            return start
        linear = LinearProblem(self._rows(factor), problem.y, problem.costs, problem.loss, problem.targets)
        begin = None
        if start is not None and start.duals is not None:
            begin = WarmStart(linear.weights_of(start.duals, resources.threads))
        part = control.part(tol=tuning.newton_part * control.tol)
        found = solve_newton(linear, part, resources, begin)
        return WarmStart(duals=linear.duals_of(found.margins, resources.threads))

    def _rows(self, factor: Floats) -> Rows:
        with self.lock:
            rank = factor.shape[1]
            if rank not in self.known:
                while len(self.known) >= self.tuning.kept:
                    del self.known[min(self.known)]
                self.known[rank] = Rows(dense_rows(factor if self.places is None else factor[self.places]))
            return self.known[rank]
