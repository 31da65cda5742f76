"""ODM, the optimal margin distribution machine (spec/odm.md).

    min_w  1/2 |w|^2 + C / (1-theta)^2 sum_i s_i [ max(0, 1-theta-z_i)^2 + nu max(0, z_i-1-theta)^2 ]

with margins z_i = y_i f(x_i) and row weights s_i: margins are pulled into the band [1-theta, 1+theta],
from above nu times as strongly as from below. lambda = C sum_i s_i is the papers' weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odmlib.data.labels import show_labels
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.losses.loss import BandLoss
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, SolverResult

Floats = NDArray[np.float64]


def fit_odm(
    problem: Problem, formula: KernelFormula, options: TrainOptions, control: Control, init: Model | None
) -> tuple[Function, SolverResult]:
    """Train on a problem of two classes."""
    problem.require_two_classes("odm")
    if not problem.weights.any():
        raise ParameterError("every row has weight 0 (row weight times class weight); nothing to train on")
    C, _ = options.weights_for(problem.total_weight)
    loss = BandLoss(options.theta, options.nu)
    costs = C * problem.weights / (1 - options.theta) ** 2
    fit = _fit_linear if formula.name == "linear" else _fit_kernel
    return fit(problem, costs, loss, formula, options, control, init)


def _fit_linear(
    problem: Problem,
    costs: Floats,
    loss: BandLoss,
    formula: KernelFormula,
    options: TrainOptions,
    control: Control,
    init: Model | None,
) -> tuple[Function, SolverResult]:
    from odmlib._core.rows import Rows
    from odmlib.solvers.linear import solve_linear

    dataset, y = problem.rows, problem.signs()
    columns = np.arange(min(dataset.n_features, dataset.n_nonzeros + 1), dtype=np.int32)
    if dataset.n_features > len(columns):  # more columns than values: most are empty
        columns = dataset.used_columns()
        dataset = dataset.on_columns(columns)
    rows = Rows(dataset, formula.bias)
    start = None
    if init is not None and isinstance(init.function, LinearFunction):
        start = _direction(init, problem) * _start_weights(init.function, columns, formula.bias)
    elif init is not None:
        start = rows.transposed_product(y * _start_duals(init, problem, costs, loss, options.n_threads))
    result = solve_linear(
        rows,
        y,
        costs,
        loss,
        control,
        solver=options.solver,
        shrinking=options.shrinking,
        threads=options.n_threads,
        seed=options.seed,
        start=start,
    )
    w = result.weights
    assert w is not None
    bias_weight = float(w[-1]) if formula.bias else 0.0
    weights = w[: len(columns)]
    used = weights != 0
    return LinearFunction(columns[used], weights[used], formula.bias, bias_weight), result


def _fit_kernel(
    problem: Problem,
    costs: Floats,
    loss: BandLoss,
    formula: KernelFormula,
    options: TrainOptions,
    control: Control,
    init: Model | None,
) -> tuple[Function, SolverResult]:
    from odmlib.kernels.kernel import Kernel
    from odmlib.kernels.shift import needed_shift
    from odmlib.solvers.working_set import solve_working_set

    dataset, y = problem.rows, problem.signs()
    precomputed = formula.name == "precomputed"
    kernel = Kernel(formula, dataset.to_dense() if precomputed else dataset, options.n_threads)
    kernel.shift_diagonal(needed_shift(kernel, options.seed))
    start = None if init is None else _start_duals(init, problem, costs, loss, options.n_threads)
    result = solve_working_set(
        kernel,
        y,
        costs,
        loss,
        control,
        cache_bytes=options.cache_bytes,
        shrinking=options.shrinking and kernel.shift == 0,
        threads=options.n_threads,
        seed=options.seed,
        start=start,
    )
    assert result.duals is not None and result.margins is not None
    result.margins = result.margins - kernel.shift * result.duals  # as a new row in the same place has it
    result.details["shift"] = kernel.shift
    support = np.flatnonzero(result.duals)
    coefficients = (y * result.duals)[support]
    if precomputed:
        return PrecomputedFunction(support + 1, coefficients, formula.bias), result
    return KernelFunction(formula, dataset.take(support), coefficients), result


def _direction(init: Model, problem: Problem) -> float:
    """+1 or -1, as the model to start from takes the same label first or the other one."""
    theirs, ours = init.labels.tolist(), problem.labels.tolist()
    if theirs == ours:
        return 1.0
    if theirs == ours[::-1]:
        return -1.0
    raise ParameterError(
        f"the model to start from has labels {show_labels(init.labels)}, "
        f"the data have {show_labels(problem.labels)}"
    )


def _start_weights(function: LinearFunction, columns: NDArray[np.int32], bias: float) -> Floats:
    """Another linear machine's weights on the given columns, then the bias column's."""
    weights = np.zeros(len(columns) + (1 if bias else 0))
    _, ours, theirs = np.intersect1d(columns, function.columns, assume_unique=True, return_indices=True)
    weights[ours] = function.weights[theirs]
    if bias:
        weights[-1] = function.bias * function.bias_weight / bias
    return weights


def _start_duals(init: Model, problem: Problem, costs: Floats, loss: BandLoss, threads: int) -> Floats:
    """Dual variables that another model suggests: a_i = -loss'(margin under it), exact at the optimum."""
    from odmlib.solvers.dcd import duals_from_margins

    rows = problem.rows
    if init.formula.name != "precomputed":  # columns that only one of the two knows do no harm
        rows = rows.with_features(init.n_features)
    scores = _direction(init, problem) * init.decision_function(rows, threads)
    return duals_from_margins(problem.signs() * scores, costs, loss, threads)
