"""mcODM, the multi-class optimal margin distribution machine: all classes in one problem (spec/mcodm.md).

    min_w  1/2 sum_l |w_l|^2 + C / (1-theta)^2 sum_i s_i [ max(0, 1-theta-z_i)^2 + nu max(0, z_i-1-theta)^2 ]

with margins z_i = f_y(x_i) - max over the other classes l of f_l(x_i). solvers/joint.py says how. Two
classes with the default relaxation are binary ODM of twice the C: w_1 = -w_2 = u/2 and half its
objective.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from odmlib.data.dataset import Dataset
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.fitting import Fit, KernelData, LinearData
from odmlib.machines.machine import Effort, Floats, Task
from odmlib.machines.odm import Odm
from odmlib.machines.starting import Start
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, SolverResult, relative_gap

WeightsOf = Callable[[Task, NDArray[np.int32], float], Floats | None]


class Mcodm(Odm):
    name = "mcodm"


class _TwoClasses(Mcodm):
    """The binary machine that two classes amount to."""

    def costs(self, weights: Floats) -> Floats:
        return 2 * super().costs(weights)


class _PairStart(Start):
    """A model with a function for each of two labels, read as the binary machine's: their difference."""

    def weights(self, task: Task, columns: NDArray[np.int32], bias: float) -> Floats | None:
        weights = _start_weights(columns, bias, super().weights, 2)
        return None if weights is None else weights[:, 0] - weights[:, 1]

    def margins(self, task: Task, rows: Dataset, threads: int) -> Floats:
        scores = self.scores(rows, threads)
        return task.signs * (scores[:, 0] - scores[:, 1])


def fit_mcodm(
    problem: Problem, formula: KernelFormula, options: TrainOptions, control: Control, init: Model | None
) -> Fit:
    """Train on a problem of two or more classes."""
    problem.require_classes("mcodm")
    start = None if init is None else Start(init, problem, "joint")
    effort = Effort(control, options.n_threads, options.cache_bytes)
    two = len(problem.labels) == 2 and options.relaxation == "majorise"
    machine = (_TwoClasses if two else Mcodm)(options, problem.total_weight)
    pair = _PairStart(init, problem, "joint") if two and init is not None else None
    data = (LinearData if formula.name == "linear" else KernelData)(machine, problem, formula, "joint", pair)
    if two:
        result, terms = _solve_two(data, problem, effort)
    elif isinstance(data, LinearData):
        result, terms = _solve_linear(data, problem, options, effort, start)
    else:
        result, terms = _solve_kernel(data, problem, options, effort, start)
    parts = [(np.flatnonzero(column), column[column != 0]) for column in terms.T]
    function = data.function(parts, np.zeros(len(parts)))
    margins = result.margins
    assert margins is not None
    result.weights = result.duals = result.margins = None
    return Fit("joint", function, [result], [], margins, machine.parameters())


def _solve_two(
    data: LinearData | KernelData, problem: Problem, effort: Effort
) -> tuple[SolverResult, Floats]:
    task = Task(0, (0, 1), problem.signs(), problem.weights)
    result = data.solve(task, effort)
    if isinstance(data, LinearData):
        assert result.weights is not None
        column = 0.5 * result.weights
    else:
        assert result.duals is not None
        column = 0.5 * task.signs * result.duals
    gap = result.primal - result.dual
    result.primal, result.dual = 0.5 * result.primal, 0.5 * result.dual
    result.gap = relative_gap(result.primal, 0.5 * gap)
    result.details |= {
        "relaxation": "majorise",
        "objective": result.primal,
        "relaxed": result.primal,
        "dual": result.dual,
        "outer_steps": 0,
        "misplaced": 0,
    }
    return result, np.c_[column, -column]


def _solve_linear(
    data: LinearData, problem: Problem, options: TrainOptions, effort: Effort, start: Start | None
) -> tuple[SolverResult, Floats]:
    from odmlib.solvers.joint import solve_joint

    n_classes = len(problem.labels)
    weights = None
    if start is not None:
        weights = _start_weights(data.columns, data.bias, start.weights, n_classes)
        if weights is None:
            raise ParameterError(
                "the model to start from has a kernel; linear mcodm starts from linear models"
            )
    result = solve_joint(
        data.rows,
        problem.codes,
        n_classes,
        data.machine.costs(problem.weights),
        effort.control,
        nu=options.nu,
        theta=options.theta,
        relaxation=options.relaxation,
        solver=options.solver,
        shrinking=options.shrinking,
        threads=effort.threads,
        seed=options.seed,
        start=weights,
    )
    assert result.weights is not None
    return result, result.weights


def _solve_kernel(
    data: KernelData, problem: Problem, options: TrainOptions, effort: Effort, start: Start | None
) -> tuple[SolverResult, Floats]:
    from odmlib.solvers.joint_kernel import solve_joint_kernel

    result = solve_joint_kernel(
        data.kernel,
        problem.codes,
        len(problem.labels),
        data.machine.costs(problem.weights),
        effort.control,
        cache_bytes=effort.cache_bytes,
        nu=options.nu,
        theta=options.theta,
        relaxation=options.relaxation,
        threads=effort.threads,
        seed=options.seed,
        start=None if start is None else start.scores(problem.rows, effort.threads),
    )
    assert result.duals is not None
    result.details["shift"] = data.kernel.shift
    return result, result.duals


def _start_weights(
    columns: NDArray[np.int32], bias: float, weights_of: WeightsOf, n_classes: int
) -> Floats | None:
    """Weights of another linear model, a column per class; None where it is not linear."""
    nothing = np.zeros(0)
    found = [
        weights_of(Task(code, (code, None), nothing, nothing), columns, bias) for code in range(n_classes)
    ]
    known = [weights for weights in found if weights is not None]
    return np.stack(known, axis=1) if len(known) == n_classes else None
