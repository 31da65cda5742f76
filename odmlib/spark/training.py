"""From blocks of rows on a cluster to a model: linear, over landmarks (Nystrom), or by levels."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.building import all_parameters, formula_for, report_of
from odmlib.machines.many_rows import USUAL_RANK
from odmlib.machines.sodm import Sodm
from odmlib.machines.starting import weights_on
from odmlib.model.functions import Function, KernelFunction, LinearFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Callback, Control, Progress, SolverResult, WarmStart
from odmlib.solvers.distributed.landmarks import coefficients
from odmlib.spark.barrier import slots, together
from odmlib.spark.blocks import Whole, joined
from odmlib.spark.engine import Kept, Spread
from odmlib.spark.landmarks import feature_blocks, find_landmarks
from odmlib.spark.levels import ClusterProblem, LevelRun, strata_blocks
from odmlib.spark.limits import BARRIER, JOBS, check_options
from odmlib.spark.linear import column_factors, scaled_columns, solve_linear
from odmlib.spark.margins import MarginPart, margins_together

# the results, the function, the margins of the blocks, and further entries of the report
Trained = tuple[list[SolverResult], Function, list[MarginPart], dict[str, Any]]


def train_blocks(
    blocks: Spread,
    options: TrainOptions,
    depth: int = 2,
    files: bool = False,
    standardize: bool = False,
    init: Model | None = None,
    engine: str = JOBS,
    validation_tol: float = 0.0,
) -> Model:
    """Train on pairs of a RowBlock or Fault and its summary, of `files` or of a data frame; `depth`: of the
    tree of sums.

    `standardize` (linear machines): columns are divided by their standard deviations, and so are the weights
    afterwards; objective and gap are those of the divided columns. A column that never changes has no weight.
    `init`: a linear machine to begin from. `engine`: a job for every round, or one barrier stage for all of
    them, which tells of its progress only afterwards. `validation_tol`: part of the loss of the rows to
    validate with by which it must fall for training to go on.
    """
    started = time.perf_counter()
    check_options(options, engine)
    settings = Settings(options.but(callback=None), depth, files, standardize, init, validation_tol)
    if engine == BARRIER:
        model, told = _train_in_stage(settings, blocks, started)
        if options.callback is not None:
            for progress in told:
                options.callback(progress)
    else:
        model = _train_spread(settings, blocks, 0.0, options.callback)
    model.report["seconds"]["train"] = time.perf_counter() - started
    return model


class Settings(NamedTuple):
    """The arguments of train_blocks."""

    options: TrainOptions
    depth: int
    files: bool
    standardize: bool
    init: Model | None
    validation_tol: float


def _train_in_stage(settings: Settings, blocks: Spread, started: float) -> tuple[Model, list[Progress]]:
    def train(blocks: Spread) -> tuple[Model, list[Progress]]:
        told: list[Progress] = []
        return _train_spread(settings, blocks, spent, told.append), told

    options, spent = settings.options, time.perf_counter() - started
    if options.solver != "dsvrg":
        return together(blocks, train)
    kept = blocks.kept()
    try:
        problem, rows = _problem_of(kept, settings)
        n = min(options.partitions or slots(blocks.frame), problem.whole.n_rows)
        dealt = strata_blocks(rows, problem, n)
        spent = time.perf_counter() - started
        return together(dealt, train)
    finally:
        kept.release()


def _train_spread(settings: Settings, blocks: Spread, spent: float, callback: Callback | None) -> Model:
    """`spent`: seconds before this."""
    options = settings.options
    started = time.perf_counter() - spent
    control = Control(options.tol, options.max_iter, options.time_limit, callback, started)
    kept = blocks.kept()
    try:
        problem, rows = _problem_of(kept, settings)
        whole, formula = problem.whole, problem.formula
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
            results, function, margins, notes = _train(rows, problem, control, settings)
    finally:
        kept.release()
    parameters = all_parameters(problem.machine.parameters(), formula, options)
    labels = whole.classes.labels
    scheme = "binary" if whole.classes.tasks == 1 else "ovr"
    model = Model(options.machine, formula, labels, whole.n_features, function, parameters, {}, scheme=scheme)
    counts: dict[str, Any] = {
        "blocks": whole.n_blocks,
        "class_rows": list(whole.class_rows),
        "right": [sum(part.right[side] for part in margins) for side in range(len(labels))],
    }
    if whole.held_weight:
        counts["validation"] = [result.details["validation"] for result in results]
    seconds = time.perf_counter() - started
    entries = {
        "rows": whole.n_rows,
        "nonzeros": whole.n_nonzeros,
        "threads": None,
        "margin": margins_together(margins),
        "details": results[0].details | counts,
    }
    model.report.update(report_of(model, results, seconds, options.seed, **entries, **notes))
    return model


def _problem_of(kept: Kept, settings: Settings) -> tuple[ClusterProblem, Spread]:
    """What is known of all rows, and the blocks at one width."""
    options = settings.options
    summaries = [summary for _, summary in kept.notes()]
    assert not isinstance(options.class_weight, str)  # no caller lets it be
    whole = joined(summaries, settings.files, options.class_weight)
    formula = formula_for(options, whole.n_features, lambda: whole.variance, lambda: math.nan)
    machine = Sodm(replace(options, init=None), whole.total_weight)
    rows = kept.objects
    if len({summary.n_features for summary in summaries}) > 1:
        width = whole.n_features
        rows = rows.map(lambda block: block.with_rows(lambda some: some.with_features(width)))
    return ClusterProblem(machine, formula, whole), rows


def _train(blocks: Spread, problem: ClusterProblem, control: Control, settings: Settings) -> Trained:
    _, depth, _, standardize, init, validation_tol = settings
    machine, formula, whole = problem.machine, problem.formula, problem.whole
    if formula.name == "linear":
        n_features, bias = whole.n_features, formula.bias
        factors = np.ones(n_features)
        if standardize:
            factors = column_factors(blocks, whole, depth)
            blocks = blocks.map(lambda block: block.with_rows(lambda rows: scaled_columns(rows, factors)))
        start = None if init is None else WarmStart(_first_weights(init, whole, bias, factors))
        results, margins = solve_linear(
            blocks, machine, whole, n_features, bias, depth, control, start, validation_tol
        )
        _require_finite(results)
        found = np.stack([result.weights for result in results], axis=1)
        weights = factors[:, None] * found[:n_features]  # of the columns as they were
        used = np.flatnonzero(weights.any(axis=1)).astype(np.int32)
        function = LinearFunction(
            used, weights[used], bias, found[-1] if bias > 0 else np.zeros(len(results))
        )
        return results, function, margins, {}
    if machine.options.approx == "nystrom":
        return _train_nystrom(blocks, machine, formula, whole, depth, control, validation_tol)
    if whole.classes.tasks > 1:
        n_classes = whole.classes.tasks
        raise ParameterError(
            f"kernel machines by levels are for two classes, found {n_classes}; approx nystrom is for more"
        )
    result, vectors, margins = LevelRun(blocks, problem, control).solve()
    _require_finite([result])
    expansion = KernelFunction(formula, vectors.rows, vectors.signs * vectors.duals, rows=vectors.places)
    return [result], expansion, margins, {"levels": result.levels}


def _first_weights(init: Model, whole: Whole, bias: float, factors: Floats) -> Floats:
    """Of the divided columns, then the bias column's."""
    theirs, ours = init.labels.tolist(), whole.classes.labels.tolist()
    if len(ours) > 2:
        raise ParameterError("a model to start from is for two classes")
    if sorted(theirs) != sorted(ours) or not isinstance(init.function, LinearFunction):
        raise ParameterError("the model to start from must be linear, with the labels of the data")
    if init.n_features != whole.n_features:
        raise ParameterError(
            f"the model to start from has {init.n_features} features, the data have {whole.n_features}"
        )
    weights = weights_on(np.arange(whole.n_features, dtype=np.int32), bias, init.function)
    some = factors > 0
    weights[: len(factors)][some] /= factors[some]
    return weights if theirs == ours else -weights


