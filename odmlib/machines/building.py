"""From options, checked data and a way to fit them to a model with its report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from odmlib._version import __version__
from odmlib.data.dataset import Dataset
from odmlib.data.labels import python_label
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.fitting import Fit
from odmlib.model.margins import margin_summary
from odmlib.model.model import Model
from odmlib.names import STATUSES
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED, Control, SolverResult

# (problem, formula, options, control, model to start from) -> Fit
Fitter = Callable[[Problem, KernelFormula, TrainOptions, Control, Model | None], Fit]


def build_model(problem: Problem, options: TrainOptions, fitter: Fitter) -> Model:
    """Train on checked data with this fitter; never warns."""
    started = time.perf_counter()
    if options.kernel == "precomputed" and problem.rows.n_rows != problem.rows.n_features:
        raise ParameterError(
            "a precomputed kernel must be a square matrix of rows against rows, "
            f"found shape {problem.rows.shape}"
        )
    problem.require_classes(options.machine)
    formula = kernel_formula(problem.rows, options)
    control = Control(options.tol, options.max_iter, options.time_limit, options.callback)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # seen in the objective
        fit = fitter(problem, formula, options, control, _loaded(options.init))
    if not all(math.isfinite(result.primal) for result in fit.results):
        indefinite = formula.name in ("sigmoid", "precomputed")
        raise ParameterError(
            "training diverges; scale the features or lower C (-c)"
            + ("; the kernel may not be positive semidefinite" if indefinite else "")
        )
    parameters = all_parameters(fit.parameters, formula, options)
    model = Model(
        options.machine,
        formula,
        problem.labels,
        problem.rows.n_features,
        fit.function,
        parameters,
        {},
        scheme=fit.scheme,
        extras=dict(fit.extras),
        training_margins=fit.margins,
        assigned=None if fit.assigned is None else problem.labels[fit.assigned],
        columns=None if options.kernel == "precomputed" else problem.columns,
    )
    with np.errstate(over="ignore", invalid="ignore"):  # check_numbers sees it
        model.report.update(_report(model, problem, options, fit, time.perf_counter() - started))
    return model


def kernel_formula(rows: Dataset, options: TrainOptions) -> KernelFormula:
    """The kernel with gamma worked out from the data where the user left that to us."""
    return formula_for(options, rows.n_features, rows.variance, lambda: rows.mean_distance(options.seed))


def formula_for(
    options: TrainOptions,
    n_features: int,
    variance: Callable[[], float],
    mean_distance: Callable[[], float],
) -> KernelFormula:
    """The same; `variance` of all entries and `mean_distance` of rows are asked for only where needed."""
    gamma = options.gamma
    if "gamma" not in KernelFormula(options.kernel).parameter_names:
        gamma = 1.0
    elif isinstance(gamma, str):
        with np.errstate(over="ignore", invalid="ignore"):
            if gamma == "mean":
                spread = 2 * mean_distance() ** 2
            else:
                spread = n_features * (variance() if gamma == "scale" else 1.0)
        if not math.isfinite(spread):
            raise ParameterError("the variance of X overflows; scale the data or give gamma (-g)")
        gamma = 1.0 / spread if spread > 0 else 1.0
    bias = options.bias_value
    return KernelFormula(options.kernel, float(gamma), int(options.degree), float(options.coef0), bias)


def all_parameters(own: dict[str, Any], formula: KernelFormula, options: TrainOptions) -> dict[str, Any]:
    """The machine's own and the kernel's, as reports and model files have them."""
    numbers = {name: getattr(formula, name) for name in formula.parameter_names}
    return own | {"bias": formula.bias, "tol": float(options.tol)} | numbers


def convergence_message(report: dict[str, Any], tol: float) -> str:
    """Why training ended too early, with the evidence and what may help."""
    tasks = report.get("tasks", [])
    limit = f"limit of {report['iterations']} iterations" if not tasks else "limit of iterations"
    reason = {
        "early": _early(report),
        "max_iter": f"the {limit} was reached",
        "time_limit": "the time limit was reached",
        "stopped": "the callback asked to stop",
        "stalled": "no further progress is possible in floating-point arithmetic",
    }[report["status"]]
    advice = {
        "max_iter": "; scale the features, lower C or allow more iterations",
        "time_limit": "; scale the features, lower C or allow more time",
        "stalled": "; scale the features or lower C; a kernel that is not positive semidefinite "
        "can also cause this",
    }.get(report["status"], "")
    if report.get("details", {}).get("diverged"):
        reason, advice = "the steps with this eta grow without bound,", "; lower eta (--eta)"
    if tasks:
        failed = sum(task["status"] != CONVERGED for task in tasks)
        reason = f"in {failed} of {len(tasks)} tasks {reason},"
    return (
        f"not converged: {reason} with a relative duality gap of {report['gap']:.2g} (wanted {tol:g}){advice}"
    )


def _early(report: dict[str, Any]) -> str:
    found = [report, *report.get("tasks", ())]
    levels = next((part["levels"] for part in found if "levels" in part), None)
    level = levels[-1]["level"] if levels else 0
    if level == 0:
        return "cascade does not look again at rows it left out,"
    return f"training ended at level {level}, as asked,"


def _loaded(init: Any) -> Model | None:
    if init is None or isinstance(init, Model):
        return init
    from odmlib.model.text_format import load_model

    return load_model(init)


def report_of(
    model: Model, results: list[SolverResult], seconds: float, seed: int, **entries: Any
) -> dict[str, Any]:
    """The report of a training; `entries`: rows, nonzeros, threads, margin, details and any others."""
    return {
        "version": __version__,
        "machine": model.machine,
        "kernel": model.formula.name,
        "parameters": dict(model.parameters),
        "rows": entries.pop("rows"),
        "features": model.n_features,
        "nonzeros": entries.pop("nonzeros"),
        "scheme": model.scheme,
        "labels": [python_label(label) for label in model.labels],
        "status": max((result.status for result in results), key=STATUSES.index),
        "solver": "+".join(sorted({result.solver for result in results})),
        "iterations": sum(result.iterations for result in results),
        "primal": sum(result.primal for result in results),
        "dual": sum(result.dual for result in results),
        "gap": max(result.gap for result in results),
        "seconds": {"read": None, "train": seconds, "write": None},
        "threads": entries.pop("threads"),
        "seed": seed,
        "support_vectors": model.n_support,
    } | entries


def _report(
    model: Model, problem: Problem, options: TrainOptions, fit: Fit, seconds: float
) -> dict[str, Any]:
    results, details = fit.results, fit.details
    details |= results[0].details if len(results) == 1 else fit.extras
    if len(results) == 1 and results[0].support_vectors is not None:
        details["support_vectors"] = results[0].support_vectors
    report = report_of(
        model,
        results,
        seconds,
        options.seed,
        rows=problem.rows.n_rows,
        nonzeros=problem.rows.n_nonzeros,
        threads=options.n_threads,
        margin=margin_summary(fit.margins, problem.weights),
        details=details,
        **fit.notes,
    )
    labels = report["labels"]
    levels = [result.levels for result in results]
    if len(results) == 1 and levels[0]:
        report["levels"] = levels[0]
    if len(results) > 1:
        report["tasks"] = [
            {
                "labels": [labels[side] for side in sides if side is not None and labels],
                "status": result.status,
                "iterations": result.iterations,
                "primal": result.primal,
                "gap": result.gap,
                "support_vectors": result.support_vectors,
            }
            | ({"levels": own} if own else {})
            for sides, result, own in zip(fit.sides, results, levels, strict=True)
        ]
    return report
