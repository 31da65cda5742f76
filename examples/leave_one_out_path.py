"""Choosing C without folds: leave-one-out accuracy from one fit per C, each started from the one before."""

from __future__ import annotations

import sys
import time
from typing import Any

import _figure
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

import odmlib
from odmlib.sklearn import ODMClassifier


def draw(quick: bool) -> Any:
    X, y = odmlib.read_data(_figure.DATA / "wdbc.txt")
    X = StandardScaler().fit_transform(X.toarray())
    if quick:
        X, y = X[:80], y[:80]
    values = np.logspace(-5, 6, 4 if quick else 12, base=2)
    left_out, folds, seconds = [], [], [0.0, 0.0]
    machine = ODMClassifier(leave_one_out=True, warm_start=True)
    for C in values:
        started = time.perf_counter()
        left_out.append(100 * machine.set_params(C=C).fit(X, y).loo_score_)
        seconds[0] += time.perf_counter() - started
        started = time.perf_counter()
        folds.append(100 * cross_val_score(ODMClassifier(C=C), X, y, cv=10).mean())
        seconds[1] += time.perf_counter() - started
    best = values[int(np.argmax(left_out))]
    print(f"leave-one-out: best C {best:g}, {seconds[0]:.2f} s; 10-fold cross-validation: {seconds[1]:.2f} s")
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    axis.semilogx(values, left_out, "o-", base=2, label=f"leave-one-out, one fit per C: {seconds[0]:.1f} s")
    axis.semilogx(values, folds, "s--", base=2, label=f"10-fold cross-validation: {seconds[1]:.1f} s")
    axis.set(xlabel="C", ylabel="accuracy, %", title="wdbc")
    axis.legend()
    return figure


if __name__ == "__main__":
    _figure.run(draw, "leave_one_out_path", __doc__, sys.argv[1:])
