"""Linear multi-class ODM, all classes in one problem (problem.py): f_il = <w_l, x_i>

The convex problems: coordinate ascent on the dual, one row with all its multipliers at a time
(class_block.h), rows that are calm pausing and, of many classes, the best ones looked at (list_classes in
mcodm_loops.h); then, where that is cheaper (hand_over.py), the proximal Newton method of newton.py. Early
ones are solved roughly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.solvers.control import (
    CONVERGED,
    STALLED,
    Control,
    Resources,
    SolverResult,
    WarmStart,
    steps_to_come,
)
from odmlib.solvers.multiclass._mcodm import LinearState
from odmlib.solvers.multiclass.certificate import COARSE_PART, SMALL_PART, of_weights
from odmlib.solvers.multiclass.hand_over import TUNING as HAND_OVER
from odmlib.solvers.multiclass.hand_over import HandOver, HandOverTuning
from odmlib.solvers.multiclass.newton import TUNING as PROXIMAL
from odmlib.solvers.multiclass.newton import ProximalNewton, ProximalTuning
from odmlib.solvers.multiclass.problem import OUTER, Certificate, McodmProblem, OuterLoop, OuterTuning


@dataclass(frozen=True)
class McodmLinearTuning:
    warm_up_epochs: int = 5  # with beta = 0, before the first q is taken; the least before Newton's method
    max_epochs: int = 10_000
    slice_values: int = 20_000_000  # weights read between two looks at the clock
    rebuild_visits: float = 50.0  # of every row, after which w is made anew of the multipliers
    first_check: float = 1.0  # visits of every row before the first certificate on a new q
    least_between_checks: float = 0.7  # visits of every row between two certificates
    most_between_checks: float = 6.0
    listed_classes: int = 64  # with so many classes most visits look at a few of them only
    listed_patience: float = 6.0  # times as many visits between certificates then: they look at all classes
    max_proximal_steps: int = 500
    least_precision: float = 1e-12
    slow_precision: float = 0.01  # the least one while t is above its usual value
    enough: float = 0.5  # part of the gap wanted (or there already) that a proximal step's error may have
    rough_steps: int = 3  # proximal steps that end where w is about right: q will move it anyway
    eager_steps: int = 20  # proximal steps after which q is taken anew whatever the gap; J falls all the same
    outer: OuterTuning = OUTER
    hand_over: HandOverTuning = HAND_OVER
    proximal: ProximalTuning = PROXIMAL


TUNING = McodmLinearTuning()


def solve_mcodm_linear(
    problem: McodmProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: McodmLinearTuning = TUNING,
    *,
    solver: str = "auto",
    shrinking: bool = True,
) -> SolverResult:
    """Train a linear machine; the weights of the result, and of the start, are columns x classes."""
    run = _Run(problem, control, resources, tuning, shrinking)
    return run.solve(None if start is None else start.weights, solver)


class CheckPlan:
    """When coordinate ascent looks at its certificate, which costs half an epoch, or more (`patience`).

    Where the gap, falling as it did between the last two looks, would meet its tolerance. Counted in visits
    of every row: rows pause, so epochs get shorter.
    """

    def __init__(self, tuning: McodmLinearTuning = TUNING, patience: float = 1.0) -> None:
        self.tuning, self.patience = tuning, patience
        self.restart(0.0)

    def restart(self, visits: float) -> None:
        self.next = visits + self.patience * self.tuning.first_check
        self.gap, self.at = math.inf, visits

    def plan(self, visits: float, gap: float, tolerance: float) -> None:
        wait = steps_to_come(visits - self.at, self.gap, gap, tolerance) if self.gap < math.inf else math.inf
        if wait == math.inf:  # nothing to go by
            wait = 2 * self.patience * self.tuning.first_check
        least = self.patience * self.tuning.least_between_checks
        most = self.patience * self.tuning.most_between_checks
        self.next = visits + min(most, max(least, wait))
        self.gap, self.at = gap, visits


class _Run:
    """One call of solve_mcodm_linear."""

    def __init__(
        self,
        problem: McodmProblem,
        control: Control,
        resources: Resources,
        tuning: McodmLinearTuning,
        shrinking: bool,
    ):
        if not isinstance(problem.data, Rows):
            raise TypeError("a linear machine is trained on Rows")
        self.problem, self.control, self.threads, self.tuning = problem, control, resources.threads, tuning
        self.rows, self.shrinking = problem.data, shrinking
        self.state = LinearState(problem, resources.seed)
        self.outer = OuterLoop(problem, control, tuning.outer)
        self.listed = shrinking and problem.n_classes >= tuning.listed_classes
        self.hand_over = HandOver(self.state, self.rows, self.listed, tuning.hand_over, tuning.proximal)
        self.newton: ProximalNewton | None = None
        self.iterations = self.epochs = 0
        self.now = Certificate(math.inf, math.inf, math.inf, 0)  # what decides
        self.end: Certificate | None = (
            None  # the same with bounds that hold, where w is close to sum_i x_i v_i'
        )
        self.fine = False  # whether coarse bounds of rounding are too wide for the tolerance
        # of lowest J: J, bounds, weights and margins
        self.best: tuple[float, Certificate | None, Floats, Floats] | None = None

    def solve(self, start: Floats | None, solver: str) -> SolverResult:
        state, hand_over = self.state, self.hand_over
        if hand_over.explicit:
            state.fill_rows()
        hand_over.choose(solver)
        status = None
        if start is not None:
            self.begin_at(start)
        if start is not None and hand_over.takes_start(self.tuning.warm_up_epochs):
            status = CONVERGED if self.outer.decide(self.now) == "converged" else None
        else:
            known = self.now.objective
            status = self.ascend(fresh=start is None or not self.useful_multipliers())
            if start is not None and status is None and known < self.now.objective:
                self.begin_at(start)
        if status is None:
            method, warm = self.tuning.proximal, start is not None
            self.newton = ProximalNewton(
                state, hand_over.explicit, self.control, self.threads, method, warm=warm
            )
            status = self.proximal_steps(self.newton)
        return self.result(status)

    def result(self, status: str) -> SolverResult:
        state, newton = self.state, self.newton
        if self.end is None:
            state.rebuild()
            self.measure(0.0)
        end, weights, margins = self.end, state.weights, state.margins
        if status != CONVERGED and self.best is not None:
            _, end, weights, margins = self.best
            if end is None:  # the multipliers were others then: those at hand say how good it is
                self.measure_at(weights)
                end, margins = self.end, state.margins
        assert end is not None
        if status == CONVERGED and end.relative > self.control.tol:
            status = STALLED
        details = {
            "epochs": self.epochs,
            "row_visits": state.visits,
            "newton_steps": newton.newton_steps if newton else 0,
            "cg_steps": newton.cg_steps if newton else 0,
            "active_multipliers": state.n_active,
            "multiplier_bytes": state.multiplier_bytes,
        }
        solver = "newton" if newton else "dcd"
        found = {"weights": np.ascontiguousarray(weights[:, : state.n_classes]), "margins": margins}
        return self.outer.result(status, end, self.iterations, solver, details, **found)

    def begin_at(self, start: Floats) -> None:
        """Newton's method begins at the very weights given, not at those that their multipliers make."""
        state = self.state
        state.weights[:, : state.n_classes] = start
        state.begin()
        self.measure_at(state.weights.copy())

    def measure_at(self, weights: Floats) -> None:
        """Measure at weights that are not made of the multipliers."""
        state = self.state
        state.rebuild()
        away = weights - state.weights
        state.weights[:] = weights
        self.measure(0.5 * inner(away, away))

    def useful_multipliers(self) -> bool:
        """Whether the multipliers that a start suggests are better for ascent than none; if not, they go."""
        self.state.rebuild()
        _, relaxed, gap, _ = self.state.measure(self.threads)
        if relaxed - gap >= 0:
            return True
        self.state.clear()
        self.state.rebuild()
        return False

    def measure(self, distance: float | None = None, scores: Floats | None = None) -> None:
        """`distance`: 1/2 |w - sum_i x_i v_i'|^2; None: not known, but small, after many steps of ascent."""
        state, self.end = self.state, None
        if distance is None:
            self.now = Certificate(*state.measure(self.threads, scores))
        else:
            self.now = self.bounded(distance, scores)
        if self.best is None or self.now.objective < self.best[0]:
            self.best = (self.now.objective, self.end, state.weights.copy(), state.margins.copy())

    def bounded(self, distance: float, scores: Floats | None) -> Certificate:
        """Find the bounds that hold, and what decides."""
        state = self.state
        while True:
            measured = state.measure(self.threads, scores, state.score_errors(self.fine))
            objective, relaxed, gap, misplaced = measured
            self.end, target = of_weights(state, measured, distance), self.control.target(relaxed)
            gap = max(0.0, gap + distance)
            rounding = max(0.0, self.end.gap - gap)
            if self.fine or not gap <= target or rounding <= COARSE_PART * target:
                break
            self.fine = True
        if rounding <= SMALL_PART * target:  # more could never be made up for
            gap += rounding
        return Certificate(objective, relaxed, gap, misplaced)

    def ascend(self, fresh: bool) -> str | None:
        """Coordinate ascent; None when Newton's method should take over."""
        state, control, tuning, outer = self.state, self.control, self.tuning, self.outer
        if self.listed:
            state.list_classes()
        checks = CheckPlan(tuning, tuning.listed_patience if self.listed else 1.0)
        rebuilt = 0.0  # visits of every row up to then
        first_q = fresh and self.problem.nu > 0 and not outer.frozen and state.n_classes > 2
        warm_up = tuning.warm_up_epochs if first_q else 0
        earliest = tuning.warm_up_epochs if self.hand_over.newton < math.inf else tuning.max_epochs
        slice_nonzeros = max(1, tuning.slice_values // state.padded)
        n_movable = max(1, len(state.movable()))
        limit = tuning.max_epochs if control.max_iter is None else control.max_iter
        while True:
            state.begin_epoch()
            while not state.advance(slice_nonzeros, self.epochs >= warm_up, self.shrinking):
                if (status := control.out_of_time()) is not None:
                    self.measure()
                    return status
            self.epochs += 1
            self.iterations += 1
            visits = state.visits / n_movable
            due = visits >= checks.next or self.epochs in (warm_up, limit, earliest)
            if self.epochs < warm_up or not due:
                known = self.now.objective if self.best else 0.0
                status = control.step(self.iterations, known, math.inf, tuning.max_epochs)
                if status is not None:
                    self.measure()
                    return status
                continue
            exact = self.listed or visits - rebuilt >= tuning.rebuild_visits
            if not exact:
                self.measure()
            if exact or self.now.relative <= control.tol:
                state.rebuild()  # claim nothing on weights that were updated step by step
                rebuilt = visits
                self.measure(0.0)
            if self.epochs == warm_up:
                verdict = "reassign"
                status = control.step(self.epochs, self.now.objective, math.inf, tuning.max_epochs)
            else:
                verdict, status = outer.step(self.now, self.iterations, tuning.max_epochs)
            if status is not None:
                return status
            if verdict == "reassign":
                state.reassign()
                checks.restart(visits)
            else:
                checks.plan(visits, self.now.relative, outer.tolerance)
            if self.epochs >= earliest and self.hand_over.due(visits, self.now.relative, control.tol):
                return None

    def proximal_steps(self, newton: ProximalNewton) -> str:
        tuning, outer = self.tuning, self.outer
        precision, steps = 1.0, 0
        while True:
            before = self.now.gap
            bound = max(self.now.relaxed - before, 0.1 * self.now.relaxed)
            enough = precision * tuning.enough * min(outer.tolerance * bound, before)
            distance = newton.step(enough, scored=steps > 0, rough=steps < tuning.rough_steps)
            self.iterations += 1
            steps += 1
            self.measure(distance, newton.rows.scores)
            verdict, status = outer.step(self.now, self.iterations, self.epochs + tuning.max_proximal_steps)
            if status is not None:
                return status
            eager = steps <= tuning.eager_steps and self.now.misplaced > 0 and not outer.frozen
            if verdict == "reassign" or eager:
                self.state.reassign(at_once=True)
            elif self.now.gap > 0.5 * before:
                # where classes tie the primal value feels errors of w at first order, psi only at second
                # a large t is another reason for a gap that falls slowly
                slow = newton.proximity > tuning.proximal.usual_proximity
                precision = max(tuning.slow_precision if slow else tuning.least_precision, 0.01 * precision)
