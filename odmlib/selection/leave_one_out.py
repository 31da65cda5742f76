"""Leave-one-out estimate from one fit: what every row would score under the machine trained without it.

Two classes and one-vs-rest: each output's margins by left_out.py. One-vs-one: the outputs of the pairs that a
row belongs to; the other outputs do not change when it is left out. A row that is surely right in all outputs
that it takes part in has the right label, in either scheme.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset, dense_rows
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.kernels.shift import needed_shift, surely_positive
from odmlib.losses.loss import BandLoss, MeanVarianceLoss
from odmlib.machines.machine import Machine, Task
from odmlib.machines.tasks import make_tasks
from odmlib.machines.training import PLAIN_MACHINES
from odmlib.model.functions import KernelFunction
from odmlib.model.model import Model
from odmlib.model.regression import RegressionMeasures, regression_measures
from odmlib.names import LEAVE_ONE_OUT_MACHINES
from odmlib.options import TrainOptions
from odmlib.selection.conformal import kept_lists, levels_of
from odmlib.selection.left_out import LeftOut, left_out_margins, may_be_wrong
from odmlib.selection.left_out_mean import left_out_mean_margins
from odmlib.solvers.distributed.landmarks import choose_landmarks, features_over

ROUNDING = 1e-15  # of P: a gap below this is not known


@dataclass(frozen=True)
class LeaveOneOut:
    """What `leave_one_out` finds."""

    model: Model  #: trained on all rows
    scores: Floats = field(repr=False)  #: decision values of every row, shaped as those of the model
    predicted: NDArray = field(repr=False)  #: label of every row
    errors: int  #: rows whose label is another one
    accuracy: float  #: of all rows, 0 to 1
    #: no more rows than this can be wrong in true refits with the same C and the same weights of the other
    #: rows; None where the kernel needs a shift, which a refit would choose anew, and for ODM^L
    bound: int | None

    def report(self) -> dict[str, Any]:
        """The entry `leave_one_out` of the JSON report."""
        return {"accuracy": self.accuracy, "errors": self.errors, "bound": self.bound}


@dataclass(frozen=True)
class LeftOutTargets:
    """What `leave_one_out` finds for a machine of regression."""

    model: Model  #: trained on all rows
    #: rows x outputs: what the machine trained without a row says of it
    predicted: Floats = field(repr=False)
    measures: RegressionMeasures

    def report(self) -> dict[str, Any]:
        """The entry `leave_one_out` of the JSON report."""
        return self.measures._asdict()


def check_machine(options: TrainOptions) -> None:
    if options.machine not in LEAVE_ONE_OUT_MACHINES:
        raise ParameterError(
            f"leave-one-out from one fit is for machine {', '.join(LEAVE_ONE_OUT_MACHINES)} (odm with nu = "
            f"theta = 0: the SVM with squared loss), found {options.machine}; cross-validate instead (-v)"
        )
    if options.hard_margin:
        raise ParameterError(
            "leave-one-out from one fit is not for hard_margin (--hard-margin); cross-validate instead (-v)"
        )
    if options.approx is not None:
        raise ParameterError(
            "leave-one-out from one fit is not for approx (--approx) nystrom, whose landmarks depend on the "
            "row; cross-validate instead (-v)"
        )


def leave_one_out_of(model: Model, problem: Problem, options: TrainOptions) -> LeaveOneOut | LeftOutTargets:
    """The estimate for a model that was trained on this very problem with these options."""
    check_machine(options)
    if problem.targets is not None:
        return left_out_targets(model, problem, options)
    unsure = np.zeros(problem.rows.n_rows, dtype=bool)
    squared_lengths = _squared_lengths(problem.rows, model.formula)
    bounded = True

    def look(machine: Machine, task: Task, margins: Floats, shift: float) -> None:
        nonlocal bounded
        loss = machine.loss()
        bounded &= shift == 0 and isinstance(loss, BandLoss)
        if bounded:
            rows = slice(None) if task.rows is None else task.rows
            costs, gap = machine.costs(task.weights), _gap(model.report, task.output)
            unsure[rows] |= may_be_wrong(margins, squared_lengths[rows], costs, cast(BandLoss, loss), gap)

    scores = left_out_scores(model, problem, options, look)
    places = model.positions_for(scores)
    errors = int(np.count_nonzero(places != problem.codes))
    bound = int(np.count_nonzero(unsure)) if bounded else None
    shaped = scores[:, 0] if model.scheme == "binary" else scores
    return LeaveOneOut(model, shaped, model.labels[places], errors, 1 - errors / len(places), bound)


def left_out_targets(model: Model, problem: Problem, options: TrainOptions) -> LeftOutTargets:
    """The estimate for a model of regression, which keeps the residuals for prediction intervals."""
    return targets_found(model, problem, left_out_scores(model, problem, options))


def targets_found(model: Model, problem: Problem, scores: Floats) -> LeftOutTargets:
    """The same from scores of rows that were left out."""
    targets = cast(Floats, problem.targets)
    if model.n_outputs == 1:
        ascending, levels = levels_of((targets - scores)[:, 0], problem.sample_weights)
        model.lists.update(kept_lists("residual", ascending, levels))
    return LeftOutTargets(model, scores, regression_measures(scores, targets))


def left_out_scores(
    model: Model,
    problem: Problem,
    options: TrainOptions,
    look: Callable[[Machine, Task, Floats, float], None] = lambda *task: None,
) -> Floats:
    """Scores (rows x outputs) of every row under the machine trained without it.

    `look` is called with the machine, each task, its margins and what was added to the kernel's diagonal.
    Landmarks of an approximation stay: for a row that is none of them, those are what training without it
    would choose.
    """
    machine = PLAIN_MACHINES[options.machine](options, problem.total_weight)
    scores, offsets = model.function.scores(problem.rows, options.n_threads), model.function.offsets
    rows_at_hand, formula = problem.rows, model.formula
    if options.approx is not None:  # the same machine, linear in the features of its landmarks
        rows_at_hand, formula = _nystrom_rows(model, problem.rows, options.n_threads), KernelFormula("linear")
    shift_of = _shifts(problem, formula, options)
    for task in make_tasks(problem, model.scheme):
        rows = slice(None) if task.rows is None else task.rows
        offset, targets = offsets[task.output], task.targets  # the solver's scores have no offset
        margins = task.signs * (scores[rows, task.output] + offset)
        if targets is not None:
            task = dataclasses.replace(task, targets=targets + offset)
            margins -= targets + offset
        shift = shift_of(task)
        found = left_out_of_task(rows_at_hand, formula, machine, task, margins, shift)
        left_out = found.margins if targets is None else found.margins + targets + offset
        scores[rows, task.output] = task.signs * left_out - offset
        look(machine, task, margins, shift)
    return scores


def _nystrom_rows(model: Model, rows: Dataset, threads: int) -> Dataset:
    """The rows as features over the model's vectors, which are its landmarks in the order of their choice."""
    vectors = cast(KernelFunction, model.function).vectors
    found = choose_landmarks(Kernel(model.formula, vectors, threads), vectors.n_rows)
    factor = np.tril(found.factor[found.rows])
    return dense_rows(features_over(vectors.take(found.rows), factor, rows, model.formula, threads)[0])


