"""Working-set method for kernel machines: the loop. The mathematics is at the head of _working_set.pyx.

Each iteration takes the rows that promise most, together with a part of the last block (without which two
blocks can undo each other's work), solves them exactly enough, and updates all scores. The stopping test is
the relative duality gap on all rows.

Shrinking: rows that rest (at a = 0 strictly inside the band; SVM: at a bound) may be left out, with
everything that belongs to them: kernel rows get shorter, more of them fit into the cache. Their scores are
not known meanwhile, so the gap reported is infinite, and before the end they are computed again from all
duals. That costs one kernel value per support row and row left out; it is done only where the rows are
recomputed anyway (the cache does not hold them all) and enough iterations are still to come.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib._core.vectors import inner
from odmlib.errors import ParameterError
from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import HingeLoss, MarginLoss, MeanVarianceLoss
from odmlib.losses.sums import value_and_gap
from odmlib.solvers._working_set import WorkingSet, add_block
from odmlib.solvers.centre import MovingCentre
from odmlib.solvers.control import STALLED, Control, SolverResult, relative_gap

BLOCK_ROWS = 512  # rows of a block
FIRST_KINKED_ROWS = 128  # of SVM and ODM^L at first, where all kernel rows are there: most rows rest
FREE_PART = 0.5  # of a block: where more rows are inside of a piece, the next block is twice as large
KEPT = 0.5  # part of the last block that stays
BLOCK_FRACTION = 0.01  # a block is solved to this part of its gap ...
ENOUGH = 0.1  # ... or to this part of its share of the gap asked for
HELD_FACTOR = 1.2  # how much more a row is worth when its kernel row is at hand
TIE_BREAK = 0.01  # random part of a row's worth: at the start all rows are alike
STALL_ITERATIONS = 100  # without progress of the dual objective
STALL_PROGRESS = 1e-13  # relative
GAP_PROGRESS = 0.8  # to which part the gap must fall to count as progress
DUALITY_SLACK = 0.5  # by which a dual value may exceed a primal one before the kernel is to blame
FETCH_VALUES = 5e7  # kernel values computed between two looks at the clock
QUIET_ITERATIONS = 20  # in which a row must have had nothing to gain before it is left out
SHRINK_FROM = 0.25  # smallest part of the rows worth leaving out
ROUNDING = 2.0**-22  # of a float32 kernel value, with what its computation adds
SAFE_PART = 0.2  # part of the loss's curvature that rounding may eat up
SHRUNK_TOLERANCE = 0.8  # the rest is solved to this part of the tolerance, to be right for all rows


class BlockSteps:
    """Choosing and solving blocks of rows, whatever the state's scores come from."""

    def __init__(self, state: WorkingSet, size: int, worth: NDArray[np.float64]):
        self.state, self.size, self.worth = state, size, worth
        self.m = len(worth)
        self.last = np.empty(0, dtype=np.int64)  # the last block, rows to keep first
        self.is_last = np.zeros(self.m, dtype=bool)  # the same, by row

    def choose(self) -> NDArray[np.int64]:
        """The next block, ascending: a part of the last one and the rows of largest gain."""
        gains = self.state.gains
        np.multiply(gains, self.worth, out=gains)
        self.state.prefer_held(HELD_FACTOR)
        if self.size >= self.m:
            return np.arange(self.m)
        kept = self.last[: int(KEPT * self.size)]
        gains[kept] = -1.0
        n_new = self.size - len(kept)
        best = np.argpartition(gains, -n_new)[-n_new:]
        return np.sort(np.concatenate([kept, best[gains[best] > 0]]))

    def solve(self, block: NDArray[np.int64], enough: float, control: Control) -> str | None:
        """Solve one block; a status when the time was over before it was done (then nothing has changed)."""
        step = _rows_at_a_time(self.m)
        for begin in range(0, len(block), step):
            self.state.prefetch(block[begin : begin + step])
            status = control.out_of_time()
            if status is not None:
                return status
        self.state.begin(block, BLOCK_FRACTION, enough)
        while not self.state.improve():
            status = control.out_of_time()
            if status is not None:
                return status
        self.state.commit()
        if self.size < self.state.most_rows and self.state.n_inside() > FREE_PART * self.size:
            self.size = min(2 * self.size, self.state.most_rows)
        # rows with a part in the solution, the latest ones first, stay longest
        known = self.is_last[block]
        order = np.concatenate([block[~known], block[known]])
        self.is_last[self.last] = False
        self.last = order[np.argsort(self.state.duals[order] == 0, kind="stable")]
        self.is_last[self.last] = True
        return None