def _train_nystrom(
    blocks: Spread,
    machine: Sodm,
    formula: KernelFormula,
    whole: Whole,
    depth: int,
    control: Control,
    validation_tol: float,
) -> Trained:
    options = machine.options
    found = find_landmarks(blocks, whole, formula, options.rank or USUAL_RANK, options.seed)
    kept = feature_blocks(blocks, found, formula).kept()
    try:
        traces = kept.notes()
        diagonal, left = (math.fsum(trace[k] for _, trace in traces) for k in range(2))
        rank = found.rows.n_rows
        numbered = replace(whole, first_rows={number: 0 for number, _ in traces})
        results, margins = solve_linear(
            kept.objects, machine, numbered, rank, 0.0, depth, control, None, validation_tol
        )
    finally:
        kept.release()
    _require_finite(results)
    approximation = {"method": "nystrom", "rank": rank, "trace_error": left / diagonal}
    for result in results:
        result.solver = f"nystrom+{result.solver}"
        result.details["approximation"] = approximation
    columns = [coefficients(found.factor, result.weights) for result in results]
    function = KernelFunction(formula, found.rows, np.stack(columns, axis=1))
    return results, function, margins, {"approximation": approximation}


def _require_finite(results: list[SolverResult]) -> None:
    if not all(math.isfinite(result.primal) for result in results):
        raise ParameterError("training diverges; scale the features or lower C")
