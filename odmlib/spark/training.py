"""From blocks of rows on a cluster to a model: linear, over landmarks (Nystrom), or by levels."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.building import all_parameters, formula_for, report_of
from odmlib.machines.sodm import USUAL_RANK, Sodm
from odmlib.model.functions import Function, KernelFunction, LinearFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, SolverResult
from odmlib.solvers.distributed.landmarks import coefficients
from odmlib.spark.blocks import Whole, joined, storage_level
from odmlib.spark.landmarks import feature_blocks, find_landmarks
from odmlib.spark.levels import ClusterProblem, LevelRun
from odmlib.spark.limits import check_options
from odmlib.spark.linear import column_factors, scaled_columns, solve_linear
from odmlib.spark.margins import MarginPart, margins_together

if TYPE_CHECKING:
    from pyspark import RDD


# the result, the function, the margins of the blocks, and further entries of the report
Trained = tuple[SolverResult, Function, list[MarginPart], dict[str, Any]]


def train_blocks(
    blocks: RDD,
    options: TrainOptions,
    depth: int = 2,
    files: bool = False,
    standardize: bool = False,
) -> Model:
    """Train on an RDD of RowBlock and Fault, of `files` or of a data frame; `depth`: of the tree of sums.

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
        whole = joined(summaries, n_partitions, files, options.class_weight)
        formula = formula_for(options, whole.n_features, lambda: whole.variance, lambda: math.nan)
        machine = Sodm(replace(options, callback=None, init=None), whole.total_weight)
        rows = blocks
        if len({summary.n_features for summary in summaries}) > 1:
            width = whole.n_features
            rows = blocks.map(lambda block: replace(block, rows=block.rows.with_features(width)))
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
            result, function, margins, notes = _train(
                rows, machine, formula, whole, depth, control, standardize
            )
    finally:
        blocks.unpersist()
    parameters = all_parameters(machine.parameters(), formula, options)
    labels = whole.classes.labels
    model = Model(options.machine, formula, labels, whole.n_features, function, parameters, {})
    counts = {
        "blocks": whole.n_blocks,
        "spark_partitions": n_partitions,
        "class_rows": list(whole.class_rows),
        "right": [sum(part.right[side] for part in margins) for side in (0, 1)],
    }
    seconds = time.perf_counter() - started
    entries = {
        "rows": whole.n_rows,
        "nonzeros": whole.n_nonzeros,
        "threads": None,
        "margin": margins_together(margins),
        "details": result.details | counts,
    }
    model.report.update(report_of(model, [result], seconds, options.seed, **entries, **notes))
    return model


def _train(
    blocks: RDD,
    machine: Sodm,
    formula: KernelFormula,
    whole: Whole,
    depth: int,
    control: Control,
    standardize: bool,
) -> Trained:
    if formula.name == "linear":
        n_features, bias = whole.n_features, formula.bias
        factors = np.ones(n_features)
        if standardize:
            factors = column_factors(blocks, n_features, depth)
            blocks = blocks.map(lambda block: replace(block, rows=scaled_columns(block.rows, factors)))
        result, margins = solve_linear(blocks, machine, whole, n_features, bias, depth, control)
        _require_finite(result)
        weights = factors * result.weights[:n_features]  # of the columns as they were
        used = np.flatnonzero(weights).astype(np.int32)
        function = LinearFunction(used, weights[used], bias, result.weights[-1] if bias > 0 else 0.0)
        return result, function, margins, {}
    if machine.options.approx == "nystrom":
        return _train_nystrom(blocks, machine, formula, whole, depth, control)
    problem = ClusterProblem(machine, formula, whole)
    result, vectors, margins = LevelRun(blocks, problem, control).solve()
    _require_finite(result)
    expansion = KernelFunction(formula, vectors.rows, vectors.signs * vectors.duals, rows=vectors.places)
    return result, expansion, margins, {"levels": result.levels}


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
        features: Any = featured.map(lambda pair: pair[0])
        result, margins = solve_linear(features, machine, whole, rank, 0.0, depth, control)
    finally:
        featured.unpersist()
    _require_finite(result)
    result.solver = f"nystrom+{result.solver}"
    approximation = {"method": "nystrom", "rank": rank, "trace_error": left / diagonal}
    result.details["approximation"] = approximation
    function = KernelFunction(formula, found.rows, coefficients(found.factor, result.weights))
    return result, function, margins, {"approximation": approximation}


def _require_finite(result: SolverResult) -> None:
    if not math.isfinite(result.primal):
        raise ParameterError("training diverges; scale the features or lower C")