def left_out_of_task(
    rows: Dataset, formula: KernelFormula, machine: Machine, task: Task, margins: Floats, shift: float = 0.0
) -> LeftOut:
    """From the margins of the task's rows under the machine trained on all of them; `rows`: of all tasks."""
    if task.rows is not None:
        rows = rows.take(task.rows)
        if formula.name == "precomputed":
            rows = rows.on_columns(task.rows.astype(np.int32))
    loss, costs, options = machine.loss(), machine.costs(task.weights), machine.options
    room: dict[str, Any] = {"max_bytes": options.cache_bytes, "shift": shift, "threads": options.n_threads}
    if isinstance(loss, MeanVarianceLoss):
        return left_out_mean_margins(rows, formula, task.signs, costs, loss, margins, **room)
    band = cast(BandLoss, loss)
    return left_out_margins(rows, formula, task.signs, costs, band, margins, targets=task.targets, **room)


def _squared_lengths(rows: Dataset, formula: KernelFormula) -> Floats:
    """k(x, x) of every row, bias included."""
    if formula.name == "precomputed":
        return rows.dense_view().diagonal() + formula.bias * formula.bias
    return formula.on_diagonal(rows.squared_norms())


def _gap(report: dict[str, Any], output: int) -> float:
    """P - D of the task with this output, which reports state relative to P."""
    task = report["tasks"][output] if "tasks" in report else report
    return max(task["gap"], ROUNDING) * abs(task["primal"])


def _shifts(problem: Problem, formula: KernelFormula, options: TrainOptions) -> Callable[[Task], float]:
    """What training added to the diagonal of a task's kernel, found as machines/fitting.py finds it."""
    if surely_positive(formula):
        return lambda task: 0.0
    rows = problem.rows.dense_view() if formula.name == "precomputed" else problem.rows
    kernel = Kernel(formula, rows, options.n_threads)
    whole = needed_shift(kernel, options.seed)

    def shift_of(task: Task) -> float:
        if task.rows is None or whole == 0:
            return whole
        return needed_shift(kernel.restricted(task.rows), options.seed)

    return shift_of
