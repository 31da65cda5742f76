"""What ssODM asks of its rows: products with several label assignments at once, and training on labels.

Linear and kernel machines differ here and nowhere else. saddle.py states the problem that a Mixture and a
Saddle belong to.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats, Labels
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.kernels.cache import bytes_for_all
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.losses.sums import value_and_gap
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart, relative_gap
from odmlib.solvers.kernel.precision import cache_for, margins_need_float64
from odmlib.solvers.kernel.q_rows import KernelRows
from odmlib.solvers.kernel.working_set import solve_working_set
from odmlib.solvers.linear.auto import solve_linear
from odmlib.solvers.problem import KernelProblem, LinearProblem
from odmlib.solvers.semi._members import KernelMembers, LinearMembers
from odmlib.solvers.semi.assignments import Assignments

BLOCK_ROWS = 128  # kernel rows that are swept over together

Before = tuple[Labels, SolverResult] | None


@dataclass(frozen=True)
class SemiProblem:
    """Rows, or the kernel between them, some with a label: the assignments say which labels are possible."""

    data: Rows | Kernel
    assignments: Assignments
    costs: Floats
    loss: BandLoss


@dataclass(frozen=True)
class Mixture:
    """Members of a working set with their weights mu, duals a, and the sweeps done before."""

    labels: Labels  # rows x members
    shares: Floats  # mu
    duals: Floats
    sweeps: int = 0

    @property
    def mean_labels(self) -> Floats:
        return self.labels @ self.shares


@dataclass(frozen=True)
class Saddle(Mixture):
    """A point (mu, a) on a working set, and its certificate."""

    upper: float = np.inf
    lower: float = -np.inf
    status: str | None = None
    cuts: int = 0

    @property
    def gap(self) -> float:
        return relative_gap(self.upper, self.upper - self.lower)


class _Engine:
    """A problem with the resources to work on it."""

    def __init__(self, problem: SemiProblem, resources: Resources, shrinking: bool):
        self.problem, self.resources, self.shrinking = problem, resources, shrinking
        self.assignments, self.costs, self.loss = problem.assignments, problem.costs, problem.loss
        self.n_rows = len(problem.costs)

    def certify(
        self, duals: Floats, margins: Floats, shares: Floats, squares: Floats
    ) -> tuple[float, float, float]:
        """(UB, LB, UB - Phi(mu, a)); the last says how far a is from the best one for this mu."""
        losses, inner_gap = value_and_gap(self.loss, duals, margins, self.costs, self.resources.threads)
        conjugates = inner_gap - losses - inner(duals, margins)
        upper = 0.5 * inner(shares, squares) + losses
        return upper, -0.5 * float(squares.max()) - conjugates, inner_gap


class LinearEngine(_Engine):
    def __init__(self, rows: Rows, problem: SemiProblem, resources: Resources, shrinking: bool = True):
        super().__init__(problem, resources, shrinking)
        self.rows = rows

    def members(self, duals: Floats, labels: Labels, shares: Floats) -> LinearMembers:
        """The state of coordinate steps in the duals, for these members of the working set."""
        seed, threads = self.resources.seed, self.resources.threads
        return LinearMembers(self.rows, self.loss, self.costs, duals, labels, shares, seed, threads)

    def diagonal(self) -> Floats:
        """Of K."""
        return self.rows.squared_norms()

    def images(self, vectors: Floats) -> tuple[Floats, Floats]:
        """K A and a' K a for every column of A (rows x n)."""
        weights = self.rows.transposed_products(np.ascontiguousarray(vectors), self.resources.threads)
        return self.rows.products(weights, self.resources.threads), np.square(weights).sum(axis=0)

    def solve(self, labels: Labels, control: Control, before: Before) -> SolverResult:
        """ODM on all rows with these labels; `before`: other labels and what was found for them."""
        problem = LinearProblem(self.rows, labels.astype(np.float64), self.costs, self.loss)
        start = None if before is None else WarmStart(before[1].weights)
        return solve_linear(problem, control, self.resources, start, shrinking=self.shrinking)

    def supervised(self, control: Control) -> tuple[SolverResult, Floats]:
        """ODM on the labeled rows, in the terms of all rows, and its scores of all rows."""
        labeled, given = self.assignments.labeled_rows, self.assignments.given
        rows, y = self.rows.restricted(labeled), given[labeled].astype(np.float64)
        problem = LinearProblem(rows, y, self.costs[labeled], self.loss)
        result = solve_linear(problem, control, self.resources, shrinking=self.shrinking)
        return result, self.rows.product(result.weights, self.resources.threads)

    def relaxation_is_cheap(self, cheap_values: int) -> bool:
        """Whether the relaxation takes seconds; it seldom changes the labels (docs/measured.md)."""
        return self.rows.n_nonzeros + self.rows.n_rows <= cheap_values


