"""Leave-one-out from one fit, along C: one training per C, each from where the last one ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odmlib.options import TrainOptions
from odmlib.selection.fold_paths import FoldPaths, Rate, Tell
from odmlib.solvers.control import CONVERGED, Control


def leave_one_out_rates(
    paths: FoldPaths, settings: Sequence[TrainOptions], control: Control, tell: Tell
) -> None:
    """As FoldPaths.rates; machine odm."""
    import dataclasses

    from odmlib.machines.training import train_problem
    from odmlib.selection.leave_one_out import leave_one_out_of

    problem, last = paths.problem, None
    for place, options in enumerate(settings):
        if control.out_of_time() is not None:
            return
        limit = None if control.time_limit is None else max(1e-9, control.time_limit - control.seconds())
        options = dataclasses.replace(
            options, probability=False, callback=control.callback, time_limit=limit, init=last
        )
        model = train_problem(problem, options)
        if control.out_of_time() is not None:
            return
        last = model
        result = leave_one_out_of(model, problem, options)
        tell(place, Rate(result.accuracy, int(model.report["status"] != CONVERGED)))
