"""mcODM, the multi-class optimal margin distribution machine: all classes in one problem.

    min_w  1/2 sum_l |w_l|^2 + C / (1-theta)^2 sum_i s_i [ max(0, 1-theta-z_i)^2 + nu max(0, z_i-1-theta)^2 ]

with margins z_i = f_y(x_i) - max over the other classes l of f_l(x_i). solvers/multiclass/problem.py says
how, docs/internals/mathematics.md ("mcODM") why. Two classes with the default relaxation are binary ODM of
twice the C: w_1 = -w_2 = u/2 and half its objective.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib.data.dataset import Dataset
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.losses.sums import values
from odmlib.machines.fitting import Fit, KernelData, LinearData
from odmlib.machines.machine import Floats, Task
from odmlib.machines.odm import Odm
from odmlib.machines.starting import Start
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart, relative_gap

BOUND_CONFIDENCE = 0.95


class _TwoClasses(Odm):
    """The binary machine that two classes amount to."""

    def costs(self, weights: Floats) -> Floats:
        return 2 * super().costs(weights)


class _PairStart(Start):
    """A model with a function for each of two labels, read as the binary machine's: their difference."""

    def weights(self, task: Task, columns: NDArray[np.int32], bias: float) -> Floats | None:
        weights = self.class_weights(columns, bias)
        return None if weights is None else weights[:, 0] - weights[:, 1]

    def margins(self, task: Task, rows: Dataset, threads: int) -> Floats:
        scores = self.scores(rows, threads)
        return task.signs * (scores[:, 0] - scores[:, 1])


def fit(
    problem: Problem, formula: KernelFormula, options: TrainOptions, control: Control, init: Model | None
) -> Fit:
    """Train on a problem of two or more classes."""
    resources = Resources(options.n_threads, options.cache_bytes, seed=options.seed)
    two = len(problem.labels) == 2 and options.relaxation == "majorise"
    machine = (_TwoClasses if two else Odm)(options, problem.total_weight)
    start = None if init is None else (_PairStart if two else Start)(init, problem, "joint")
    data = (LinearData if formula.name == "linear" else KernelData)(machine, problem, formula, "joint", start)
    result, terms = (_solve_two if two else _solve_joint)(data, control, resources)
    parts = [(np.flatnonzero(column), column[column != 0]) for column in terms.T]
    function = data.function(parts, np.zeros(len(parts)))
    margins = result.margins
    if (problem.weights == 1).all():  # the theorem is about rows that count alike
        lengths = data.rows.squared_norms() if isinstance(data, LinearData) else data.kernel.diagonal()
        result.details["generalisation_bound"] = _bound(result, machine, problem, lengths)
    result.weights = result.duals = result.margins = None
    return Fit("joint", function, [result], [], margins, machine.parameters())


def _bound(result: SolverResult, machine: Odm, problem: Problem, squared_lengths: Floats) -> dict[str, float]:
    """Theorem 1 of the paper, with the norm of the trained machine: a number far above 1 in practice."""
    margins, m, theta = result.margins, len(result.margins), machine.options.theta
    losses = float(values(machine.loss(), margins, Odm.costs(machine, problem.weights)).sum())
    squared_norm = 2 * max(0.0, result.details["objective"] - losses)
    radius = math.sqrt(float(squared_lengths.max()))
    terms = {
        "loss": float(np.square(np.clip(1 - margins / (1 - theta), 0.0, 1.0)).mean()),
        "complexity": 16 * radius * math.sqrt(squared_norm * 2 * math.pi * len(problem.labels) / m)
        / (1 - theta),
        "chance": 3 * math.sqrt(math.log(2 / (1 - BOUND_CONFIDENCE)) / (2 * m)),
    }  # fmt: skip
    return {"error": sum(terms.values()), "confidence": BOUND_CONFIDENCE} | terms


def _solve_two(
    data: LinearData | KernelData, control: Control, resources: Resources
) -> tuple[SolverResult, Floats]:
    task = Task(0, (0, 1), data.problem.signs(), data.problem.weights)
    result = data.solve(task, control, resources)
    column = 0.5 * (result.weights if isinstance(data, LinearData) else task.signs * result.duals)
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


def _solve_joint(
    data: LinearData | KernelData, control: Control, resources: Resources
) -> tuple[SolverResult, Floats]:
    """All classes at once; the result, and a column of weights or coefficients per class."""
    from odmlib.solvers.multiclass.kernel import solve_mcodm_kernel
    from odmlib.solvers.multiclass.linear import solve_mcodm_linear
    from odmlib.solvers.multiclass.problem import McodmProblem

    options, whole, start = data.machine.options, data.problem, data.start
    costs = data.machine.costs(whole.weights)
    rows = data.rows if isinstance(data, LinearData) else data.kernel
    problem = McodmProblem(
        rows, whole.codes, len(whole.labels), costs, options.nu, options.theta, options.relaxation
    )
    if isinstance(data, KernelData):
        scores = None if start is None else start.scores(whole.rows, resources.threads)
        result = solve_mcodm_kernel(problem, control, resources, WarmStart(scores=scores))
        result.details |= {"shift": data.kernel.shift} | data.shift_notes()
        return result, result.duals
    weights = None
    if start is not None:
        weights = start.class_weights(data.columns, data.bias)
        if weights is None:
            raise ParameterError(
                "the model to start from has a kernel; linear mcodm starts from linear models"
            )
    known, shrinking = WarmStart(weights=weights), options.shrinking
    result = solve_mcodm_linear(
        problem, control, resources, known, solver=options.solver, shrinking=shrinking
    )
    return result, result.weights
