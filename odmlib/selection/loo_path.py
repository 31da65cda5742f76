"""Leave-one-out from one fit, along C: one training per C, each from where the last one ended.

All rows are trained on; left_out.py then says what every row would score without itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from odmlib.kernels.cache import RowCache
from odmlib.machines.odm import Odm
from odmlib.machines.training import train_problem
from odmlib.options import TrainOptions
from odmlib.selection.fold_paths import Codes, Floats, Fold, FoldPaths, Job, PathRun, Rate, Tell
from odmlib.selection.leave_one_out import leave_one_out_of
from odmlib.selection.left_out import left_out_margins
from odmlib.solvers.control import CONVERGED, Control, SolverResult


def leave_one_out_rates(
    paths: FoldPaths, settings: Sequence[TrainOptions], control: Control, tell: Tell
) -> None:
    """As FoldPaths.rates; machine odm."""
    if paths.suits(settings[0]):
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
            LeaveOneOutRun(paths, settings, control, tell).run()
        return
    for place, options in enumerate(settings):  # a kernel that is not positive semidefinite
        if control.out_of_time() is not None:
            return
        limit = None if control.time_limit is None else max(1e-9, control.time_limit - control.seconds())
        options = dataclasses.replace(options, probability=False, callback=control.callback, time_limit=limit)
        model = train_problem(paths.problem, options)
        if control.out_of_time() is not None:
            return
        result = leave_one_out_of(model, paths.problem, options)
        tell(place, Rate(result.accuracy, int(model.report["status"] != CONVERGED)))


class LeaveOneOutRun(PathRun):
    """One fold from which nothing is left out; each task has all threads."""

    side_by_side = False

    def make_folds(self) -> list[Fold]:
        codes = self.problem.codes
        nothing = np.empty(0, dtype=np.int64)
        present = np.unique(codes[self.weights > 0])
        return [Fold(nothing, present, self.weights, self.problem.total_weight)]

    def left_out(self, job: Job, result: SolverResult, whole: RowCache | None) -> tuple[Codes, Floats]:
        task, rows = job.task, self.problem.rows
        machine = self.machine(self.settings[job.place], job.fold.total_weight, None)
        assert isinstance(machine, Odm) and result.margins is not None
        data = rows if task.rows is None else rows.take(task.rows)
        if task.rows is not None and self.formula.name == "precomputed":
            data = data.on_columns(task.rows.astype(np.int32))
        found = left_out_margins(
            data,
            self.formula,
            task.signs,
            machine.costs(task.weights),
            machine.loss(),
            result.margins,
            max_bytes=self.budget,
            threads=self.threads,
        )
        everyone = np.arange(rows.n_rows)
        if task.rows is None:
            return everyone, task.signs * found.margins
        scores = self.all_scores(task, result, whole)
        scores[task.rows] = task.signs * found.margins
        return everyone, scores
