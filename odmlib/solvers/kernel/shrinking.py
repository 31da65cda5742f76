"""Shrinking: the working-set method on the rows that still change.

Rows that rest (at a = 0 strictly inside the band; SVM: at a bound) may be left out, with everything that
belongs to them: kernel rows get shorter, more of them fit into the cache. Their scores are not known
meanwhile, so the gap reported is infinite, and before the end they are computed again from all duals. That
costs one kernel value per support row and row left out; it is done only where the rows are recomputed anyway
(the cache does not hold them all) and enough iterations are still to come.
"""

from __future__ import annotations

import math

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.vectors import inner
from odmlib.errors import ParameterError
from odmlib.kernels.cache import RowCache, bytes_for_two
from odmlib.solvers.control import STOPPED, TIME_LIMIT, Control, Resources, steps_to_come
from odmlib.solvers.kernel.block_steps import BlockSteps, WorkingSetTuning, parts
from odmlib.solvers.kernel.certificate import Base, Drift, Scores, exact_scores, known_scores, rounding
from odmlib.solvers.kernel.precision import cache_for, margins_need_float64
from odmlib.solvers.kernel.q_rows import KernelRows, add_block
from odmlib.solvers.problem import KernelProblem, conjugates


class RowsAtWork(BlockSteps):
    """The problem on all rows, or on those that were not left out: its state, its cache and its record."""

    def __init__(
        self,
        problem: KernelProblem,
        rows: Places | None,
        cache: RowCache,
        worth: Floats,
        resources: Resources,
        tuning: WorkingSetTuning,
    ):
        self.rows = rows  # None: all
        self.y, self.costs, self.targets = problem.y, problem.costs, problem.targets
        self.cache, self.counted = cache, (cache.hits, cache.misses)
        q = KernelRows(cache, max(1, min(tuning.block_rows, cache.n_columns)), resources.threads)
        # one block that holds all rows makes them exact
        size = tuning.first_rows if cache.n_columns > tuning.block_rows else tuning.block_rows
        super().__init__(q, problem, worth, resources.seed, tuning, size)
        self.conjugates_left_out, self.support_left_out = 0.0, 0
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

    def resume(self, duals: Floats, scores: Floats, half_square: float) -> None:
        """Go on from a known point; `half_square` is that of all rows."""
        self.go_to(duals, scores)
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
        """Record what measure() said, before the gains are changed; only shrinking asks for it."""
        if self.cache.capacity >= self.m:
            return
        self.gaps.append(gap)
        resting = (self.state.gains == 0) & (self.state.duals == 0 if self.smooth else True)
        self.quiet += 1
        self.quiet[~resting] = 0

    def rows_to_leave_out(self, target: float) -> Places | None:
        """Rows at work that rest, if leaving them out pays: see the head of this file."""
        done, quiet = len(self.gaps) - 1, self.tuning.quiet_iterations
        if self.cache.capacity >= self.m or done < 2 * quiet or done % quiet:
            return None
        resting = np.flatnonzero(self.quiet >= quiet)
        to_come = steps_to_come(quiet, self.gaps[-1 - quiet], self.gaps[-1], target)
        if len(resting) < self.tuning.shrink_from * self.m or not 0 < to_come < math.inf:
            return None
        saved = to_come * self.cache.misses / done * len(resting)
        restoring = (np.count_nonzero(self.state.duals) + self.support_left_out) * len(resting)
        refilling = self.cache.capacity * (self.m - len(resting))
        return resting if saved > restoring + refilling else None


