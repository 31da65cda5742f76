"""From blocks of rows on a cluster to a model: linear, over landmarks (Nystrom), or by levels."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._version import __version__
from odmlib.data.labels import python_label
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.sodm import USUAL_RANK, Sodm
from odmlib.machines.training import gamma_from
from odmlib.model.functions import Function, KernelFunction, LinearFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, SolverResult
from odmlib.solvers.nystrom import coefficients
from odmlib.spark.blocks import Demands, RowBlock, Whole, joined, storage_level
from odmlib.spark.landmarks import feature_blocks, find_landmarks
from odmlib.spark.levels import solve_levels
from odmlib.spark.limits import check_options
from odmlib.spark.linear import column_factors, scaled_columns, solve_linear
from odmlib.spark.margins import MarginPart, margins_together

if TYPE_CHECKING:
    from pyspark import RDD


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trained:
    result: SolverResult
    function: Function
    margins: list[MarginPart]
    notes: dict[str, Any] = field(default_factory=dict)  # further entries of the report


def train_blocks(
    blocks: RDD,
    options: TrainOptions,
    depth: int = 2,
    demands: Demands | None = None,
    standardize: bool = False,
) -> Model:
    """Train on an RDD of RowBlock and Fault; `depth`: of the tree of sums.

    `standardize` (linear machines): columns are divided by their standard deviations, and so are the weights
    afterwards; objective and gap are those of the divided columns. A column that never changes has no weight.
    """
    started = time.perf_counter()
    check_options(options)
    control = Control(options.tol, options.max_iter, options.time_limit, options.callback)
    blocks = blocks.persist(storage_level())
    n_partitions = blocks.getNumPartitions()
    try:
        summaries = blocks.map(lambda block: block.summary).collect()
        assert not isinstance(options.class_weight, str)  # no caller lets it be
        whole = joined(summaries, n_partitions, demands or Demands(), options.class_weight)
        formula = KernelFormula(
            options.kernel,
            gamma_from(options, whole.n_features, lambda: whole.variance),
            int(options.degree),
            float(options.coef0),
            options.bias_value,
        )
        machine = Sodm(replace(options, callback=None, init=None), whole.total_weight)
        rows = blocks
        if len({summary.n_features for summary in summaries}) > 1:
            width = whole.n_features
            rows = blocks.map(lambda block: replace(block, rows=block.rows.with_features(width)))
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
            factors = column_factors(rows, whole.n_features, depth) if standardize else None
            if factors is not None:
                rows = rows.map(lambda block: replace(block, rows=scaled_columns(block.rows, factors)))
            trained = _train(rows, machine, formula, whole, depth, control)
            if factors is not None:
                trained = replace(trained, function=_in_old_columns(trained.function, factors))
    finally:
        blocks.unpersist()
    return _model(trained, machine, formula, whole, options, n_partitions, time.perf_counter() - started)


def _train(
    blocks: RDD, machine: Sodm, formula: KernelFormula, whole: Whole, depth: int, control: Control
) -> Trained:
    if formula.name == "linear":
        result, margins = solve_linear(blocks, machine, whole, whole.n_features, formula.bias, depth, control)
        _require_finite(result)
        assert result.weights is not None
        weights, bias = result.weights[: whole.n_features], formula.bias
        used = np.flatnonzero(weights).astype(np.int32)
        function = LinearFunction(used, weights[used], bias, result.weights[-1] if bias > 0 else 0.0)
        return Trained(result, function, margins)
    if machine.options.approx == "nystrom":
        return _train_nystrom(blocks, machine, formula, whole, depth, control)
    result, vectors, margins = solve_levels(blocks, machine, formula, whole, control)
    _require_finite(result)
    expansion = KernelFunction(formula, vectors.rows, vectors.signs * vectors.duals, rows=vectors.places)
    return Trained(result, expansion, margins, {"levels": result.details.pop("levels")})


def _train_nystrom(
    blocks: RDD, machine: Sodm, formula: KernelFormula, whole: Whole, depth: int, control: Control
) -> Trained:
    options = machine.options
    found = find_landmarks(blocks, whole, formula, options.rank or USUAL_RANK, options.seed)
    featured = feature_blocks(blocks, found, formula).persist(storage_level())
    try:
        traces = featured.map(lambda pair: (pair[0].number, pair[1])).collect()
        diagonal, left = (math.fsum(trace[k] for _, trace in traces) for k in range(2))
        rank = found.rows.n_rows
        features: Any = featured.map(_features)
        result, margins = solve_linear(features, machine, whole, rank, 0.0, depth, control)
    finally:
        featured.unpersist()
    _require_finite(result)
    assert result.weights is not None
    result.solver = f"nystrom+{result.solver}"
    approximation = {"method": "nystrom", "rank": rank, "trace_error": left / diagonal}
    result.details["approximation"] = approximation
    function = KernelFunction(formula, found.rows, coefficients(found.factor, result.weights))
    return Trained(result, function, margins, {"approximation": approximation})


def _in_old_columns(function: Function, factors: Floats) -> LinearFunction:
    """Weights of columns that were multiplied by these factors, as weights of the columns themselves."""
    assert isinstance(function, LinearFunction)
    weights = function.weights[:, 0] * factors[function.columns]
    return LinearFunction(function.columns, weights, function.bias, function.bias_weights)


def _features(pair: tuple[RowBlock, object]) -> RowBlock:
    return pair[0]


def _require_finite(result: SolverResult) -> None:
    if not math.isfinite(result.primal):
        raise ParameterError("training diverges; scale the features or lower C")


def _model(
    trained: Trained,
    machine: Sodm,
    formula: KernelFormula,
    whole: Whole,
    options: TrainOptions,
    n_partitions: int,
    seconds: float,
) -> Model:
    result = trained.result
    numbers = {"gamma": formula.gamma, "degree": formula.degree, "coef0": formula.coef0}
    parameters = machine.parameters() | {"bias": formula.bias, "tol": float(options.tol)}
    parameters |= {name: numbers[name] for name in formula.parameter_names}
    labels = whole.classes.labels
    model = Model(options.machine, formula, labels, whole.n_features, trained.function, parameters, {})
    right = [sum(part.right[side] for part in trained.margins) for side in (0, 1)]
    model.report.update(
        {
            "version": __version__,
            "machine": model.machine,
            "kernel": formula.name,
            "parameters": dict(parameters),
            "rows": whole.n_rows,
            "features": whole.n_features,
            "nonzeros": whole.n_nonzeros,
            "scheme": model.scheme,
            "labels": [python_label(label) for label in labels],
            "status": result.status,
            "solver": result.solver,
            "iterations": result.iterations,
            "primal": result.primal,
            "dual": result.dual,
            "gap": result.gap,
            "seconds": {"read": None, "train": seconds, "write": None},
            "threads": None,
            "seed": options.seed,
            "support_vectors": model.n_support,
            "margin": margins_together(trained.margins),
            "details": result.details
            | {
                "blocks": whole.n_blocks,
                "spark_partitions": n_partitions,
                "class_rows": list(whole.class_rows),
                "right": right,
            },
        }
        | trained.notes
    )
    return model
