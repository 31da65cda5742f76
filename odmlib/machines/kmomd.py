"""KM-OMD, the kernel method for the optimisation of the margin distribution (docs/internals/mathematics.md).

    min  (1-lambda) |v|^2 + lambda sum_i gamma_i^2 / w_i,    v = sum_i y_i gamma_i phi(x_i)
    f(x) = (<v, phi(x)> - theta) / |v|

over gamma >= 0 summing to 1 in each class; w_i are the row weights (a row of weight 2 is that row twice).
lambda = 1: v joins the two centroids; lambda = 0: the hard-margin SVM. In between v is the direction of the
L2-loss SVM with bias and C = (1-lambda) / lambda; its bias is the threshold `kkt`, KM-OMD's own `midpoint`.
lambda = 1 and no threshold: the average-margin classifier, v = sum_i y_i w_i phi(x_i) / sum_i w_i.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from odmlib._core.rows import Rows
from odmlib.errors import ConvergenceWarning, ParameterError
from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.machines.fitting import fit_classes
from odmlib.machines.machine import Floats, Machine, Task
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.kmomd.geometry import NOT_SEPARABLE, KmomdPoint, KmomdProblem, start_gamma

STORED = ("theta_midpoint", "theta_kkt", "norm")  # in the model, for every output


@dataclass
class Memory:
    """What one lambda of a path leaves to the next."""

    least_lambda: float
    start: WarmStart | None = None  # gamma and scores; linear: v
    cache: RowCache | None = None  # kernel rows exact enough for the least lambda


class KmOmd(Machine):
    def __init__(self, options: TrainOptions, total_weight: float, memory: Memory | None = None):
        super().__init__(options, total_weight)
        self.memory = memory
        self.linear_solver = self.lambda_ > 0 and options.solver != "pairs"

    def wants_float64(self, kernel: Kernel, weights: Floats) -> bool:
        from odmlib.solvers.kernel.precision import EXACT_ROWS, kmomd_needs_float64

        if kernel.n_rows <= EXACT_ROWS:
            return True
        lam = self.lambda_ if self.memory is None else self.memory.least_lambda
        return kmomd_needs_float64(kernel, weights, lam, self.options.tol)

    def extras(self, results: list[SolverResult]) -> dict[str, tuple[float, ...]]:
        columns = {name: tuple(float(result.details[name]) for result in results) for name in STORED}
        return {name: values for name, values in columns.items() if all(map(math.isfinite, values))}

    def start_duals(self, margins: Floats, task: Task, threads: int) -> Floats:
        return start_gamma(task.signs, task.weights, margins, self.lambda_)

    def start_from(self, last: SolverResult, task: Task) -> None:
        """Nothing: `memory` has all that one lambda leaves to the next."""

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        from odmlib.solvers.kernel.precision import cache_for
        from odmlib.solvers.kmomd.pairs import kernel_point, solve_pairs

        memory = self.memory
        if memory is not None:
            if memory.cache is None:
                memory.cache = cache_for(kernel, resources, self.wants_float64(kernel, task.weights))
            resources = dataclasses.replace(resources, cache=memory.cache)
            start = start or memory.start
        problem = KmomdProblem(kernel, task.signs, task.weights, self.lambda_)
        if self.options.threshold == "none":
            point = kernel_point(problem, task.weights / task.weights.sum(), control, resources)
        else:
            point = solve_pairs(problem, control, resources, start)
        if memory is not None:
            memory.start = WarmStart(duals=point.gamma, scores=point.scores)
        result, scale = self._result(point, task, kernel.shift)
        result.duals = scale * point.gamma
        return result

    def solve_linear(
        self, rows: Rows, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        from odmlib.solvers.kmomd.newton import linear_point, solve_kmomd_newton

        memory = self.memory
        problem = KmomdProblem(rows, task.signs, task.weights, self.lambda_)
        if self.options.threshold == "none":
            gamma = task.weights / task.weights.sum()
            point = linear_point(problem, gamma, resources.threads).known({})
        else:
            known = start if memory is None or memory.start is None else memory.start
            point = solve_kmomd_newton(problem, control, resources, known)
        if memory is not None:
            memory.start = WarmStart(weights=point.v)
        result, scale = self._result(point, task, 0.0)
        result.weights = scale * point.v
        return result

    def _result(self, point: KmomdPoint, task: Task, shift: float) -> tuple[SolverResult, float]:
        """The result without duals or weights, and the number that v is multiplied with."""
        if point.status == NOT_SEPARABLE:
            raise ParameterError(
                "not separable: the classes cannot be divided without errors, which lambda 0 (hard margin) "
                "asks for; give a lambda (--lambda) above 0, such as 1e-6"
            )
        norm = math.sqrt(max(0.0, point.norm_squared))
        scale = 1 / norm if norm > 0 else 1.0
        if self.options.decision_scale == "svm":
            scale = 2 * (1 - self.lambda_) / point.objective
        average = self.options.threshold == "none"  # then no point of the two classes
        thetas = {"midpoint": point.midpoint(task.signs, shift), "kkt": point.kkt(), "none": 0.0}
        theta = thetas[self.options.threshold]
        details = point.details | {
            "theta_midpoint": math.nan if average else scale * thetas["midpoint"],
            "theta_kkt": math.nan if average else scale * thetas["kkt"],
            "norm": norm,
            "entropy": _entropy(point.gamma, task),
            "ranking_margin": _ranking_margin(point.scores - shift * task.signs * point.gamma, task, norm),
        }
        # in the last digit the bound can exceed the objective
        primal = norm if average else point.objective
        dual = norm if average else min(point.bound, point.objective)
        margins, offset = scale * task.signs * (point.scores - theta), scale * theta
        found = point.status, primal, dual, point.gap, point.iterations, point.solver
        return SolverResult(*found, margins=margins, details=details, offset=offset), scale


def _entropy(gamma: Floats, task: Task) -> float:
    """The paper's E(gamma), the mean of both classes: 1 where all rows count alike, 0 where only one counts.

    A row of weight w is w rows of gamma / w. The only row of a class has the entropy 1.
    """
    total = 0.0
    for sign in (1.0, -1.0):
        side = (task.signs == sign) & (gamma > 0)
        whole = float(task.weights[task.signs == sign].sum())
        part = gamma[side] / gamma[side].sum()
        total += float(part @ np.log(task.weights[side] / part)) / math.log(whole) if whole > 1 else 1.0
    return total / 2


def _ranking_margin(scores: Floats, task: Task, norm: float) -> dict[str, float]:
    """(s_i - s_j) / |v| over all pairs of a positive i and a negative j, which count by their weights."""
    unit = scores / norm if norm > 0 else scores
    mean, variance, ends = [], [], []
    for sign in (1.0, -1.0):
        side = (task.signs == sign) & (task.weights > 0)
        mean.append(float(np.average(unit[side], weights=task.weights[side])))
        variance.append(float(np.average(np.square(unit[side] - mean[-1]), weights=task.weights[side])))
        ends.append(float(unit[side].min() if sign > 0 else unit[side].max()))
    return {"mean": mean[0] - mean[1], "variance": sum(variance), "min": ends[0] - ends[1]}


def path(X: Any, y: Any, lambdas: Iterable[float], **options: Any) -> list[Model]:
    """Models for every lambda, in the order given; trained from large to small, each from where the last one
    ended and with its kernel rows. `options` are those of odmlib.train. With more than two classes every
    lambda is trained by itself.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> [float(m.parameters["lambda"]) for m in path(X, [1, 1, 2, 2], [1, 0.1, 0], kernel="linear")]
    [1.0, 0.1, 0.0]
    """
    from odmlib.data.problem import Problem
    from odmlib.machines.building import build_model, convergence_message

    wanted = [float(lam) for lam in lambdas]
    settings = {lam: TrainOptions(**(options | {"machine": "kmomd", "lambda_": lam})) for lam in wanted}
    if not wanted:
        return []
    first = settings[wanted[0]]
    problem = Problem.from_arrays(X, y, first.sample_weight, first.class_weight)
    memory = Memory(min(wanted)) if len(problem.labels) == 2 else None
    models = {}
    for lam in sorted(settings, reverse=True):
        fitter = partial(fit_classes, partial(KmOmd, memory=memory))
        models[lam] = build_model(problem, settings[lam], fitter)
        if models[lam].report["status"] != CONVERGED:
            message = convergence_message(models[lam].report, first.tol)
            warnings.warn(f"lambda {lam:g}: {message}", ConvergenceWarning, stacklevel=2)
    return [models[lam] for lam in wanted]


def with_threshold(model: Model, threshold: str) -> Model:
    """The same KM-OMD model with the other threshold, `midpoint` or `kkt`: models hold both."""
    key = f"theta_{threshold}"
    if model.machine != "kmomd" or key not in STORED or key not in model.extras:
        held = ", ".join(name.removeprefix("theta_") for name in model.extras if name.startswith("theta_"))
        raise ParameterError(f"the model has no threshold {threshold!r} (it has: {held or 'none'})")
    function = dataclasses.replace(model.function, offsets=np.array(model.extras[key]))
    parameters = model.parameters | {"threshold": threshold}
    report = model.report | {"parameters": parameters}
    return dataclasses.replace(
        model, function=function, parameters=parameters, report=report, training_margins=None
    )
