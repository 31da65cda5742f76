"""Watching a training by its callback: the relative duality gap over time, for three linear solvers."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import _figure
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from odmlib.sklearn import LinearODM


def draw(quick: bool) -> Any:
    rows = 1000 if quick else 40_000
    X, y = make_classification(rows, 50, n_informative=10, flip_y=0.1, random_state=0)
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for solver in ("newton", "dcd", "svrg"):
        seen = []
        machine = LinearODM(solver=solver, tol=1e-6, time_limit=2 if quick else 10, callback=seen.append)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the time limit is part of the picture
            machine.fit(X, y)
        print(f"{solver:8} {machine.n_iter_} iterations, gap {machine.duality_gap_:.1e}")
        axis.semilogy(
            [each.seconds for each in seen], [each.gap for each in seen], "o-", label=solver, markersize=3
        )
    axis.set(xlabel="seconds", ylabel="relative duality gap", title=f"LinearODM on {rows} x 50")
    axis.legend()
    return figure


if __name__ == "__main__":
    _figure.run(draw, "progress", __doc__, sys.argv[1:])
