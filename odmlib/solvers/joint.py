"""Linear multi-class ODM, all classes in one problem (spec/mcodm.md).

    J(w) = 1/2 sum_l |w_l|^2 + sum_i c_i [ max(0, 1-theta-z_i)^2 + nu max(0, z_i-1-theta)^2 ],
    z_i = f_i,y - max_{l != y} f_il,   f_il = <w_l, x_i>

is not convex: its upper side has the best wrong score under a square. With any wrong class q_i in place
of the best one it is a convex problem Q(w; q) >= J(w), with equality where q_i is a best wrong class.
`majorise` solves Q, takes q from its solution and goes on until q or J stands still; J falls from step to
step. `frozen`, the published scheme, puts the number M_i = max_{l != y} f_il of the previous solution in
place of f_i,q; nothing bounds J there.

The convex problems: coordinate ascent on the dual, one row with all its multipliers at a time
(class_block.h), rows that are calm pausing and, of many classes, the best ones looked at (list_classes in
joint_loops.h); then, where a Hessian is cheap or ascent slow, the proximal Newton method of
joint_newton.py. Early ones are solved roughly. The certificate is the duality gap of Q on all rows:
gap_i >= 0 summed up (spec section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.solvers._joint import JointState
from odmlib.solvers.control import CONVERGED, Control, SolverResult, relative_gap
from odmlib.solvers.joint_newton import (
    USUAL_PROXIMITY,
    ProximalNewton,
    can_precondition,
    newton_fits,
    newton_visits,
    prefers_explicit,
)

Floats = NDArray[np.float64]

WARM_UP_EPOCHS = 5  # with beta = 0, before the first q is taken
FIRST_TOLERANCE = 0.1  # relative gap at which q is taken anew for the first time
FALL = 3  # of that tolerance from one q to the next
MAX_EPOCHS = 10_000
MAX_PROXIMAL_STEPS = 500
# epochs before auto hands over to Newton with a factorised Hessian, and without any factor
PATIENCE_EXPLICIT, PATIENCE = WARM_UP_EPOCHS, 5000
# with factorised blocks: when ascent has taken as long as Newton's method would (newton_visits), so that no
# more than about twice the time is spent, or longer where the loss per row is below a part of its cost, which
# is easy for ascent only; at once where rows are many (so many such visits) and the gap is still that large
HARD_LOSS, EASY_PATIENCE = 0.1, 10.0
HOPELESS_EPOCHS, HOPELESS_GAP, HOPELESS_VISITS = WARM_UP_EPOCHS + 1, 0.5, 150.0
SLICE_VALUES = 20_000_000  # weights read between two looks at the clock
REBUILD_VISITS = 50  # of every row
LEAST_BETWEEN_CHECKS, MOST_BETWEEN_CHECKS = 0.7, 6.0  # visits of every row between two certificates
FIRST_CHECK = 1.0
LISTED_CLASSES = 64  # with so many classes most visits look at a few of them only
LISTED_PATIENCE = 6.0  # times as many visits between certificates then: they look at all classes
LEAST_PRECISION = 1e-12
ENOUGH = 0.5  # part of the gap wanted (or there already) that the error of a proximal step may have
ROUGH_STEPS = 3  # proximal steps that end where w is about right: q will move it anyway
EAGER_STEPS = 20  # proximal steps after which q is taken anew whatever the gap; J falls all the same


@dataclass
class Measured:
    objective: float  # J
    relaxed: float  # Q
    gap: float  # absolute
    misplaced: int

    @property
    def relative(self) -> float:
        return relative_gap(self.relaxed, self.gap)


class Labels:
    """When to take q (or M) anew, and when to stop."""

    def __init__(self, frozen: bool, tol: float):
        self.frozen, self.tol = frozen, tol
        self.tolerance = tol if frozen else max(FIRST_TOLERANCE, tol)
        self.previous: float | None = None  # J when q was taken last
        self.steps = 0

    def judge(self, now: Measured) -> str:
        """'solve' on, 'reassign' or 'converged'."""
        if now.relative > self.tolerance:
            return "solve"
        standing = self.previous is not None and abs(self.previous - now.objective) <= self.tol * max(
            1.0, abs(now.objective)
        )
        if self.frozen:
            if standing:
                return "converged"
        elif now.misplaced == 0:
            if now.relative <= self.tol:
                return "converged"
            self.tolerance = max(self.tol, now.relative / FALL)
            return "solve"
        elif now.relative <= self.tol and standing:
            return "converged"
        self.previous = now.objective
        self.steps += 1
        self.tolerance = max(self.tol, min(now.relative, self.tolerance) / FALL)
        return "reassign"


class _Run:
    def __init__(self, state: JointState, frozen: bool, control: Control, threads: int):
        self.state, self.control, self.threads = state, control, threads
        self.labels = Labels(frozen, control.tol)
        self.iterations = self.epochs = 0
        self.now = Measured(math.inf, math.inf, math.inf, 0)
        self.best: tuple[Measured, Floats, Floats] | None = None  # of lowest J: weights and margins too

    def measure(self, distance: float = 0.0, scores: Floats | None = None) -> None:
        """`distance`: 1/2 |w - sum_i x_i v_i'|^2 where w is not made of the multipliers."""
        objective, relaxed, gap, misplaced = self.state.measure(self.threads, scores)
        self.now = Measured(objective, relaxed, max(0.0, gap + distance), misplaced)
        if self.best is None or objective < self.best[0].objective:
            self.best = (self.now, self.state.weights.copy(), self.state.margins.copy())

    def judge(self, limit: int) -> tuple[str, str | None]:
        """What to do with q, and a status if the run ends here."""
        verdict = self.labels.judge(self.now)
        gap = self.now.gap
        if verdict != "converged" and self.now.relative <= self.control.tol:
            gap = math.inf  # the gap is small enough, but q is still moving
        status = self.control.step(self.iterations, self.now.relaxed, gap, limit)
        return verdict, CONVERGED if verdict == "converged" else status


