"""SODM (Wang, Cao, Zhang, Shi and Jin 2023): Tables 2, 3 and Figures 1, 2, 3, 4.

Protocol as printed: features in [0, 1], four fifths of the rows train. The paper does not print its
parameters; here C and gamma are fixed per set, nu is 0.5 and theta 0.2, and there are 16 partitions. Ca-,
DiP- and DC-ODM are our partitioners of the same names, stopped at level 1 as SODM is. With the linear
kernel SODM's solver is dsvrg, the paper's Algorithm 2. Times are those of one machine, not of a cluster;
sodm.figure2.spark takes a Spark master (--spark).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import odmlib
from benchmarks._common import odm_tool, run_program
from benchmarks.papers._protocol import accuracy, scaled, split, trained, two_classes
from benchmarks.papers._study import Numbers, Study
from benchmarks.sodm import SETS as FIXED

METHODS = ("ODM", "Ca-ODM", "DiP-ODM", "DC-ODM", "SODM")
PARTITIONS = {"Ca-ODM": "cascade", "DiP-ODM": "dip", "DC-ODM": "dc", "SODM": "stratified-class"}
LEVELS = 4
GRADIENT = {"ODM_svrg": "svrg", "ODM_csvrg": "csvrg", "SODM": "dsvrg"}
MOST_ROWS, QUICK_ROWS = 25_000, 3_000
CORES = (1, 2)[: os.cpu_count()]  # not odmlib's number, which heeds the OMP_NUM_THREADS of benchmarks.papers
SPARK_MASTER, SPARK_SECONDS = "ODMLIB_SPARK", 1_800  # where --spark leaves its word; the longest training
NAMES = {"skin-nonskin": "skin_nonskin", "SUSY": "SUSY.30k"}  # in benchmarks/sodm.py
PARAMETERS = {"a7a": (0.05, 1.0)}  # gamma, C of the sets that it does not have
# accuracies by METHODS
TABLE2 = {
    "gisette": (0.976, 0.957, 0.970, 0.964, 0.972),
    "svmguide1": (0.970, 0.872, 0.903, 0.943, 0.944),
    "phishing": (0.941, 0.880, 0.901, 0.936, 0.938),
    "a7a": (0.882, 0.824, 0.813, 0.815, 0.838),
    "cod-rna": (None, 0.892, 0.905, 0.931, 0.933),
    "ijcnn1": (None, 0.889, 0.893, 0.915, 0.927),
    "skin-nonskin": (None, 0.806, 0.830, 0.962, 0.956),
    "SUSY": (None, 0.733, 0.744, 0.747, 0.760),
}
TABLE3 = {
    "gisette": (0.972, 0.953, 0.966, 0.968, 0.968),
    "svmguide1": (0.964, 0.863, 0.898, 0.933, 0.931),
    "phishing": (0.937, 0.894, 0.921, 0.926, 0.933),
    "a7a": (0.850, 0.795, 0.831, 0.833, 0.847),
    "cod-rna": (0.938, 0.882, 0.894, 0.890, 0.934),
    "ijcnn1": (0.913, 0.896, 0.903, 0.883, 0.920),
    "skin-nonskin": (0.917, 0.796, 0.903, 0.922, 0.909),
    "SUSY": (0.774, 0.734, 0.738, 0.747, 0.760),
}


def parameters(name: str) -> tuple[float, float]:
    """(gamma, C)"""
    gamma, C, *_ = PARAMETERS.get(name) or FIXED.get(NAMES.get(name, name), (1.0, 1.0))
    return float(gamma), float(C)


def parts_of(name: str, repeat: int, quick: bool) -> tuple[Any, ...]:
    X, y = scaled(name, QUICK_ROWS if quick else MOST_ROWS, seed=repeat)
    y = two_classes(y)
    inside, outside = split(len(y), 0.8, repeat)
    return X[inside], y[inside], X[outside], y[outside]


def options_of(kernel: str, name: str, method: str, level: int = 1) -> dict[str, Any]:
    gamma, C = parameters(name)
    common: dict[str, Any] = {"kernel": kernel, "gamma": gamma, "C": C}
    if method == "ODM":
        return common
    if kernel == "linear" and method == "SODM":
        return common | {"machine": "sodm", "solver": "dsvrg", "partitions": 2**LEVELS}
    own = {"partition": PARTITIONS[method], "levels": LEVELS, "stop_level": level}
    return common | {"machine": "sodm", "cache_mb": 500} | own


def measured(rows: tuple[Any, ...], options: dict[str, Any]) -> tuple[float, float]:
    """(accuracy, seconds on the clock)."""
    X, y, X_test, y_test = rows
    started = time.perf_counter()
    model = trained(X, y, {"threads": max(CORES), "time_limit": 600.0}, options)
    seconds = time.perf_counter() - started
    return accuracy(model, X_test, y_test), seconds


def table_cell(kernel: str, name: str, repeat: int, method: str, quick: bool) -> Numbers:
    right, seconds = measured(parts_of(name, repeat, quick), options_of(kernel, name, method))
    return {"accuracy": right, "seconds": seconds}


def level_curve(kernel: str, name: str, repeat: int, method: str, quick: bool) -> Numbers:
    """Accuracy at the time when training is stopped at each level."""
    rows, found = parts_of(name, repeat, quick), {}
    levels = (
        range(LEVELS, -1, -1)
        if method in PARTITIONS and not (kernel == "linear" and method == "SODM")
        else (0,)
    )
    for level in levels:
        right, seconds = measured(rows, options_of(kernel, name, method, level))
        found[f"{seconds:.4f}"] = right
    return found


def speedup_curve(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    """Seconds with one thread divided by seconds with so many."""
    rows = parts_of(name, repeat, quick)
    options = options_of(method, name, "SODM", level=0)
    seconds = {n: measured(rows, options | {"threads": n})[1] for n in CORES}
    return {str(n): seconds[1] / value for n, value in seconds.items()}


def spark_curve(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    """The same for odm-train on Spark: seconds of training, without the start of Spark."""
    X, y, *_ = parts_of(name, repeat, quick)
    gamma, C = parameters(name)
    kernel = ["-t", "linear"] if method == "linear" else ["-g", repr(gamma), "--levels", str(LEVELS)]
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        rows, model, report = (Path(folder) / part for part in ("rows", "model", "report"))
        odmlib.write_data(rows, X, y)
        for n in CORES:
            master = os.environ[SPARK_MASTER].replace("{n}", str(n))
            words = ["-q", "-s", "6", "-c", repr(C), *kernel, "--spark", master, "--json", report]
            if run_program([*odm_tool("train"), *words, rows, model], SPARK_SECONDS) is None:
                return {}
            seconds[n] = json.loads(report.read_text())["seconds"]["train"]
    return {str(n): seconds[1] / value for n, value in seconds.items()}


def gradient_cell(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    _, C = parameters(name)
    options = {"machine": "sodm", "kernel": "linear", "solver": GRADIENT[method], "C": C, "tol": 1e-2}
    if method == "SODM":
        options["partitions"] = 2**LEVELS
    right, seconds = measured(parts_of(name, repeat, quick), options)
    return {"accuracy": right, "seconds": seconds}


def printed(table: dict[str, tuple[float | None, ...]]) -> dict[str, dict[str, float]]:
    return {
        name: {method: value for method, value in zip(METHODS, row, strict=True) if value is not None}
        for name, row in table.items()
    }


SETS = tuple(TABLE2)
NOTE = (
    f"At most {MOST_ROWS:,} rows of a set ({QUICK_ROWS:,} with --quick); SUSY is 30,000 of 5,000,000 rows; "
    "the paper's a7a is a9a. Every method but ODM and the linear SODM is stopped at level 1: two machines, "
    "whose average is taken."
)
COMMON = {"repeats": 5, "quick_repeats": 2, "note": NOTE}
CURVE = {"axes": ("seconds", "accuracy"), "logarithmic": True, "repeats": 1, "quick_repeats": 1, "note": NOTE}
STUDIES = (
    Study(
        "sodm.table2",
        "accuracy, RBF kernel",
        SETS,
        METHODS,
        partial(table_cell, "rbf"),
        hours=3,
        against="ODM",
        paper=printed(TABLE2),
        **COMMON,
    ),
    Study(
        "sodm.table3",
        "accuracy, linear kernel",
        SETS,
        METHODS,
        partial(table_cell, "linear"),
        hours=3,
        against="ODM",
        paper=printed(TABLE3),
        **COMMON,
    ),
    Study(
        "sodm.figure1",
        "accuracy and time by level, RBF kernel",
        SETS,
        METHODS,
        partial(level_curve, "rbf"),
        hours=2,
        **CURVE,
    ),
    Study(
        "sodm.figure2",
        "speedup by threads",
        SETS,
        ("rbf", "linear"),
        speedup_curve,
        repeats=3,
        quick_repeats=1,
        hours=1,
        axes=("threads", "speedup"),
        note="1 and 2 threads; the paper has 32 cores.",
    ),
    Study(
        "sodm.figure2.spark",
        "speedup by cores of a Spark master (--spark)",
        SETS,
        ("rbf", "linear"),
        spark_curve,
        repeats=3,
        quick_repeats=1,
        hours=2,
        axes=("cores", "speedup"),
        needs_spark=True,
        note="Seconds of training without the start of Spark; 1 and 2 cores.",
    ),
    Study(
        "sodm.figure3",
        "accuracy and time by level, linear kernel",
        SETS,
        METHODS,
        partial(level_curve, "linear"),
        hours=2,
        **CURVE,
    ),
    Study(
        "sodm.figure4",
        "gradient methods: accuracy, linear kernel",
        SETS,
        tuple(GRADIENT),
        gradient_cell,
        hours=1,
        against="ODM_svrg",
        **COMMON,
    ),
)
