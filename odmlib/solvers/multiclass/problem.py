"""The problem of the multi-class machine: all classes in one (docs/internals/mathematics.md, "mcODM").

    J(f) = 1/2 sum_l |f_l|^2 + sum_i c_i [ max(0, 1-theta-z_i)^2 + nu max(0, z_i-1-theta)^2 ],
    z_i = f_y(x_i) - max_{l != y} f_l(x_i)

J is not convex: its upper side has the best wrong score under a square. With any wrong class q_i in place
of the best one it is a convex problem Q(f; q) >= J(f), with equality where q_i is a best wrong class.
`majorise` solves Q, takes q from its solution and goes on until q or J stands still; J falls from step to
step. `frozen`, the published scheme, puts the number M_i = max_{l != y} f_l(x_i) of the previous solution in
place of f_q; nothing bounds J there. The certificate is the duality gap of Q on all rows, the sum of
gap_i >= 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odmlib._core.arrays import Codes, Floats
from odmlib._core.rows import Rows
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import CONVERGED, Control, SolverResult, relative_gap


@dataclass(frozen=True)
class McodmProblem:
    """Rows of a linear machine or a kernel, the number of each row's class, and the costs c_i."""

    data: Rows | Kernel
    labels: Codes
    n_classes: int
    costs: Floats
    nu: float
    theta: float
    relaxation: str = "majorise"

    @property
    def frozen(self) -> bool:
        return self.relaxation == "frozen"

    def curvatures(self) -> Floats:
        """|x_i|^2, or k(x_i, x_i)"""
        return self.data.squared_norms() if isinstance(self.data, Rows) else self.data.diagonal()


@dataclass(frozen=True)
class OuterTuning:
    first_tolerance: float = 0.1  # relative gap at which q is taken anew for the first time
    fall: float = 3  # of that tolerance from one q to the next


OUTER = OuterTuning()


@dataclass(frozen=True)
class Certificate:
    """What a measurement on all rows found."""

    objective: float  # J
    relaxed: float  # Q
    gap: float  # absolute
    misplaced: int  # rows with loss above the band whose q is not a best wrong class

    @property
    def relative(self) -> float:
        return relative_gap(self.relaxed, self.gap)


class OuterLoop:
    """When to take q (or M) anew, and when to stop: early problems are solved roughly."""

    def __init__(self, problem: McodmProblem, control: Control, tuning: OuterTuning):
        self.problem, self.control, self.tuning = problem, control, tuning
        self.frozen = problem.frozen and problem.nu > 0  # without an upper side nothing is frozen
        self.tolerance = control.tol if self.frozen else max(tuning.first_tolerance, control.tol)
        self.previous: float | None = None  # J when q was taken last
        self.steps = 0

    def decide(self, now: Certificate) -> str:
        """'solve' on, 'reassign' or 'converged'."""
        tol = self.control.tol
        if now.relative > self.tolerance:
            return "solve"
        standing = self.previous is not None and abs(self.previous - now.objective) <= self.control.target(
            now.objective
        )
        if self.frozen:
            if standing:
                return "converged"
        elif now.misplaced == 0:
            if now.relative <= tol:
                return "converged"
            self.tolerance = max(tol, now.relative / self.tuning.fall)
            return "solve"
        elif now.relative <= tol and standing:
            return "converged"
        self.previous = now.objective
        self.steps += 1
        self.tolerance = max(tol, min(now.relative, self.tolerance) / self.tuning.fall)
        return "reassign"

    def step(self, now: Certificate, iteration: int, limit: int) -> tuple[str, str | None]:
        """Report an iteration: what to do with q, and a status if the run ends here."""
        verdict = self.decide(now)
        # a small gap does not end the run while q is still moving
        moving = verdict != "converged" and now.relative <= self.control.tol
        gap = float("inf") if moving else now.gap
        status = self.control.step(iteration, now.relaxed, gap, limit)
        return verdict, CONVERGED if verdict == "converged" else status

    def refine(self, tol: float) -> None:
        """Go on to a smaller gap within the same limits."""
        control = self.control
        self.control = control.part(tol=tol, max_iter=control.max_iter, callback=control.callback)

    def result(
        self,
        status: str,
        end: Certificate,
        iterations: int,
        solver: str,
        details: Mapping[str, object],
        **found: Floats,
    ) -> SolverResult:
        common = {
            "relaxation": self.problem.relaxation,
            "objective": end.objective,
            "relaxed": end.relaxed,
            "dual": end.relaxed - end.gap,
            "outer_steps": self.steps,
            "misplaced": end.misplaced,
        }
        return SolverResult.at(
            status, end.relaxed, end.gap, iterations, solver, details=common | dict(details), **found
        )