class _Phase(BlockSteps):
    """The problem on all rows, or (shrunk) on some of them: its solver state, cache and record."""

    def __init__(self, run: _Run, rows: NDArray[np.int64] | None):
        self.rows = rows  # None: all
        some = slice(None) if rows is None else rows
        self.kernel = run.kernel if rows is None else run.kernel.restricted(rows)
        self.cache = run.shared if rows is None and run.shared is not None else run.new_cache(self.kernel)
        self.m = self.kernel.n_rows
        self.y, self.costs, self.smooth = run.y[some], run.costs[some], run.loss.smooth
        self.conjugates_left_out, self.support_left_out = 0.0, 0
        most = max(1, min(BLOCK_ROWS, self.m, self.cache.capacity))
        first = most if self.smooth or not self.cache.frozen else min(most, FIRST_KINKED_ROWS)
        state = WorkingSet(
            self.cache, run.loss, self.y.copy(), self.costs.copy(), run.threads, run.seed, most
        )
        super().__init__(state, first, run.worth[some])
        self.quiet = np.zeros(self.m, dtype=np.int32)  # iterations since a row had something to gain
        self.gaps: list[float] = []

    def half_square(self) -> float:
        """1/2 |w|^2, on some rows: from what it was when the others were left out."""
        duals, scores = self.state.duals, self.state.scores
        if self.rows is None:
            return 0.5 * inner(self.y * duals, scores)
        return self.first_half_square + 0.5 * inner(
            self.y * (duals - self.first_duals), scores + self.first_scores
        )

    def resume(self, duals: NDArray[np.float64], scores: NDArray[np.float64], half_square: float) -> None:
        """Go on from a known point; `half_square` is that of all rows."""
        self.state.resume(duals, scores)
        self.first_duals, self.first_scores, self.first_half_square = duals, scores, half_square

    def measure(self) -> tuple[float, float]:
        """(primal, gap) of all rows; or of those at work, with the others' part such that primal - gap is the
        dual value of all: -sum (conj_i + a_i z_i) over the others, and |w|^2 = sum a_i z_i over all rows."""
        primal, gap = self.state.measure()
        if self.rows is not None:
            own = 0.5 * inner(self.y * self.state.duals, self.state.scores)
            primal += own - self.half_square() - self.conjugates_left_out
        return primal, gap

    def note(self, gap: float) -> None:
        """Record what measure() said, before the gains are changed."""
        self.gaps.append(gap)
        resting = (self.state.gains == 0) & (self.state.duals == 0 if self.smooth else True)
        self.quiet += 1
        self.quiet[~resting] = 0

    def rows_to_leave_out(self, target: float) -> NDArray[np.int64] | None:
        """Rows of this phase that rest, if leaving them out pays: see the head of this file."""
        done = len(self.gaps) - 1
        if self.cache.capacity >= self.m or done < 2 * QUIET_ITERATIONS or done % QUIET_ITERATIONS:
            return None
        resting = np.flatnonzero(self.quiet >= QUIET_ITERATIONS)
        before, now = self.gaps[-1 - QUIET_ITERATIONS], self.gaps[-1]
        if len(resting) < SHRINK_FROM * self.m or not target < now < before:
            return None
        to_come = QUIET_ITERATIONS * math.log(now / target) / math.log(before / now)
        saved = to_come * self.cache.misses / done * len(resting)
        restoring = (np.count_nonzero(self.state.duals) + self.support_left_out) * len(resting)
        refilling = self.cache.capacity * (self.m - len(resting))
        return resting if saved > restoring + refilling else None