class ShrinkingProblem:
    """A problem whose resting rows can be left out and brought back; `now` are the rows at work."""

    def __init__(self, problem: KernelProblem, resources: Resources, tuning: WorkingSetTuning, tol: float):
        m, shared = problem.kernel.n_rows, resources.cache
        y, costs = checked("y", problem.y, m), checked("costs", problem.costs, m)
        targets = None if problem.targets is None else checked("targets", problem.targets, m)
        self.problem = KernelProblem(problem.kernel, y, costs, problem.loss, targets)
        self.resources, self.tuning = resources, tuning
        self.float64 = margins_need_float64(problem.kernel, costs, problem.loss, tol)
        first = cache_for(problem.kernel, resources, self.float64)
        self.shared, self.float64 = first if first is shared else None, first.wide
        self.left_out_duals = np.zeros(m)
        self.untidy = False  # of the last rows at work, which the next ones take over
        self.base, self.drift = Base.nothing(m), Drift()
        self.known: Scores | None = None  # what is certified of the scores
        self.worth = tuning.worth(m, resources.seed)
        self.counts = {"cache_hits": 0, "cache_misses": 0, "newton_steps": 0, "sweeps": 0, "shrinkings": 0}
        self.now = self._at_work(None, first)

    def _at_work(self, rows: Places | None, cache: RowCache | None = None) -> RowsAtWork:
        problem, worth = self.problem, self.worth
        if rows is not None:
            problem, worth = problem.restricted(rows), worth[rows]
        cache = cache or self.shared
        if rows is not None or cache is None:
            if cache is not None:
                cache.release()  # the two together must not take more than one may
            cache = RowCache(problem.kernel, self.resources.cache_bytes, self.float64)
        at_work = RowsAtWork(problem, rows, cache, worth, self.resources, self.tuning)
        at_work.past.untidy = self.untidy
        return at_work

    def close(self) -> None:
        """Add up what was done on the rows at work; their cache goes before the next one is made."""
        now = self.now
        self.counts["cache_hits"] += now.cache.hits - now.counted[0]
        self.counts["cache_misses"] += now.cache.misses - now.counted[1]
        self.counts["newton_steps"] += now.state.newton_steps
        self.counts["sweeps"] += now.state.sweeps
        self.drift = self.drift.plus(now.state)
        self.untidy = now.past.untidy
        del self.now

    def start(self, duals: Floats, scores: Floats | None, control: Control) -> str | None:
        """Add the starting duals, some rows at a time; a status when the time is over before that.

        `scores` are theirs, where known: then nothing is computed."""
        now = self.now
        duals = checked("start", duals, now.m)
        if scores is None:
            return now.add(duals, control)
        now.go_to(duals, checked("start_scores", scores, now.m))
        self.base = Base.rough(self.problem, duals)
        return None

    def shrink(self, left_out: Places) -> None:
        """Leave out some of the rows at work."""
        now = self.now
        rows = np.arange(now.m) if now.rows is None else now.rows
        kept = np.setdiff1d(np.arange(now.m), left_out, assume_unique=True)
        duals, scores, half_square = now.state.duals[kept], now.state.scores[kept], now.half_square()
        leaving = now.state.duals[left_out]
        targets = None if now.targets is None else now.targets[left_out]
        gone = now.conjugates_left_out + conjugates(
            self.problem.loss, now.costs[left_out], leaving, self.resources.threads, targets
        )
        self.left_out_duals[rows[left_out]] = leaving
        self.close()
        del now
        self.now = self._at_work(rows[kept])
        self.now.resume(duals, scores, half_square)
        self.now.conjugates_left_out = gone
        self.now.support_left_out = int(np.count_nonzero(self.left_out_duals))
        self.counts["shrinkings"] += 1

    def restore(self) -> None:
        """Back to all rows; the scores of those left out are computed from all duals."""
        rows, kernel = self.now.rows, self.problem.kernel
        if rows is None:
            return
        duals, scores = self.left_out_duals, np.zeros(kernel.n_rows)
        duals[rows], scores[rows] = self.now.state.duals, self.now.state.scores
        left_out = np.setdiff1d(np.arange(kernel.n_rows), rows, assume_unique=True)
        self.close()
        columns, sums = kernel.restricted(left_out), np.zeros(len(left_out))
        factors = duals * self.problem.y
        for some in parts(np.flatnonzero(duals), len(left_out), self.tuning.block_rows):
            block = kernel.block(some, onto=columns, wide=self.float64)
            add_block(block, factors[some], sums, self.resources.threads)
        scores[left_out] = sums
        self._all_rows_at(duals, scores)

    def return_to(self, duals: Floats, scores: Floats) -> None:
        """Back to a point of all rows that was met before."""
        if self.now.rows is None:
            self.now.go_to(duals, scores)
        else:
            self.close()
            self._all_rows_at(duals, scores)

    def take_known(self) -> None:
        """Certify the scores as the run has them: no work, and exact enough where duals are small."""
        state = self.now.state
        drift = self.drift.plus(state)
        self._take(known_scores(self.problem, state.duals, state.scores, self.float64, self.base, drift))

    def certify(self, status: str, control: Control) -> bool:
        """Compute the scores anew in float64, if there is time; whether that was done."""
        state, threads = self.now.state, self.resources.threads
        if status in (TIME_LIMIT, STOPPED):
            return False
        cache = self.now.cache if self.float64 else None
        exact = exact_scores(self.problem, state.duals, self.known, control, threads, cache)
        if exact is None:
            return False
        self._take(exact)
        self.base = Base(exact.errors, np.abs(state.duals))
        self.drift = Drift(-state.additions, -state.travel)  # counted from here
        self.now.go_to(state.duals, exact.values)
        return True

    def _take(self, known: Scores) -> None:
        self.known = known
        self.known_rounding = rounding(self.problem, self.now.state.duals, known)

    def rounding(self) -> tuple[float, float]:
        """By how much rounding of the certified scores may raise the objective, and lower the dual value."""
        return self.known_rounding

    def use_float64(self) -> bool:
        """Go on from here with rows of float64; false where they are in use or the memory is too small."""
        if self.float64 or self.resources.cache_bytes < bytes_for_two(self.problem.kernel.n_rows, True):
            return False
        duals, scores = self.now.state.duals, self.now.state.scores
        self.close()
        self.float64, self.shared = True, None
        self._all_rows_at(duals, scores)
        return True

    def _all_rows_at(self, duals: Floats, scores: Floats) -> None:
        self.left_out_duals = np.zeros(len(duals))
        self.now = self._at_work(None)
        self.now.state.resume(duals, scores)


def checked(name: str, values: Floats, m: int) -> Floats:
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.shape != (m,):
        raise ParameterError(f"{name} must hold one number for each of {m} rows, found shape {values.shape}")
    return values
