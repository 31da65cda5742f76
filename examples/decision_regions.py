"""What four machines make of two rings: the regions of the classes, and the lines where the margin is 1."""

from __future__ import annotations

import sys
from typing import Any

import _figure
import matplotlib.pyplot as plt
import numpy as np

import odmlib
from odmlib.sklearn import KMOMDClassifier, ODMClassifier, ODMLClassifier, SVMClassifier


def draw(quick: bool) -> Any:
    X, y = odmlib.read_data(_figure.DATA / "rings.txt")
    X = X.toarray()
    machines = [SVMClassifier(), ODMLClassifier(), ODMClassifier(), KMOMDClassifier(decision_scale="svm")]
    low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
    n = 40 if quick else 200
    across, up = np.meshgrid(np.linspace(low[0], high[0], n), np.linspace(low[1], high[1], n))
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.6), sharex=True, sharey=True, layout="constrained")
    for axis, machine in zip(axes, machines, strict=True):
        machine.fit(X, y)
        values = machine.decision_function(np.c_[across.ravel(), up.ravel()]).reshape(across.shape)
        axis.contourf(
            across, up, values, levels=[-np.inf, 0, np.inf], colors=["tab:orange", "tab:blue"], alpha=0.2
        )
        axis.contour(
            across, up, values, levels=[-1, 0, 1], colors="black", linestyles=["dotted", "solid", "dotted"]
        )
        axis.scatter(*X.T, c=np.where(y == machine.classes_[1], "tab:blue", "tab:orange"), s=8)
        axis.set_title(f"{type(machine).__name__}: {100 * machine.score(X, y):.1f} %")
        print(f"{type(machine).__name__:16} {len(machine.support_)} of {len(y)} rows are support vectors")
    return figure


if __name__ == "__main__":
    _figure.run(draw, "decision_regions", __doc__, sys.argv[1:])
