"""KM-OMD (Aiolli, San Martino and Sperduti 2008): Table 1 and Figures 1, 2.

Protocol as printed: random splits into a training and a test part, parameters by 5 folds on the first
five, the median of the five choices for all splits. The paper takes 100 fixed splits of its sets; ours
are drawn anew. Features are standardised. The column "kkt" is KM-OMD with the bias of the equal L2-loss
SVM as its threshold.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.papers._protocol import accuracy, trained, two_classes
from benchmarks.papers._study import Numbers, Study
from odmlib.data.folds import stratified_folds
from odmlib.machines.kmomd import path, with_threshold

# name: training rows, and the printed errors of SVM and KM-OMD
TABLE1 = {
    "banana": (400, 0.1153, 0.1066),
    "breast": (200, 0.2604, 0.30792),
    "diabetes": (468, 0.2353, 0.24883),
    "flare-solar": (666, 0.3243, 0.33115),
    "german": (700, 0.2361, 0.2497),
    "heart-statlog": (170, 0.1595, 0.1585),
    "image": (1300, 0.0296, 0.03198),
    "ringnorm": (400, 0.0166, 0.01536),
    "splice": (1000, 0.1088, 0.11025),
    "thyroid": (140, 0.048, 0.04585),
    "titanic": (150, 0.2242, 0.2457),
    "twonorm": (400, 0.0296, 0.02548),
    "waveform": (400, 0.0988, 0.09685),
}
METHODS = ("SVM", "KM-OMD", "KM-OMD, kkt")
THRESHOLDS = {"KM-OMD": "midpoint", "KM-OMD, kkt": "kkt"}
LAMBDAS = (1, 0.97, 0.9, 0.8, 0.65, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003)
COSTS = tuple(2.0**k for k in range(-4, 11))
WIDTHS = (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 8, 32)  # gamma x features
FIGURE_LAMBDAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99)


@functools.lru_cache(maxsize=16)
def standardised(name: str) -> tuple[Any, Any]:
    X, y = data.load(name)
    X = X.toarray()
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12), two_classes(y)


def split(name: str, repeat: int) -> tuple[Any, Any]:
    order = np.random.default_rng([0, repeat]).permutation(len(standardised(name)[1]))
    return order[: TABLE1[name][0]], order[TABLE1[name][0] :]


def errors_by_lambda(X: Any, y: Any, X_test: Any, y_test: Any, gamma: float, method: str) -> list[float]:
    """Wrong rows for every value of the method's own parameter; warm paths over lambda."""
    if method == "SVM":
        fixed = {"machine": "svm", "gamma": gamma, "bias": 1}
        return [float((trained(X, y, fixed, {"C": C}).predict(X_test) != y_test).sum()) for C in COSTS]
    threshold, wrong = THRESHOLDS[method], []
    for model in path(X, y, LAMBDAS, gamma=gamma, threads=1):
        known = f"theta_{threshold}" in model.extras  # lambda = 1 has no kkt
        predicted = with_threshold(model, threshold).predict(X_test) if known else -y_test
        wrong.append(float((predicted != y_test).sum()))
    return wrong


@functools.lru_cache(maxsize=64)
def chosen(name: str, method: str, quick: bool) -> tuple[float, float]:
    """(gamma, C or lambda): medians of the best on the first five splits."""
    X, y = standardised(name)
    values = COSTS if method == "SVM" else LAMBDAS
    gammas = np.array(WIDTHS[1::3] if quick else WIDTHS) / X.shape[1]
    best = []
    for number in range(2 if quick else 5):
        rows, _ = split(name, number)
        folds = stratified_folds((y[rows] < 0).astype(np.int64), 5, number)
        errors = np.array(
            [
                sum(
                    np.array(
                        errors_by_lambda(
                            X[rows[folds != fold]],
                            y[rows[folds != fold]],
                            X[rows[folds == fold]],
                            y[rows[folds == fold]],
                            float(g),
                            method,
                        )
                    )
                    for fold in range(5)
                )
                for g in gammas
            ]
        )
        # the least error is shared by many on small sets: the median of those
        widths, places = np.nonzero(errors == errors.min())
        best.append((np.median(gammas[widths]), np.median(np.array(values)[places])))
    gamma, value = np.median(best, axis=0)
    return float(gamma), float(value)


def options_of(name: str, method: str, quick: bool) -> dict[str, Any]:
    gamma, value = chosen(name, method, quick)
    if method == "SVM":
        return {"machine": "svm", "gamma": gamma, "C": value, "bias": 1}
    return {"machine": "kmomd", "gamma": gamma, "lambda_": value, "threshold": THRESHOLDS[method]}


def table_cell(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    X, y = standardised(name)
    inside, outside = split(name, repeat)
    model = trained(X[inside], y[inside], options_of(name, method, quick))
    return {"error": 1 - accuracy(model, X[outside], y[outside])}


def error_curve(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    X, y = standardised(name)
    inside, outside = split(name, repeat)
    gamma, _ = chosen(name, method, quick)
    models = path(X[inside], y[inside], FIGURE_LAMBDAS, gamma=gamma, threads=1)
    return {
        str(lam): 1 - accuracy(model, X[outside], y[outside])
        for lam, model in zip(FIGURE_LAMBDAS, models, strict=True)
    }


def time_curve(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    """Processor time of a training from scratch over the longest, or the entropy E(gamma) of its solution."""
    X, y = standardised(name)
    inside, _ = split(name, repeat)
    found = {}
    for lam in FIGURE_LAMBDAS:
        started = time.process_time()
        model = trained(X[inside], y[inside], {"machine": "kmomd", "lambda_": lam})
        seconds = time.process_time() - started
        found[str(lam)] = model.report["details"]["entropy"] if method == "entropy" else seconds
    return (
        found if method == "entropy" else {lam: value / max(found.values()) for lam, value in found.items()}
    )


PRINTED = {name: {"SVM": row[1], "KM-OMD": row[2]} for name, row in TABLE1.items()}
CURVES = {"axes": ("lambda", "test error"), "logarithmic": True}
STUDIES = (
    Study(
        "kmomd.table1",
        "test error, RBF kernel",
        tuple(TABLE1),
        METHODS,
        table_cell,
        repeats=100,
        quick_repeats=5,
        hours=3,
        against="SVM",
        measure="error",
        smaller_is_better=True,
        paper=PRINTED,
    ),
    Study(
        "kmomd.figure1",
        "test error by lambda",
        tuple(TABLE1),
        ("KM-OMD",),
        error_curve,
        repeats=20,
        quick_repeats=3,
        hours=3,
        **CURVES,
    ),
    Study(
        "kmomd.figure2",
        "training time by lambda, with the entropy of the solution",
        ("image", "waveform"),
        ("time / longest time", "entropy"),
        time_curve,
        repeats=5,
        quick_repeats=1,
        hours=0.2,
        logarithmic=True,
        axes=("lambda", "processor time; entropy"),
    ),
)
