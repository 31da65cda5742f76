"""odmlib.train: options and data in, a model out."""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from odmlib._version import __version__
from odmlib.data.dataset import Dataset
from odmlib.data.labels import python_label
from odmlib.data.problem import Problem
from odmlib.errors import ConvergenceWarning, FallbackWarning, ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.fitting import Fit, fit_classes
from odmlib.machines.kmomd import KmOmd
from odmlib.machines.mcodm import fit_mcodm
from odmlib.machines.odm import Odm
from odmlib.machines.odml import Odml
from odmlib.machines.sodm import fit_sodm
from odmlib.machines.ssodm import fallback_message, fit_ssodm
from odmlib.machines.svm import Svm
from odmlib.model.model import Model
from odmlib.names import SEMI_SUPERVISED_MACHINES, STATUSES
from odmlib.options import TrainOptions, option_fields
from odmlib.selection.margins import margin_summary
from odmlib.solvers.control import CONVERGED, Control

# machine: (problem, formula, options, control, model to start from) -> Fit
Fitter = Callable[[Problem, KernelFormula, TrainOptions, Control, Model | None], Fit]
FITTERS: dict[str, Fitter] = {
    "svm": partial(fit_classes, Svm),
    "odml": partial(fit_classes, Odml),
    "odm": partial(fit_classes, Odm),
    "mcodm": fit_mcodm,
    "kmomd": partial(fit_classes, KmOmd),
    "ssodm": fit_ssodm,
    "sodm": fit_sodm,
}


def train(X: Any, y: Any, **options: Any) -> Model:
    settings = make_settings(options)
    problem = make_problem(X, y, settings)
    model = train_problem(problem, settings)
    if (message := fallback_message(model.report)) is not None:
        warnings.warn(message, FallbackWarning, stacklevel=2)
    if model.report["status"] != CONVERGED:
        warnings.warn(convergence_message(model.report, settings.tol), ConvergenceWarning, stacklevel=2)
    return model


def make_problem(X: Any, y: Any, options: TrainOptions) -> Problem:
    """The data as the machine takes them: only a semi-supervised one knows rows without a label."""
    marker = options.unlabeled if options.machine in SEMI_SUPERVISED_MACHINES else None
    return Problem.from_arrays(X, y, options.sample_weight, options.class_weight, marker)


def train_problem(problem: Problem, options: TrainOptions, fitter: Fitter | None = None) -> Model:
    """`train` for data that are checked already; never warns. `fitter`: instead of the machine's own."""
    started = time.perf_counter()
    if options.kernel == "precomputed" and problem.rows.n_rows != problem.rows.n_features:
        raise ParameterError(
            "a precomputed kernel must be a square matrix of rows against rows, "
            f"found shape {problem.rows.shape}"
        )
    formula = kernel_formula(problem.rows, options)
    control = Control(options.tol, options.max_iter, options.time_limit, options.callback)
    with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
        fit = (fitter or FITTERS[options.machine])(problem, formula, options, control, _loaded(options.init))
    if not all(math.isfinite(result.primal) for result in fit.results):
        indefinite = formula.name in ("sigmoid", "precomputed")
        raise ParameterError(
            "training diverges; scale the features or lower C (-c)"
            + ("; the kernel may not be positive semidefinite" if indefinite else "")
        )
    kernel_parameters = {"gamma": formula.gamma, "degree": formula.degree, "coef0": formula.coef0}
    parameters = fit.parameters | {"bias": formula.bias, "tol": float(options.tol)}
    parameters |= {name: kernel_parameters[name] for name in formula.parameter_names}
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
    )
    model.report.update(_report(model, problem, options, fit, time.perf_counter() - started))
    if options.probability:
        from odmlib.selection.probabilities import with_probabilities

        model = with_probabilities(model, problem, options)
    return model


def kernel_formula(rows: Dataset, options: TrainOptions) -> KernelFormula:
    """The kernel with gamma worked out from the data where the user left that to us."""
    gamma = gamma_from(options, rows.n_features, rows.variance)
    return KernelFormula(options.kernel, gamma, int(options.degree), float(options.coef0), options.bias_value)


