"""Cross-validation of settings one by one, for machines and kernels that cannot share their work."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from odmlib.data.problem import Problem
from odmlib.options import TrainOptions
from odmlib.selection.cross_validation import cross_validate
from odmlib.selection.fold_paths import Rate, Tell
from odmlib.solvers.control import Control, Progress


def rates_one_by_one(
    problem: Problem, settings: Sequence[TrainOptions], n_folds: int, control: Control, tell: Tell
) -> None:
    """As FoldPaths.rates, for any machine and kernel."""

    def stops(progress: Progress) -> bool:
        heard = control.callback is not None and bool(control.callback(progress))
        return heard or control.out_of_time() is not None

    for place, options in enumerate(settings):
        options = dataclasses.replace(options, callback=stops, time_limit=None)
        result = cross_validate(problem, options, n_folds)
        if control.out_of_time() is not None:
            return
        tell(place, Rate(result.accuracy, result.unfinished))