class KernelEngine(_Engine):
    """All stages share one cache of kernel rows; `wide`: of float64 (None: where the costs ask for it)."""

    def __init__(
        self,
        kernel: Kernel,
        problem: SemiProblem,
        resources: Resources,
        shrinking: bool = True,
        wide: bool | None = None,
    ):
        wide = margins_need_float64(kernel, problem.costs, problem.loss) if wide is None else wide
        cache = cache_for(kernel, resources, wide)
        super().__init__(problem, dataclasses.replace(resources, cache=cache), shrinking)
        self.kernel, self.cache = kernel, cache
        self.q = KernelRows(cache, BLOCK_ROWS, resources.threads)

    def members(self, duals: Floats, labels: Labels, shares: Floats) -> KernelMembers:
        seed, threads = self.resources.seed, self.resources.threads
        return KernelMembers(self.q, self.loss, self.costs, duals, labels, shares, seed, threads)

    def diagonal(self) -> Floats:
        return self.kernel.diagonal()

    def images(self, vectors: Floats) -> tuple[Floats, Floats]:
        factors = np.ascontiguousarray(vectors.T)
        sums = np.zeros_like(factors)
        support = np.flatnonzero(vectors.any(axis=1))
        for begin in range(0, len(support), self.q.most_rows):
            some = support[begin : begin + self.q.most_rows]
            self.q.fetch(some)
            for line, total in zip(factors, sums, strict=True):
                self.q.add(line[some], total)
        return np.ascontiguousarray(sums.T), (factors * sums).sum(axis=1)

    def solve(self, labels: Labels, control: Control, before: Before) -> SolverResult:
        problem = KernelProblem(self.kernel, labels.astype(np.float64), self.costs, self.loss)
        start = None
        if before is not None:
            start = WarmStart(duals=np.where(labels == before[0], before[1].duals, 0.0))
        return solve_working_set(problem, control, self.resources, start, shrinking=self.shrinking)

    def supervised(self, control: Control) -> tuple[SolverResult, Floats]:
        labeled, given = self.assignments.labeled_rows, self.assignments.given
        kernel = self.kernel.restricted(labeled)
        kernel.threads = self.resources.threads
        budget = min(self.resources.cache_bytes, bytes_for_all(len(labeled), True))
        own = dataclasses.replace(self.resources, cache_bytes=budget, cache=None)
        y = given[labeled].astype(np.float64)
        problem = KernelProblem(kernel, y, self.costs[labeled], self.loss)
        result = solve_working_set(problem, control, own, shrinking=self.shrinking)
        duals, margins = np.zeros((2, self.n_rows))
        duals[labeled], margins[labeled] = result.duals, result.margins
        result.duals, result.margins = duals, margins
        return result, self.images((given * duals)[:, None])[0][:, 0]

    def relaxation_is_cheap(self, cheap_values: int) -> bool:
        return self.cache.capacity >= self.n_rows


Engine = LinearEngine | KernelEngine


def make_engine(problem: SemiProblem, resources: Resources, shrinking: bool = True) -> Engine:
    if isinstance(problem.data, Rows):
        return LinearEngine(problem.data, problem, resources, shrinking)
    return KernelEngine(problem.data, problem, resources, shrinking)
