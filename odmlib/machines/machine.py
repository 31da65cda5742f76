"""What a binary machine is to the trainer: its parameters, and how it solves one task on prepared data.

A task is one problem of two sides: rows of the data with signs and weights. The class schemes (tasks.py)
make tasks out of any number of classes; fitting.py prepares the data once, has the tasks solved and puts the
decision function together. Most machines are a MarginLoss with a cost per row and inherit everything else;
one with a solver of its own overrides `solve_kernel` (and `solve_linear`, or says `linear_solver = False`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.data.problem import Problem
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import slopes_and_curvatures
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.parameters import MACHINE_PARAMETERS
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.problem import KernelProblem, LinearProblem, best_multiple


@dataclass(frozen=True)
class Task:
    """One output: `signs` are +1 or -1, `weights` are row weight x class weight, both for the task's rows."""

    output: int
    sides: tuple[int, int | None]  # classes of the positive and the negative side; None: all others
    signs: Floats
    weights: Floats
    rows: Places | None = None  # ascending rows of the data; None: all
    targets: Floats | None = None  # of regression, whose signs are all +1


MOST_PAIR_WEIGHTS = 4_000_000  # of all pairs of classes, 32 MB: letter 5,200, mnist 35,000, news20 12 million


def linear_scheme(problem: Problem) -> tuple[str, str]:
    """How a linear machine trains more than two classes where nobody says it, and why.

    Few columns cannot separate a class from all others, but can from one other; with more columns than rows
    both work, and one-vs-rest is better (`python -m benchmarks.defaults --classes`). The weights of all pairs
    grow with the square of the classes.
    """
    k, (rows, columns) = len(problem.labels), problem.rows.shape
    if columns >= rows:
        return "ovr", f"{columns} features are not fewer than {rows} rows"
    if k * (k - 1) // 2 * columns > MOST_PAIR_WEIGHTS:
        return "ovr", f"{k * (k - 1) // 2} pairs x {columns} features are too many weights"
    return "ovo", f"{columns} features are fewer than {rows} rows"


class Machine:
    """Base of the machines of one margin per row, made for one run: options and the sum of row weights."""

    linear_solver = True  # False: a linear kernel is solved as any other and made weights of afterwards
    shares_cache = True  # whether `solve_kernel` takes rows from a shared cache; else from its own

    def __init__(self, options: TrainOptions, total_weight: float):
        self.options = options
        self.C, self.lambda_ = options.weights_for(total_weight)

    def scheme(self, problem: Problem, kernel: str, init: Model | None = None) -> str:
        """How the classes are trained with this kernel (model/schemes.py), from this model."""
        if len(problem.labels) == 2:
            return "binary"
        if self.options.multiclass is not None:
            return self.options.multiclass
        declared = self.options.declaration.class_scheme
        if declared != "auto" or kernel != "linear":
            return "ovo" if declared == "auto" else declared
        if init is not None and init.scheme in ("ovo", "ovr"):
            return init.scheme
        return linear_scheme(problem)[0]

    def has_weights(self, kernel: str) -> bool:
        """Whether it is trained as weights of columns rather than of rows."""
        return kernel == "linear" and self.linear_solver

    def parameters(self) -> dict[str, Any]:
        """The machine's own entries of the report and the model file, by its line of the table."""
        found = {}
        for name in MACHINE_PARAMETERS[self.options.machine]:
            attribute = "lambda_" if name == "lambda" else name
            value = getattr(self if hasattr(self, attribute) else self.options, attribute)
            found[name] = value if isinstance(value, str) else float(value)
        return found

    def extras(self, results: list[SolverResult]) -> dict[str, tuple[float, ...]]:
        """Optional parts of the model, a number per output: see EXTRAS in model/text_writer.py."""
        return {}

    def notes(self, results: list[SolverResult]) -> dict[str, Any]:
        """Further entries of the report."""
        return {}

    def loss(self) -> MarginLoss:
        raise NotImplementedError

    def costs(self, weights: Floats) -> Floats:
        """The weight of each row's loss."""
        raise NotImplementedError

    def start_duals(self, margins: Floats, task: Task, threads: int) -> Floats:
        """Dual variables that the margins under another model suggest."""
        return -slopes_and_curvatures(self.loss(), margins, self.costs(task.weights), threads)[1]

    def linear_engine(self) -> Callable[..., SolverResult]:
        """What trains linear machines of this loss; called as solvers.linear.solve_linear is."""
        from odmlib.solvers.linear.auto import solve_linear

        return solve_linear

    def solve_linear(
        self, rows: Rows, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        """`rows` are the task's; the start has weights. The result has weights and margins."""
        problem = LinearProblem(rows, task.signs, self.costs(task.weights), self.loss(), task.targets)
        return self.linear_engine()(
            problem, control, resources, start, solver=self.options.solver, shrinking=self.options.shrinking
        )

    def wants_float64(self, kernel: Kernel, weights: Floats) -> bool:
        """Whether the solver may ask for kernel rows of float64; caches are made for that."""
        from odmlib.solvers.kernel.precision import EXACT_ROWS, margins_need_float64

        if not self.shares_cache or kernel.n_rows <= EXACT_ROWS:
            return True
        return margins_need_float64(kernel, self.costs(weights), self.loss(), self.options.tol)

    def start_from(self, last: SolverResult, task: Task) -> WarmStart | None:
        """Where to begin `solve_kernel`, made of the result for the same task at another C.

        The multiple t a of its duals a with the largest dual value; its scores are t times theirs.
        """
        loss, costs = self.loss(), self.costs(task.weights)
        scores = last.margins if task.targets is None else last.margins + task.targets
        t = best_multiple(loss, costs, last.duals, inner(last.duals, scores), targets=task.targets)
        if t == 0:
            return None
        duals = t * last.duals
        if not loss.smooth:
            duals = np.minimum(duals, costs)  # a last digit above would be outside of the conjugate's domain
        return WarmStart(duals=duals, scores=t * task.signs * scores)

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        """`kernel` is between the task's rows.

        The result has margins, and duals: f = sum_i y_i dual_i k(x_i, .) - offset.
        """
        from odmlib.solvers.kernel.working_set import solve_working_set

        problem = KernelProblem(kernel, task.signs, self.costs(task.weights), self.loss(), task.targets)
        if resources.features is not None:
            start = resources.features.start(problem, control, resources, start)
        return solve_working_set(problem, control, resources, start, shrinking=self.may_shrink(kernel))

    def may_shrink(self, kernel: Kernel) -> bool:
        """A shift stands on the diagonal only, which rows that are left out and come back would miss."""
        return self.options.shrinking and kernel.shift == 0