def gamma_from(options: TrainOptions, n_features: int, variance: Callable[[], float]) -> float:
    """Gamma as a number; `variance`: of all entries, asked for only where it is needed."""
    gamma = options.gamma
    if "gamma" not in KernelFormula(options.kernel).parameter_names:
        return 1.0
    if isinstance(gamma, str):
        with np.errstate(over="ignore"):
            spread = n_features * (variance() if gamma == "scale" else 1.0)
        if math.isinf(spread):
            raise ParameterError("the variance of X overflows; scale the data or give gamma (-g)")
        gamma = 1.0 / spread if spread > 0 else 1.0
    return float(gamma)


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


def make_settings(options: dict[str, Any]) -> TrainOptions:
    known = [option.name for option in option_fields()]
    for name in options:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            raise TypeError(
                f"train() has no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
    return TrainOptions(**options)


def _loaded(init: Any) -> Model | None:
    if init is None or isinstance(init, Model):
        return init
    from odmlib.model.text_format import load_model

    return load_model(init)


def _report(
    model: Model, problem: Problem, options: TrainOptions, fit: Fit, seconds: float
) -> dict[str, Any]:
    results = fit.results
    labels = [python_label(label) for label in problem.labels]
    report = {
        "version": __version__,
        "machine": model.machine,
        "kernel": model.formula.name,
        "parameters": dict(model.parameters),
        "rows": problem.rows.n_rows,
        "features": problem.rows.n_features,
        "nonzeros": problem.rows.n_nonzeros,
        "scheme": model.scheme,
        "labels": labels,
        "status": max((result.status for result in results), key=STATUSES.index),
        "solver": "+".join(sorted({result.solver for result in results})),
        "iterations": sum(result.iterations for result in results),
        "primal": sum(result.primal for result in results),
        "dual": sum(result.dual for result in results),
        "gap": max(result.gap for result in results),
        "seconds": {"read": None, "train": seconds, "write": None},
        "threads": options.n_threads,
        "seed": options.seed,
        "support_vectors": model.n_support,
        "margin": margin_summary(fit.margins, problem.weights),
        "details": results[0].details if len(results) == 1 else fit.details | fit.extras,
    }
    report |= fit.notes
    if "approximation" in fit.details:
        report["approximation"] = fit.details["approximation"]
    levels = [result.details.pop("levels", None) for result in results]
    if len(results) == 1 and levels[0]:
        report["levels"] = levels[0]
    if len(results) > 1:
        report["tasks"] = [
            {
                "labels": [labels[side] for side in sides if side is not None],
                "status": result.status,
                "iterations": result.iterations,
                "primal": result.primal,
                "gap": result.gap,
                "support_vectors": result.details.get("support_vectors"),
            }
            | ({"levels": own} if own else {})
            for sides, result, own in zip(fit.sides, results, levels, strict=True)
        ]
    return report


def _describe_options() -> str:
    lines = []
    for option in option_fields():
        flags = option.metadata["flags"]
        default = "" if option.default is None else f", default {option.default!r}"
        lines.append(
            f"    {option.name}: {option.metadata['help']}{default}"
            + (f" (flag {flags[0]})" if flags else "")
        )
    return "\n".join(lines)


train.__doc__ = f"""Train a machine and return its Model.

X: rows of features: a numpy array, any scipy.sparse matrix or array, or an odmlib.Dataset
   (kernel="precomputed": the square matrix of kernel values).
y: one label per row, of any type; they come back from `predict` as given.

Options, all by name:
{_describe_options()}

Warns with ConvergenceWarning if the duality gap did not reach `tol`.

>>> import numpy as np, odmlib
>>> X = np.array([[0.0], [1.0], [3.0], [4.0]])
>>> model = odmlib.train(X, ["low", "low", "high", "high"], kernel="linear", C=10)
>>> model.predict(X).tolist()
['low', 'low', 'high', 'high']
"""
train.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("X", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("y", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(
            inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
            for option in option_fields()
        ),
    ],
    return_annotation=Model,
)
