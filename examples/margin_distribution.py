"""The margins of the training rows: an SVM looks at the smallest, ODM draws all of them into a band."""

from __future__ import annotations

import sys
from typing import Any

import _figure
import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import MinMaxScaler

import odmlib
from odmlib.sklearn import ODMClassifier, ODMLClassifier, SVMClassifier


def draw(quick: bool) -> Any:
    X, y = odmlib.read_data(_figure.DATA / "wdbc.train.txt")
    X = MinMaxScaler().fit_transform(X.toarray())
    if quick:
        X, y = X[:100], y[:100]
    machines = {
        "SVM": SVMClassifier(),
        r"ODM$^L$": ODMLClassifier(),
        "ODM": ODMClassifier(),
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
    for axis, (name, machine) in zip(axes, machines.items(), strict=True):
        margins = machine.fit(X, y).margins_
        print(f"{name:8} mean {margins.mean():.3f}, variance {margins.var():.3f}, least {margins.min():.3f}")
        # each machine has its own unit: compare shapes
        scaled = margins / margins.mean()
        axis.hist(scaled, bins=np.linspace(-1, 3, 41), color="tab:blue")
        axis.axvline(0, color="black", linewidth=1)
        axis.set(title=f"{name}: variance {scaled.var():.3f} x mean²", xlabel="margin / mean margin")
    axes[0].set_ylabel("training rows")
    return figure


if __name__ == "__main__":
    _figure.run(draw, "margin_distribution", __doc__, sys.argv[1:])