class _Run:
    """One call of solve_working_set."""

    def __init__(
        self,
        kernel: Kernel,
        y: NDArray[np.float64],
        costs: NDArray[np.float64],
        loss: MarginLoss,
        cache_bytes: int,
        threads: int,
        seed: int,
        shared: RowCache | None,
    ):
        m = kernel.n_rows
        self.kernel, self.loss = kernel, loss
        self.y, self.costs = _checked("y", y, m), _checked("costs", costs, m)
        self.cache_bytes, self.threads, self.seed = cache_bytes, threads, seed
        self.wide = float32_is_too_coarse(kernel, stiffness(loss) * self.costs)
        if shared is not None and shared.wide:
            self.wide = True  # more than needed does no harm
        self.shared = shared if shared is not None and shared.wide == self.wide else None
        self.counted = (0, 0) if self.shared is None else (self.shared.hits, self.shared.misses)
        self.left_out_duals = np.zeros(m)
        self.worth = 1 + TIE_BREAK * np.random.default_rng(seed).random(m)
        self.counts = {"cache_hits": 0, "cache_misses": 0, "newton_steps": 0, "sweeps": 0, "shrinkings": 0}
        self.phase = _Phase(self, None)

    def new_cache(self, kernel: Kernel) -> RowCache:
        if self.shared is not None:
            self.shared.release()  # the two together must not take more than one may
        return RowCache(kernel, self.cache_bytes, self.wide)

    def close_phase(self) -> None:
        """Add up what the phase did; its cache goes before the next one is made."""
        phase = self.phase
        before = self.counted if phase.cache is self.shared else (0, 0)
        self.counts["cache_hits"] += phase.cache.hits - before[0]
        self.counts["cache_misses"] += phase.cache.misses - before[1]
        if phase.cache is self.shared:
            self.counted = phase.cache.hits, phase.cache.misses
        self.counts["newton_steps"] += phase.state.newton_steps
        self.counts["sweeps"] += phase.state.sweeps
        del self.phase

    def begin_from(
        self, start: NDArray[np.float64], scores: NDArray[np.float64] | None, control: Control
    ) -> str | None:
        """Add the starting duals, some rows at a time; a status when the time is over before that.

        `scores` are theirs, where known: then nothing is computed."""
        start = _checked("start", start, self.kernel.n_rows)
        if scores is not None:
            self.phase.state.resume(start, _checked("start_scores", scores, self.kernel.n_rows))
            return None
        rows = np.flatnonzero(start)
        step = min(self.phase.size, _rows_at_a_time(self.phase.m))
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            self.phase.state.add_rows(some, start[some])
            status = control.out_of_time()
            if status is not None:
                return status
        return None

    def shrink(self, left_out: NDArray[np.int64]) -> None:
        phase = self.phase
        rows = np.arange(phase.m) if phase.rows is None else phase.rows
        kept = np.setdiff1d(np.arange(phase.m), left_out, assume_unique=True)
        duals, scores, half_square = phase.state.duals[kept], phase.state.scores[kept], phase.half_square()
        leaving, zeros = phase.state.duals[left_out], np.zeros(len(left_out))
        losses, gaps = value_and_gap(self.loss, leaving, zeros, phase.costs[left_out], self.threads)
        conjugates = phase.conjugates_left_out + gaps - losses  # at margin 0 a gap is loss + conjugate
        self.left_out_duals[rows[left_out]] = leaving
        rows = rows[kept]
        self.close_phase()
        del phase
        self.phase = _Phase(self, rows)
        self.phase.resume(duals, scores, half_square)
        self.phase.conjugates_left_out = conjugates
        self.phase.support_left_out = int(np.count_nonzero(self.left_out_duals))
        self.counts["shrinkings"] += 1

    def restore(self) -> None:
        """Back to all rows; the scores of those left out are computed from all duals."""
        phase, m = self.phase, self.kernel.n_rows
        assert phase.rows is not None
        duals, scores = self.left_out_duals, np.zeros(m)
        self.left_out_duals = np.zeros(m)
        duals[phase.rows], scores[phase.rows] = phase.state.duals, phase.state.scores
        left_out = np.setdiff1d(np.arange(m), phase.rows, assume_unique=True)
        self.close_phase()
        del phase
        columns = self.kernel.restricted(left_out)
        sums = np.zeros(len(left_out))
        support = np.flatnonzero(duals)
        step = min(BLOCK_ROWS, _rows_at_a_time(len(left_out)))
        for begin in range(0, len(support), step):
            some = support[begin : begin + step]
            add_block(
                self.kernel.block(some, onto=columns, wide=self.wide),
                (duals * self.y)[some],
                sums,
                self.threads,
            )
        scores[left_out] = sums
        self.phase = _Phase(self, None)
        self.phase.state.resume(duals, scores)