def solve_joint(
    rows: Rows,
    labels: NDArray[np.int64],
    n_classes: int,
    costs: Floats,
    control: Control,
    *,
    nu: float,
    theta: float,
    relaxation: str = "majorise",
    solver: str = "auto",
    shrinking: bool = True,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
) -> SolverResult:
    """Train on rows of `n_classes` classes; `labels` are their numbers, `costs` the c_i.

    `start` are weights (columns x classes) to begin from; the result's weights have that shape.
    """
    frozen = relaxation == "frozen"
    state = JointState(rows, labels, costs, n_classes, nu, theta, frozen, seed)
    run = _Run(state, frozen and nu > 0, control, threads)  # without upper side nothing is frozen
    fits = newton_fits(state)
    row_length = rows.n_nonzeros / max(1, state.n_rows) + 1
    explicit = prefers_explicit(state, row_length)
    if explicit:
        state.fill_rows()
    newton: ProximalNewton | None = None
    status = None
    if start is not None:
        state.begin(np.ascontiguousarray(start))
    # with many classes visits are cheap (lists) and Newton's products are not
    blocks = not explicit and can_precondition(state) and n_classes < LISTED_CLASSES
    visits = newton_visits(state.n_columns, rows.n_nonzeros) if blocks else 0.0
    many_rows = blocks and visits < HOPELESS_VISITS
    usual = PATIENCE_EXPLICIT if explicit else HOPELESS_EPOCHS if blocks else PATIENCE
    patience = {"dcd": MAX_EPOCHS, "newton": WARM_UP_EPOCHS}.get(solver, usual)
    after = Handover(patience if fits else MAX_EPOCHS)
    if fits and solver == "auto":
        after.visits = visits
        after.loss, after.at_once = HARD_LOSS * float(costs.sum()), many_rows
    newton_first = fits and (solver == "newton" or (solver == "auto" and (explicit or many_rows)))
    if start is not None and newton_first:
        _keep(run, start)
        newton_first = not many_rows or solver == "newton" or run.now.objective > after.loss
        if newton_first:
            status = CONVERGED if run.labels.judge(run.now) == "converged" else None
    if start is None or not newton_first:
        fresh = start is None or not _useful(state, threads)
        status = _ascend(run, after, nu > 0, shrinking, fresh)
    if status is None:
        with np.errstate(divide="ignore"):
            newton = ProximalNewton(state, 0.5 / costs, explicit, row_length, control, threads)
        if start is not None:
            newton.proximity = USUAL_PROXIMITY
        status = _proximal_steps(run, newton)
    assert run.best is not None
    end, weights, margins = run.best
    if status == CONVERGED:
        end, weights, margins = run.now, state.weights, state.margins
    details = {
        "relaxation": relaxation,
        "objective": end.objective,
        "relaxed": end.relaxed,
        "dual": end.relaxed - end.gap,
        "outer_steps": run.labels.steps,
        "misplaced": end.misplaced,
        "epochs": run.epochs,
        "row_visits": state.visits,
        "newton_steps": newton.newton_steps if newton else 0,
        "cg_steps": newton.cg_steps if newton else 0,
        "active_multipliers": state.n_active,
        "multiplier_bytes": state.multiplier_bytes,
    }
    return SolverResult(
        status,
        end.relaxed,
        end.relaxed - end.gap,
        end.relative,
        run.iterations,
        "newton" if newton else "dcd",
        np.ascontiguousarray(weights[:, :n_classes]),
        None,
        margins,
        details,
    )


def _useful(state: JointState, threads: int) -> bool:
    """Whether the multipliers that known weights gave are better for ascent than none; if not, they go."""
    state.rebuild()
    _, relaxed, gap, _ = state.measure(threads)
    if relaxed - gap >= 0:
        return True
    state.clear()
    return False


