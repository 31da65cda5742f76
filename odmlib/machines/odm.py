"""ODM, the optimal margin distribution machine (spec/odm.md).

    min_w  1/2 |w|^2 + C / (1-theta)^2 sum_i s_i [ max(0, 1-theta-z_i)^2 + nu max(0, z_i-1-theta)^2 ]

with margins z_i = y_i f(x_i) and row weights s_i: margins are pulled into the band [1-theta, 1+theta],
from above nu times as strongly as from below. lambda = C sum_i s_i is the papers' weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odmlib.data.dataset import Dataset
from odmlib.data.problem import Problem
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
    C, _ = options.weights_for(problem.total_weight)
    loss = BandLoss(options.theta, options.nu)
    costs = C * problem.weights / (1 - options.theta) ** 2
    y = problem.signs()
    fit = _fit_linear if formula.name == "linear" else _fit_kernel
    return fit(problem.rows, y, costs, loss, formula, options, control, init)


def _fit_linear(
    dataset: Dataset,
    y: Floats,
    costs: Floats,
    loss: BandLoss,
    formula: KernelFormula,
    options: TrainOptions,
    control: Control,
    init: Model | None,
) -> tuple[Function, SolverResult]:
    from odmlib._core.rows import Rows
    from odmlib.solvers.linear import solve_linear

    columns = np.arange(min(dataset.n_features, dataset.n_nonzeros + 1), dtype=np.int32)
    if dataset.n_features > len(columns):  # more columns than values: most are empty
        columns = dataset.used_columns()
        dataset = dataset.on_columns(columns)
    rows = Rows(dataset, formula.bias)
    start = None
    if init is not None:
        start = rows.transposed_product(y * _start_duals(init, dataset, columns, y, costs, loss), 1)
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
    dataset: Dataset,
    y: Floats,
    costs: Floats,
    loss: BandLoss,
    formula: KernelFormula,
    options: TrainOptions,
    control: Control,
    init: Model | None,
) -> tuple[Function, SolverResult]:
    from odmlib.kernels.kernel import Kernel
    from odmlib.solvers.working_set import solve_working_set

    precomputed = formula.name == "precomputed"
    kernel = Kernel(formula, dataset.to_dense() if precomputed else dataset, options.n_threads)
    start = None if init is None else _start_duals(init, dataset, None, y, costs, loss)
    result = solve_working_set(
        kernel,
        y,
        costs,
        loss,
        control,
        cache_bytes=options.cache_bytes,
        shrinking=options.shrinking,
        threads=options.n_threads,
        seed=options.seed,
        start=start,
    )
    assert result.duals is not None
    support = np.flatnonzero(result.duals)
    coefficients = (y * result.duals)[support]
    if precomputed:
        return PrecomputedFunction(support + 1, coefficients, formula.bias), result
    return KernelFunction(formula, dataset.take(support), coefficients), result


def _start_duals(
    init: Model,
    dataset: Dataset,
    columns: NDArray[np.int32] | None,
    y: Floats,
    costs: Floats,
    loss: BandLoss,
) -> Floats:
    """Dual variables that another model suggests: a_i = -loss'(margin under it), exact at the optimum."""
    from odmlib.losses.sums import slopes_and_curvatures

    if columns is not None and dataset.n_features < init.n_features:
        dataset = Dataset(dataset.indptr, columns[dataset.indices], dataset.values, init.n_features)
    scores = init.decision_function(dataset.with_features(init.n_features), threads=1)
    _, slopes, _ = slopes_and_curvatures(loss, y * scores, costs)
    return -slopes