class Watch:
    """Whether the run gets anywhere, and the point of smallest gap so far."""

    def __init__(self) -> None:
        self.best_dual, self.best_iteration = -math.inf, 0
        self.least_primal = self.least_gap = math.inf
        self.best: tuple[float, float, NDArray[np.float64], NDArray[np.float64]] | None = None

    def keep_best(self, gap: float, primal: float, state: WorkingSet) -> None:
        if self.best is None or gap < self.best[0]:
            self.best = gap, primal, state.duals.copy(), state.scores.copy()

    def diverged(self, primal: float, gap: float) -> bool:
        """With a positive semidefinite kernel no dual value lies above any primal value."""
        dual = primal - gap
        if not (math.isfinite(primal) and math.isfinite(dual)):
            return True
        self.least_primal = min(self.least_primal, primal)
        return dual > self.least_primal + DUALITY_SLACK * max(1.0, abs(self.least_primal))

    def stalled(self, dual: float, gap: float, iteration: int) -> bool:
        if dual > self.best_dual + STALL_PROGRESS * max(1.0, abs(dual)):
            self.best_dual, self.best_iteration = dual, iteration
        if (
            gap < GAP_PROGRESS * self.least_gap
        ):  # a hinge's gap still falls when the dual's last digits do not
            self.least_gap, self.best_iteration = gap, iteration
        return iteration - self.best_iteration >= STALL_ITERATIONS

    def return_to_best(self, run: _Run) -> tuple[str, float, float]:
        """Status, gap and primal of the best point, which becomes the present one."""
        assert self.best is not None  # the first measurement, at the start or at 0, is of all rows
        gap, primal, duals, scores = self.best
        if run.phase.rows is not None:
            run.close_phase()
            run.left_out_duals = np.zeros(len(duals))
            run.phase = _Phase(run, None)
        run.phase.state.resume(duals, scores)
        return STALLED, gap, primal


def solve_working_set(
    kernel: Kernel,
    y: NDArray[np.float64],
    costs: NDArray[np.float64],
    loss: MarginLoss,
    control: Control,
    *,
    cache_bytes: int,
    shrinking: bool = True,
    threads: int = 1,
    seed: int = 0,
    start: NDArray[np.float64] | None = None,
    start_scores: NDArray[np.float64] | None = None,
    cache: RowCache | None = None,
    centre: MovingCentre | None = None,
) -> SolverResult:
    """Minimise 1/2 a'Qa + sum conj_i(a_i) over the signed duals a; Q_ij = y_i y_j k_ij, y = +-1.

    `start`: duals to begin from, `start_scores`: f of all rows under them, where known. At most `cache_bytes`
    are spent on kernel rows. `cache`: rows of this kernel that other problems leave behind or share, taken
    where they are exact enough. `centre`: of
    ODM^L, whose gap then is the one that counts; none of its rows ever rests, so all phases are of all rows.
    """
    run = _Run(kernel, y, costs, loss, cache_bytes, threads, seed, cache)
    m = kernel.n_rows
    shrinking = shrinking and kernel.formula.name != "precomputed"
    status = run.begin_from(start, start_scores, control) if start is not None else None
    own_limit = max(10_000, 100 * m)
    watch = Watch()
    iteration = 0
    while True:
        phase = run.phase
        primal, gap = phase.measure()
        whole = phase.rows is None
        dual = primal - gap
        if centre is not None:
            fixed_gap = gap
            primal, gap = centre.measure(phase.state.duals, run.y * phase.state.scores, phase.half_square())
        if whole:
            watch.keep_best(gap, primal, phase.state)
        if (centre is None or math.isfinite(gap)) and watch.diverged(primal, gap):
            # where the kernel is not positive semidefinite there may be no minimum: the best point seen
            status, gap, primal = watch.return_to_best(run)
            phase = run.phase
            break
        status = control.step(iteration, primal, gap if whole else math.inf, own_limit) or status
        if status is None and watch.stalled(dual, gap, iteration):
            status = STALLED
        if whole and status is not None:
            break
        target = control.tol * max(1.0, abs(primal))
        if status is not None or (not whole and gap <= SHRUNK_TOLERANCE * target):
            del phase  # its cache must be gone before the next one fills
            run.restore()
            continue
        if centre is not None and centre.move(fixed_gap):
            phase.measure()  # what each row can gain is another matter now
            watch.best_dual = -math.inf  # so is the dual value
        phase.note(gap)
        left_out = phase.rows_to_leave_out(target) if shrinking else None
        if left_out is not None:
            del phase
            run.shrink(left_out)
            continue
        status = phase.solve(phase.choose(), ENOUGH * target * phase.size / phase.m, control)
        if status is None:
            iteration += 1
    run.close_phase()
    return SolverResult(
        status=status,
        primal=primal,
        dual=primal - gap,
        gap=relative_gap(primal, gap),
        iterations=iteration,
        solver="working-set",
        duals=phase.state.duals,
        margins=run.y * phase.state.scores,
        details={
            **run.counts,
            "cache_rows": phase.cache.capacity,
            "block_rows": phase.size,
            "float64": run.wide,
            **({} if centre is None else {"centre": centre.mean, "moves": centre.moves}),
        },
    )


