"""What users call: odmlib.train, with probabilities where they are asked for, and odmlib.leave_one_out."""

from __future__ import annotations

import inspect
import warnings
from numbers import Integral
from typing import Any

import numpy as np

from odmlib.data.advice import targets_message
from odmlib.data.problem import Problem
from odmlib.errors import ConvergenceWarning, DataWarning, FallbackWarning, ParameterError
from odmlib.machines.building import convergence_message
from odmlib.machines.ssodm import fallback_message, raw_message
from odmlib.machines.training import make_problem, make_settings, train_problem
from odmlib.model.model import Model
from odmlib.model.text_writer import check_numbers
from odmlib.options import TrainOptions, option_fields
from odmlib.selection import cross_validation as validation
from odmlib.selection.compressing import compress_trained
from odmlib.selection.cross_validation import CrossValidation, TargetValidation
from odmlib.selection.leave_one_out import (
    LeaveOneOut,
    LeftOutTargets,
    check_machine,
    leave_one_out_of,
)
from odmlib.selection.novelty import train_detector
from odmlib.selection.unseen import LEFT_OUT, unseen_targets
from odmlib.solvers.control import CONVERGED
from odmlib.values import shown_value


def train(X: Any, y: Any = None, **options: Any) -> Model:
    settings = make_settings(options)
    problem = make_problem(X, y, settings)
    if (message := targets_message(problem)) is not None:
        warnings.warn(message, DataWarning, stacklevel=2)
    model = train_model(problem, settings)
    if (message := fallback_message(model.report)) is not None:
        warnings.warn(message, FallbackWarning, stacklevel=2)
    if (message := raw_message(model.report)) is not None:
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    if model.report["status"] != CONVERGED:
        warnings.warn(convergence_message(model.report, settings.tol), ConvergenceWarning, stacklevel=2)
    return model


def train_model(problem: Problem, options: TrainOptions) -> Model:
    """`train` for data that are checked already; never warns."""
    model = (train_detector if problem.one_class else train_problem)(problem, options)
    if options.coverage and problem.targets is not None:
        found, source = unseen_targets(model, problem, options)
        model.report["coverage"] = {"source": source}
        if source == LEFT_OUT:
            model.report["leave_one_out"] = found.report()
    elif options.probability or options.coverage:
        from odmlib.selection.label_sets import with_label_sets
        from odmlib.selection.probabilities import left_out_scores, with_probabilities

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # check_numbers sees it
            known = left_out_scores(model, problem, options)
            if options.probability:
                model = with_probabilities(model, problem, options, lambda *given: known)
            if options.coverage:
                model = with_label_sets(model, problem, *known)
    if options.max_vectors is not None:
        model = compress_trained(model, problem, options)
    check_numbers(model)  # what training returns can be saved and loaded
    return model


def leave_one_out(X: Any, y: Any, **options: Any) -> LeaveOneOut | LeftOutTargets:
    """Train on all rows, and tell how each row would fare if it were left out.

    Takes what `train` takes. C, gamma and the other rows' weights stay as they are. Exact as long as leaving
    a row out moves no other row across an edge of the band (odml: to or from the kink of the hinge);
    otherwise very near. Memory: one matrix of the rows outside the band (linear machines: of the features,
    if those are fewer; odml: two matrices of all rows), at most `cache_mb`.

    >>> import odmlib
    >>> X, y = odmlib.read_data("data/wdbc.train.txt")
    >>> result = odmlib.leave_one_out(X, y, kernel="linear", C=0.01)
    >>> 0 <= result.errors <= result.bound
    True
    """
    settings = make_settings(options)
    check_machine(settings)
    problem = make_problem(X, y, settings)
    model = train_model(problem, settings)
    if model.report["status"] != CONVERGED:
        warnings.warn(convergence_message(model.report, settings.tol), ConvergenceWarning, stacklevel=2)
    return leave_one_out_of(model, problem, settings)


def cross_validate(X: Any, y: Any, folds: int = 5, **options: Any) -> CrossValidation | TargetValidation:
    """Train on all folds but one and predict that one, in turn. Takes what `train` takes.

    The folds are stratified, and the same seed gives the same ones. `odm-train -v` does the same. Regression
    has a result of its own: `measures` instead of `accuracy`.

    >>> import odmlib
    >>> X, y = odmlib.read_data("data/iris.txt")
    >>> odmlib.cross_validate(X, y, folds=5).accuracy > 0.9
    True
    """
    if not isinstance(folds, Integral) or folds < 2:
        raise ParameterError(f"folds must be a whole number of at least 2, found {shown_value(folds)}")
    settings = make_settings(options)
    problem = make_problem(X, y, settings)
    problem.require_classes(settings.machine)
    if (message := targets_message(problem)) is not None:
        warnings.warn(message, DataWarning, stacklevel=2)
    validated = validation.cross_validate if problem.targets is None else validation.cross_validate_targets
    result = validated(problem, settings, int(folds))
    if result.unfinished:
        warnings.warn(
            f"training did not converge in {result.unfinished} of {result.n_folds} folds",
            ConvergenceWarning,
            stacklevel=2,
        )
    return result


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
y: one label per row, of any type; they come back from `predict` as given. odmr: a number, or a line of
   numbers, per row. odmo: not needed.

Options, all by name:
{_describe_options()}

Warns with ConvergenceWarning if the duality gap did not reach `tol`, and with DataWarning if the labels look
like targets of a regression.

>>> import numpy as np, odmlib
>>> X = np.array([[0.0], [1.0], [3.0], [4.0]])
>>> model = odmlib.train(X, ["low", "low", "high", "high"], kernel="linear", C=10)
>>> model.predict(X).tolist()
['low', 'low', 'high', 'high']
"""
train.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("X", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("y", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),
        *(
            inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
            for option in option_fields()
        ),
    ],
    return_annotation=Model,
)
