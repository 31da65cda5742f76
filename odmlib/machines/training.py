"""Which machine trains: a name of a machine, options and checked data in, a model out."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from odmlib.data.problem import Problem
from odmlib.machines.building import Fitter, build_model
from odmlib.machines.fitting import fit_classes
from odmlib.machines.kmomd import KmOmd
from odmlib.machines.machine import Machine, linear_scheme
from odmlib.machines.many_rows import ManyRows, fit_many_rows
from odmlib.machines.odm import Odm
from odmlib.machines.odml import Odml
from odmlib.machines.odmo import Odmo
from odmlib.machines.odmr import Odmr
from odmlib.machines.svm import Svm
from odmlib.model.model import Model
from odmlib.names import SEMI_SUPERVISED_MACHINES
from odmlib.options import TrainOptions, option_fields

# machines that need nothing but their class
PLAIN_MACHINES: dict[str, type[Machine]] = {
    "svm": Svm,
    "odml": Odml,
    "odm": Odm,
    "kmomd": KmOmd,
    "odmr": Odmr,
    "odmo": Odmo,
}


def fitter_of(machine: str) -> Fitter:
    """What trains a machine: `fit` of the module that has its name, where its class is not enough."""
    kind = PLAIN_MACHINES.get(machine)
    if kind is not None and issubclass(kind, ManyRows):
        return partial(fit_many_rows, kind)
    if kind is not None:
        return partial(fit_classes, kind)
    return import_module(f"odmlib.machines.{machine}").fit


# names that other libraries and LIBSVM's flags have for our options
ELSEWHERE = {
    "c": "C",
    "cache_size": "cache_mb",
    "dual": "solver ('dcd' works on the dual problem, 'newton' on the primal one)",
    "verbose": "callback, which is called with the progress of training",
    "n_jobs": "threads",
    "random_state": "seed",
    "eps": "tol",
    "max_iterations": "max_iter",
    "fit_intercept": "bias",
    "intercept_scaling": "bias",
    "decision_function_shape": "multiclass",
    "multi_class": "multiclass",
    "weight": "class_weight",
    "weights": "sample_weight",
    "loss": "machine",
    "lambda": "lambda_",
    "lam": "lambda_",
}


def make_settings(options: dict[str, Any]) -> TrainOptions:
    known = [option.name for option in option_fields()]
    for name in options:
        if name not in known:
            from difflib import get_close_matches

            near = [repr(name) for name in get_close_matches(name, known, n=1)]
            near = [ELSEWHERE[name]] if name in ELSEWHERE else near
            raise TypeError(
                f"train() has no option {name!r}" + (f"; did you mean {near[0]}?" if near else "")
            )
    return TrainOptions(**options)


def make_problem(X: Any, y: Any, options: TrainOptions) -> Problem:
    """The data as the machine takes them: only a semi-supervised one knows rows without a label."""
    if options.declaration.learns == "targets":
        return Problem.from_targets(X, y, options.sample_weight)
    if options.declaration.learns == "one class":
        return Problem.of_one_class(X, y, options.sample_weight)
    marker = options.unlabeled if options.machine in SEMI_SUPERVISED_MACHINES else None
    return Problem.from_arrays(X, y, options.sample_weight, options.class_weight, marker)


def with_scheme(problem: Problem, options: TrainOptions) -> TrainOptions:
    """The options with the class scheme that these data choose, so that a part of them has the same one."""
    chosen = chosen_scheme(problem, options)
    return options if chosen is None else options.but(multiclass=chosen[0])


def chosen_scheme(problem: Problem, options: TrainOptions) -> tuple[str, str] | None:
    """The scheme that the data choose, and why; None where they have no say."""
    # a model to start from keeps its scheme
    said = options.multiclass is not None or options.init is not None
    if said or options.kernel != "linear" or options.declaration.class_scheme != "auto":
        return None
    return linear_scheme(problem) if problem.has_classes and len(problem.labels) > 2 else None


def train_problem(problem: Problem, options: TrainOptions) -> Model:
    """A model without probabilities (selection/training.py adds them); never warns."""
    return build_model(problem, options, fitter_of(options.machine))
