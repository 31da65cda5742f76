from __future__ import annotations

import math
from typing import Any

from odmlib.errors import ParameterError
from odmlib.machines.declarations.declaration import MACHINE_AND_KERNEL, Declaration, Solvers
from odmlib.values import Choice, Number, Option

KMOMD_LAMBDA = 0.1  # unless lambda or C is given


def weights(options: Any, total_weight: float) -> tuple[float, float]:
    """C = (1-lambda) / lambda, whatever the weights."""
    if options.C is not None:
        return float(options.C), 1 / (1 + float(options.C))
    share = KMOMD_LAMBDA if options.lambda_ is None else float(options.lambda_)
    return (1 - share) / share if share > 0 else math.inf, share


def rules(options: Any) -> None:
    _, share = weights(options, 1.0)
    if options.threshold == "none" and share != 1:
        raise ParameterError(
            f"threshold none (the average-margin classifier) needs lambda (--lambda) 1, found {share:g}"
        )
    if share == 1 and (options.threshold == "kkt" or options.decision_scale == "svm"):
        what = "threshold kkt" if options.threshold == "kkt" else "decision_scale svm"
        raise ParameterError(f"{what} needs lambda (--lambda) below 1: at 1 the equal SVM has C = 0")
    if share == 0 and options.solver == "newton":
        raise ParameterError("solver newton needs lambda (--lambda) above 0; the hard margin takes pairs")


KMOMD = Declaration(
    name="kmomd",
    title="KM-OMD",
    parameters=("lambda", "threshold", "decision_scale"),
    linear=Solvers(("auto", "newton", "pairs"), MACHINE_AND_KERNEL),
    kernel=Solvers(("auto", "pairs"), MACHINE_AND_KERNEL),
    options={
        "threshold": Option("midpoint", "--threshold NAME", Choice(("midpoint", "kkt", "none")),
            "kmomd: midpoint of the nearest points, kkt (bias of the equal L2-loss SVM), or none (with "
            "--lambda 1: the average-margin classifier)"),
        "decision_scale": Option("unit", "--decision-scale NAME", Choice(("unit", "svm")),
            "kmomd: decision values are distances (unit) or an SVM's, with margins of 1 (svm)"),
    },
    kinds={"lambda_": Number(0, 1)},
    rules=rules,
    weights=weights,
    class_scheme="ovr",
    has_bias=False,  # it has a threshold, in which constants cancel
)  # fmt: skip