def _keep(run: _Run, start: Floats) -> None:
    """Newton's method begins at the very weights given, not at those that their multipliers make."""
    weights = np.zeros_like(run.state.weights)
    weights[:, : run.state.n_classes] = start
    distance = 0.5 * float(np.square(weights - run.state.weights).sum())
    run.state.weights[:] = weights
    run.measure(distance)


class Checks:
    """When coordinate ascent looks at its certificate, which costs half an epoch, or more (`patience`).

    Where the gap, falling as it did between the last two looks, would meet its tolerance. Counted in visits
    of every row: rows pause, so epochs get shorter.
    """

    def __init__(self, patience: float = 1.0) -> None:
        self.patience = patience
        self.restart(0.0)

    def restart(self, visits: float) -> None:
        self.next, self.gap, self.at = visits + self.patience * FIRST_CHECK, math.inf, visits

    def plan(self, visits: float, gap: float, tolerance: float) -> None:
        wait = 2 * self.patience * FIRST_CHECK
        if tolerance < gap < self.gap < math.inf:
            wait = (visits - self.at) * math.log(gap / tolerance) / math.log(self.gap / gap)
        least, most = self.patience * LEAST_BETWEEN_CHECKS, self.patience * MOST_BETWEEN_CHECKS
        self.next = visits + min(most, max(least, wait))
        self.gap, self.at = gap, visits


@dataclass
class Handover:
    """When coordinate ascent gives way to Newton's method."""

    epochs: int
    visits: float = 0.0  # of every row; both are needed
    loss: float = 0.0  # where J is not above this, rows are easy to separate, and ascent gets more time
    at_once: bool = False  # where J is above it and the gap hopeless

    def due(self, epochs: int, visits: float, now: Measured) -> bool:
        hard = now.objective > self.loss
        hopeless = self.at_once and hard and epochs >= HOPELESS_EPOCHS and now.relative > HOPELESS_GAP
        enough = self.visits if hard else EASY_PATIENCE * self.visits
        return hopeless or (epochs >= self.epochs and visits >= enough)


def _ascend(run: _Run, after: Handover, two_sided: bool, lazy: bool, fresh: bool) -> str | None:
    """Coordinate ascent; None when others should take over."""
    state, control = run.state, run.control
    listed = lazy and state.n_classes >= LISTED_CLASSES
    if listed:
        state.list_classes()
    checks = Checks(LISTED_PATIENCE if listed else 1.0)
    rebuilt = 0.0  # visits of every row up to then
    warm_up = WARM_UP_EPOCHS if fresh and two_sided and not run.labels.frozen and state.n_classes > 2 else 0
    slice_nonzeros = max(1, SLICE_VALUES // state.padded)
    n_movable = len(state.movable())
    limit = MAX_EPOCHS if control.max_iter is None else control.max_iter
    while True:
        upper = run.epochs >= warm_up
        state.begin_epoch()
        while not state.advance(slice_nonzeros, upper, lazy):
            if (status := control.out_of_time()) is not None:
                run.measure()
                return status
        run.epochs += 1
        run.iterations += 1
        visits = state.visits / max(1, n_movable)
        due = visits >= checks.next or run.epochs in (warm_up, limit, after.epochs)
        if run.epochs < warm_up or not due:
            status = control.step(
                run.iterations, run.now.objective if run.best else 0.0, math.inf, MAX_EPOCHS
            )
            if status is not None:
                run.measure()
                return status
            continue
        exact = listed or visits - rebuilt >= REBUILD_VISITS
        if not exact:
            run.measure()
        if exact or run.now.relative <= control.tol:
            state.rebuild()  # claim nothing on weights that were updated step by step
            rebuilt = visits
            run.measure()
        if run.epochs == warm_up:
            verdict, status = "reassign", control.step(run.epochs, run.now.objective, math.inf, MAX_EPOCHS)
        else:
            verdict, status = run.judge(MAX_EPOCHS)
        if status is not None:
            return status
        if verdict == "reassign":
            state.reassign()
            checks.restart(visits)
        else:
            checks.plan(visits, run.now.relative, run.labels.tolerance)
        if after.due(run.epochs, visits, run.now):
            return None


def _proximal_steps(run: _Run, newton: ProximalNewton) -> str:
    precision, steps = 1.0, 0
    while True:
        before = run.now.gap
        bound = max(1.0, run.now.relaxed - before, 0.1 * run.now.relaxed)
        enough = precision * ENOUGH * min(run.labels.tolerance * bound, before)
        distance = newton.step(enough, scored=steps > 0, rough=steps < ROUGH_STEPS)
        run.iterations += 1
        steps += 1
        run.measure(distance, newton.rows.scores)
        verdict, status = run.judge(run.epochs + MAX_PROXIMAL_STEPS)
        if status is not None:
            return status
        eager = steps <= EAGER_STEPS and run.now.misplaced > 0 and not run.labels.frozen
        if verdict == "reassign" or eager:
            run.state.reassign(at_once=True)
        elif run.now.gap > 0.5 * before:
            # where classes tie the primal value feels errors of w at first order, psi only at second
            precision = max(LEAST_PRECISION, 0.01 * precision)
