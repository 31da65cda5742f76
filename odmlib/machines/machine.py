"""What a binary machine is to the trainer: its parameters, and how it solves one task on prepared data.

A task is one problem of two sides: rows of the data with signs and weights. The class schemes (tasks.py)
make tasks out of any number of classes; fitting.py prepares the data once, has the tasks solved and puts the
decision function together. Most machines are a MarginLoss with a cost per row and inherit everything else;
one with a solver of its own overrides `solve_kernel` (and `solve_linear`, or says `linear_solver = False`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from odmlib.options import TrainOptions
from odmlib.parameters import MACHINE_PARAMETERS
from odmlib.solvers.control import Control, SolverResult

if TYPE_CHECKING:
    from odmlib._core.rows import Rows
    from odmlib.kernels.cache import RowCache
    from odmlib.kernels.kernel import Kernel
    from odmlib.losses.loss import MarginLoss

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """One output: `signs` are +1 or -1, `weights` are row weight x class weight, both for the task's rows."""

    output: int
    sides: tuple[int, int | None]  # classes of the positive and the negative side; None: all others
    signs: Floats
    weights: Floats
    rows: NDArray[np.int64] | None = None  # ascending rows of the data; None: all


@dataclass(frozen=True)
class Effort:
    """What a task may use: the clock and the callback, threads, and memory for kernel rows."""

    control: Control
    threads: int = 1
    cache_bytes: int = 0
    cache: RowCache | None = None  # rows of this very kernel, shared with other tasks


class Begin(NamedTuple):
    """Duals that a kernel solver begins from, and the scores f(x_i) under them where those are known."""

    duals: Floats
    scores: Floats | None = None


class Machine:
    """Base of the binary machines, made for one run: options and the sum of the row weights."""

    name: str
    linear_solver = True  # False: a linear kernel is solved as any other and made weights of afterwards

    def __init__(self, options: TrainOptions, total_weight: float):
        self.options = options
        self.C, self.lambda_ = options.weights_for(total_weight)

    @property
    def shares_cache(self) -> bool:
        """Whether `solve_kernel` takes its rows from `effort.cache` where one is given; else it has its own
        within `effort.cache_bytes`."""
        return type(self).solve_kernel is Machine.solve_kernel

    @staticmethod
    def default_scheme(kernel: str) -> str:
        """How more than two classes are trained unless the user says: LIBLINEAR's habit, else LIBSVM's."""
        return "ovr" if kernel == "linear" else "ovo"

    def parameters(self) -> dict[str, Any]:
        """The machine's own entries of the report and the model file, by its line of the table."""
        known: dict[str, Any] = {"C": self.C, "lambda": self.lambda_}
        values = {
            name: known[name] if name in known else getattr(self.options, name)
            for name in MACHINE_PARAMETERS[self.name]
        }
        return {name: value if isinstance(value, str) else float(value) for name, value in values.items()}

    def extras(self, results: list[SolverResult]) -> dict[str, tuple[float, ...]]:
        """Optional parts of the model, a number per output: see model/extras.py."""
        return {}

    def loss(self) -> MarginLoss:
        raise NotImplementedError

    def costs(self, weights: Floats) -> Floats:
        """The weight of each row's loss."""
        raise NotImplementedError

    def start_duals(self, margins: Floats, task: Task, threads: int) -> Floats:
        """Dual variables that the margins under another model suggest."""
        from odmlib.solvers.dcd import duals_from_margins

        return duals_from_margins(margins, self.costs(task.weights), self.loss(), threads)

    def linear_engine(self) -> Callable[..., SolverResult]:
        """What trains linear machines of this loss; called as solvers.linear.solve_linear is."""
        from odmlib.solvers.linear import solve_linear

        return solve_linear

    def solve_linear(self, rows: Rows, task: Task, effort: Effort, start: Floats | None) -> SolverResult:
        """`rows` are the task's; `start` are weights to begin from. The result has weights and margins."""
        return self.linear_engine()(
            rows,
            task.signs,
            self.costs(task.weights),
            self.loss(),
            effort.control,
            solver=self.options.solver,
            shrinking=self.options.shrinking,
            threads=effort.threads,
            seed=self.options.seed,
            start=start,
        )

    def wants_wide_rows(self, kernel: Kernel, weights: Floats) -> bool:
        """Whether the solver may ask for kernel rows of float64; caches are made for that."""
        from odmlib.solvers.working_set import float32_is_too_coarse, stiffness

        return not self.shares_cache or float32_is_too_coarse(
            kernel, stiffness(self.loss()) * self.costs(weights)
        )

    def start_from(self, last: SolverResult, task: Task) -> Begin | None:
        """Where to begin `solve_kernel`, made of the result for the same task at another C.

        The multiple t a of its duals a with the largest dual value; its scores are t times theirs.
        """
        from odmlib.solvers.working_set import best_multiple_of

        assert last.duals is not None and last.margins is not None
        loss, costs = self.loss(), self.costs(task.weights)
        t = best_multiple_of(last.duals, last.margins, costs, loss)
        if t == 0:
            return None
        duals = t * last.duals
        if not loss.smooth:
            duals = np.minimum(duals, costs)  # a last digit above would be outside of the conjugate's domain
        return Begin(duals, t * task.signs * last.margins)

    def solve_kernel(self, kernel: Kernel, task: Task, effort: Effort, start: Begin | None) -> SolverResult:
        """`kernel` is between the task's rows.

        The result has margins, and duals: f = sum_i y_i dual_i k(x_i, .) - offset.
        """
        from odmlib.solvers.working_set import solve_working_set

        return solve_working_set(
            kernel,
            task.signs,
            self.costs(task.weights),
            self.loss(),
            effort.control,
            cache_bytes=effort.cache_bytes,
            shrinking=self.options.shrinking and kernel.shift == 0,
            threads=effort.threads,
            seed=self.options.seed,
            start=None if start is None else start.duals,
            start_scores=None if start is None else start.scores,
            cache=effort.cache,
        )