def float32_is_too_coarse(kernel: Kernel, costs: NDArray[np.float64]) -> bool:
    """Whether rounding the kernel matrix to float32 can make the dual problem lose its convexity.

    Rounding moves the eigenvalues by about 2^-24 sqrt(m) times the largest entry; the loss adds 1 / (2 cost).
    """
    if kernel.n_rows == 0:
        return False
    moved = ROUNDING * math.sqrt(kernel.n_rows) * float(np.abs(kernel.diagonal()).max())
    return 2 * float(costs.max()) * moved > SAFE_PART


def best_multiple_of(
    duals: NDArray[np.float64], margins: NDArray[np.float64], costs: NDArray[np.float64], loss: MarginLoss
) -> float:
    """The t >= 0 with the largest dual value -1/2 t^2 a'Qa - sum conj_i(t a_i); `margins` are those of a.

    The conjugates are taken as a quadratic in t through 0, which they are for ODM and, as far as they are
    finite, for SVM. 0 where nothing is known.
    """
    square = inner(duals, margins)
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = (
            1.0
            if loss.smooth
            else float(np.nanmin(np.where(duals > 0, costs / duals, np.inf), initial=np.inf))
        )
    if not (math.isfinite(largest) and largest > 0 and square > 0):
        return 0.0
    whole, half = (_conjugates(t * largest * duals, costs, loss) for t in (1.0, 0.5))
    slope, bend = 4 * half - whole, 4 * whole - 8 * half + largest**2 * square
    if not (math.isfinite(whole) and slope < 0 < bend):
        return 0.0
    t = -slope / bend
    return largest * (t if loss.smooth else min(t, 1.0))


def _conjugates(duals: NDArray[np.float64], costs: NDArray[np.float64], loss: MarginLoss) -> float:
    """sum_i conj_i(a_i): at margin 0 the gap's summands are loss_i(0) + conj_i(a_i)."""
    losses, total = value_and_gap(loss, duals, np.zeros_like(duals), costs, 1)
    return total - losses


def stiffness(loss: MarginLoss) -> float:
    """What a row's cost is multiplied by in the steepest part of its loss."""
    return max(loss.variance, loss.hinge) if isinstance(loss, (HingeLoss, MeanVarianceLoss)) else 1.0


def _rows_at_a_time(n_columns: int) -> int:
    """Kernel rows between two looks at the clock."""
    return max(64, int(FETCH_VALUES / max(1, n_columns)))


def _checked(name: str, values: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.shape != (m,):
        raise ParameterError(f"{name} must hold one number for each of {m} rows, found shape {values.shape}")
    return values
