"""A grid search over C and gamma in a pipeline, and the accuracies as a map."""

from __future__ import annotations

import sys
from typing import Any

import _figure
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import odmlib
from odmlib.sklearn import ODMClassifier


def draw(quick: bool) -> Any:
    X, y = odmlib.read_data(_figure.DATA / "wine.txt")
    pipe = Pipeline([("scale", StandardScaler()), ("odm", ODMClassifier(n_jobs=1))])
    steps = 2 if quick else 6
    C, gamma = np.logspace(-3, 3, steps, base=2), np.logspace(-9, 0, steps, base=2)
    search = GridSearchCV(pipe, {"odm__C": C, "odm__gamma": gamma}, cv=3 if quick else 5)
    search.fit(X.toarray(), y)
    best = search.best_params_
    print(f"best: C {best['odm__C']:g}, gamma {best['odm__gamma']:g}: {100 * search.best_score_:.2f} %")
    scores = 100 * search.cv_results_["mean_test_score"].reshape(steps, steps)
    figure, axis = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
    mesh = axis.pcolormesh(gamma, C, scores, shading="nearest")
    axis.set(
        xscale="log", yscale="log", xlabel="gamma", ylabel="C", title="wine: accuracy of cross-validation"
    )
    axis.plot(best["odm__gamma"], best["odm__C"], "r*", markersize=14)
    figure.colorbar(mesh, label="%")
    return figure


if __name__ == "__main__":
    _figure.run(draw, "grid_search", __doc__, sys.argv[1:])
