"""ssODM (Zhang and Zhou 2018): Table 2.

Protocol as printed: features in [0, 1], three quarters of the rows train, 5 % or 10 % of them keep their
labels. The paper reports "the best parameter setting" of each method: chosen by the accuracy on the test
rows. The columns "best on test" do that, with lambda1 and lambda2 (C of the SVM) from 1, 10, 100, 1000,
nu and theta from 0.2 .. 0.8 and five kernel widths. The columns without it have no tuning at all: our
defaults, and the same weight of a labeled row for the SVM and ODM that see the labeled rows only, and for
TSVM (tsvm.py), whose unlabeled rows weigh as much as the labeled ones. "ssODM --raw" is the paper's
Algorithm 1 as printed, with our defaults.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from benchmarks.papers._protocol import accuracy, scaled, trained, two_classes
from benchmarks.papers._study import Numbers, Study
from benchmarks.papers.tsvm import train_tsvm
from benchmarks.ssodm import split_rows
from odmlib.data.dataset import Dataset

MACHINES = ("SVM", "TSVM", "ODM", "ssODM")
METHODS = (*MACHINES, "ssODM --raw", *(f"{name}, best on test" for name in MACHINES))
RAW = {"solver": "smp", "raw": True, "balance": "equal"}
MOST_ROWS = 1500

TABLE2 = {  # set, labels in percent: SVM, TSVM, LapSVM, USVM, S4VM, ssODM
    ("echocardiogram", 5): (0.8, 0.741, 0.644, 0.801, 0.804, 0.819),
    ("echocardiogram", 10): (0.812, 0.761, 0.684, 0.821, 0.824, 0.839),
    ("house", 5): (0.9, 0.903, 0.906, 0.903, 0.909, 0.917),
    ("house", 10): (0.912, 0.921, 0.918, 0.911, 0.924, 0.923),
    ("heart", 5): (0.7, 0.752, 0.733, 0.762, 0.772, 0.783),
    ("heart", 10): (0.751, 0.783, 0.756, 0.779, 0.784, 0.798),
    ("heart-statlog", 5): (0.73, 0.762, 0.753, 0.781, 0.791, 0.789),
    ("heart-statlog", 10): (0.751, 0.792, 0.793, 0.791, 0.831, 0.824),
    ("haberman", 5): (0.651, 0.614, 0.577, 0.743, 0.732, 0.737),
    ("haberman", 10): (0.683, 0.634, 0.601, 0.794, 0.787, 0.788),
    ("liverDisorders", 5): (0.568, 0.555, 0.556, 0.59, 0.53, 0.588),
    ("liverDisorders", 10): (0.583, 0.584, 0.601, 0.642, 0.59, 0.639),
    ("ionosphere", 5): (0.678, 0.822, 0.656, 0.77, 0.701, 0.791),
    ("ionosphere", 10): (0.691, 0.861, 0.681, 0.791, 0.761, 0.831),
    ("vehicle.435", 5): (0.748, 0.751, 0.773, 0.741, 0.789, 0.791),
    ("vehicle.435", 10): (0.761, 0.772, 0.791, 0.76, 0.819, 0.823),
    ("house-votes", 5): (0.888, 0.891, 0.899, 0.901, 0.912, 0.925),
    ("house-votes", 10): (0.897, 0.899, 0.901, 0.91, 0.925, 0.929),
    ("clean1", 5): (0.58, 0.621, 0.641, 0.623, 0.641, 0.661),
    ("clean1", 10): (0.591, 0.641, 0.649, 0.634, 0.651, 0.671),
    ("wdbc", 5): (0.813, 0.803, 0.808, 0.82, 0.821, 0.829),
    ("wdbc", 10): (0.831, 0.823, 0.818, 0.825, 0.829, 0.835),
    ("isolet", 5): (0.97, 0.976, 0.98, 0.987, 0.988, 0.991),
    ("isolet", 10): (0.973, 0.978, 0.985, 0.989, 0.989, 0.992),
    ("austra", 5): (0.77, 0.82, 0.766, 0.781, 0.775, 0.813),
    ("austra", 10): (0.79, 0.85, 0.796, 0.788, 0.799, 0.843),
    ("australian", 5): (0.672, 0.681, 0.782, 0.789, 0.788, 0.799),
    ("australian", 10): (0.681, 0.692, 0.791, 0.792, 0.797, 0.805),
    ("diabetes", 5): (0.679, 0.683, 0.761, 0.771, 0.768, 0.79),
    ("diabetes", 10): (0.703, 0.703, 0.77, 0.776, 0.771, 0.798),
    ("german", 5): (0.7, 0.703, 0.708, 0.71, 0.715, 0.726),
    ("german", 10): (0.7, 0.708, 0.709, 0.713, 0.718, 0.731),
    ("optdigits", 5): (0.922, 0.891, 0.902, 0.913, 0.918, 0.919),
    ("optdigits", 10): (0.925, 0.894, 0.912, 0.917, 0.913, 0.921),
    ("krvskp", 5): (0.911, 0.899, 0.921, 0.916, 0.926, 0.932),
    ("krvskp", 10): (0.919, 0.903, 0.927, 0.925, 0.929, 0.936),
    ("sick", 5): (0.941, 0.932, 0.939, 0.935, 0.929, 0.948),
    ("sick", 10): (0.946, 0.938, 0.941, 0.939, 0.934, 0.955),
    ("real-sim", 5): (0.901, 0.913, 0.922, 0.93, 0.924, 0.922),
    ("real-sim", 10): (0.909, 0.919, 0.929, 0.933, 0.928, 0.941),
}


def grid(method: str, X: Any, quick: bool) -> list[dict[str, Any]]:
    weights, inner = (1, 10, 100, 1000), (0.2, 0.6) if quick else (0.2, 0.4, 0.6, 0.8)
    gamma = 1 / (2 * Dataset.from_any(X).mean_distance() ** 2)
    widths = [{"kernel": "linear"}] + [
        {"kernel": "rbf", "gamma": gamma * 4.0**k} for k in ((-1, 1) if quick else (-2, -1, 0, 1, 2))
    ]
    if method in ("SVM", "TSVM"):
        own: list[dict[str, Any]] = [{"machine": "svm", "lambda_": C} for C in weights]
    else:
        own = [{"nu": nu, "theta": theta} for nu, theta in itertools.product(inner, inner)]
        names = ("lambda1", "lambda2") if method == "ssODM" else ("lambda_",)
        machine = {"machine": "ssodm" if method == "ssODM" else "odm", "bias": -1}
        values = itertools.product(weights[1::2] if quick else weights, repeat=len(names))
        own = [dict(zip(names, value, strict=True)) | machine | one for value in values for one in own]
    return [one | width for one in own for width in widths]


def table_cell(percent: int, name: str, repeat: int, method: str, quick: bool) -> Numbers:
    X, y = scaled(name)
    y = two_classes(y)
    train, test, n_labeled = split_rows(y, percent / 100, repeat, MOST_ROWS)
    marked = y[train].copy()
    marked[n_labeled:] = 0
    labeled = train[:n_labeled]
    machine, _, tuned = method.partition(", ")
    open_rows_too = machine in ("TSVM", "ssODM", "ssODM --raw")
    rows, labels = (X[train], marked) if open_rows_too else (X[labeled], y[labeled])
    points = grid(machine, X[train], quick) if tuned else [defaults(machine, X[train])]
    models = (of_machine(machine, rows, labels, n_labeled, point) for point in points)
    return {"accuracy": max(accuracy(model, X[test], y[test]) for model in models)}


def defaults(machine: str, X: Any) -> dict[str, Any]:
    if machine.startswith("ssODM"):
        return {"machine": "ssodm"} | (RAW if machine == "ssODM --raw" else {})
    same = {"lambda_": 100.0, "gamma": 1 / max(1e-12, X.shape[1] * float(np.var(X)))}
    return same | {"machine": "odm" if machine == "ODM" else "svm"}


def of_machine(machine: str, X: Any, labels: Any, n_labeled: int, point: dict[str, Any]) -> Any:
    if machine != "TSVM":
        return trained(X, labels, point, {"time_limit": 5.0})
    options = {key: value for key, value in point.items() if key not in ("machine", "lambda_")}
    return train_tsvm(X, labels, point["lambda_"] / n_labeled, threads=1, time_limit=5.0, **options)


def printed(percent: int) -> dict[str, dict[str, float]]:
    return {
        name: {
            "SVM, best on test": row[0],
            "TSVM, best on test": row[1],
            "ssODM, best on test": row[-1],
        }
        for (name, rate), row in TABLE2.items()
        if rate == percent
    }


SETS = tuple(dict.fromkeys(name for name, _ in TABLE2))
STUDIES = tuple(
    Study(
        f"ssodm.table2.{percent}",
        f"accuracy with {percent} % of the labels",
        SETS,
        METHODS,
        partial(table_cell, percent),
        repeats=10,
        quick_repeats=5,
        hours=20,
        against="ODM",
        paper=printed(percent),
        note=f"At most {MOST_ROWS:,} rows of a set. TSVM is our program of Joachims' algorithm. LapSVM, USVM "
        "and S4VM are not run: we have no program of theirs.",
    )
    for percent in (5, 10)
)
