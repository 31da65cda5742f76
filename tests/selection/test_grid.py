"""Searching parameters: every point says what cross-validation of it alone says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import odmlib
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.options import TrainOptions
from odmlib.selection.cross_validation import cross_validate
from odmlib.selection.grid import (
    GridPoint,
    GridResult,
    chains,
    coarse_to_fine,
    edges,
    grid_search,
    make_axes,
    search,
    values_of,
)
from odmlib.selection.heat_map import rate_table, text_heat_map
from odmlib.selection.training import leave_one_out

EXACT = 1e-9  # gap at which no row of these sets is undecided


def sample(n_rows: int, n_classes: int = 2, seed: int = 0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4))
    centres = random.normal(size=(n_classes, 4))
    y = (X @ centres.T + random.normal(size=(n_rows, n_classes))).argmax(axis=1)
    return X, np.array([3, 1, 7, 5])[y]


def one_by_one(X, y, points: list[GridPoint], **options):
    weights = {name: options.pop(name, None) for name in ("sample_weight", "class_weight")}
    problem = Problem.from_arrays(X, y, **weights)
    for point in points:
        expected = cross_validate(problem, TrainOptions(**options | point.parameters), 4)
        assert point.rate == pytest.approx(100 * expected.accuracy, abs=1e-4), point


CASES = {
    "svm rbf": {"machine": "svm"},
    "odm rbf": {"machine": "odm"},
    "odml rbf": {"machine": "odml", "tol": 1e-6},
    "kmomd rbf": {"machine": "kmomd"},
    "mcodm rbf": {"machine": "mcodm", "tol": 1e-5},
    "odm linear": {"machine": "odm", "kernel": "linear"},
    "svm linear": {"machine": "svm", "kernel": "linear", "tol": 1e-7},
    "kmomd linear": {"machine": "kmomd", "kernel": "linear"},
    "mcodm linear": {"machine": "mcodm", "kernel": "linear", "tol": 1e-5},
    "odm poly": {"machine": "odm", "kernel": "poly", "degree": 2, "coef0": 1.0},
    "odm sigmoid": {"machine": "odm", "kernel": "sigmoid", "tol": 1e-6},
    "small cache": {"machine": "odm", "cache_mb": 0.05},
    "class weights": {"machine": "svm", "class_weight": {3: 2.0, 1: 0.5}},
    "balanced": {"machine": "odm", "class_weight": "balanced"},
}


@pytest.mark.parametrize("name", CASES)
def test_points_agree_with_cross_validation(name):
    X, y = sample(70)
    options = {"tol": EXACT, "threads": 2} | CASES[name]
    log2g = None if options.get("kernel") == "linear" else (-1, -3, -2)
    result = grid_search(X, y, log2c=(-3, 3, 3), log2g=log2g, folds=4, **options)
    assert len(result.points) == (3 if log2g is None else 6)
    assert result.complete
    one_by_one(X, y, result.points, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"machine": "odm"},
        {"machine": "svm", "multiclass": "ovr"},
        {"machine": "odm", "kernel": "linear"},
        {"machine": "odm", "kernel": "linear", "multiclass": "ovo"},
        {"machine": "kmomd"},
        {"machine": "odm", "cache_mb": 0.05},
        {"machine": "odm", "cache_mb": 0.05, "multiclass": "ovr"},
    ],
    ids=str,
)
def test_many_classes_agree_with_cross_validation(options):
    X, y = sample(90, n_classes=4)
    y[0] = 9  # a class that one fold alone has
    options = {"tol": EXACT, "threads": 2} | options
    log2g = None if options.get("kernel") == "linear" else (-1, -3, -2)
    result = grid_search(X, y, log2c=(-2, 2, 2), log2g=log2g, folds=4, **options)
    one_by_one(X, y, result.points, **options)


def test_sample_weights_and_a_class_of_one_fold():
    X, y = sample(60)
    weights = np.random.default_rng(1).integers(0, 3, 60).astype(float)
    options = {"tol": EXACT, "sample_weight": weights}
    one_by_one(X, y, grid_search(X, y, log2c=(-2, 2, 2), log2g=None, folds=4, **options).points, **options)
    y[:] = 1
    y[5] = 2  # the fold that has it can only say 1
    result = grid_search(X, y, log2c=(0, 2, 2), log2g=None, folds=4, tol=EXACT)
    one_by_one(X, y, result.points, tol=EXACT)


def test_precomputed_kernel():
    X, y = sample(60)
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    options = {"kernel": "precomputed", "tol": EXACT}
    result = grid_search(K, y, log2c=(-2, 4, 3), folds=4, **options)
    one_by_one(K, y, result.points, **options)
    direct = grid_search(X, y, log2c=(-2, 4, 3), folds=4, gamma=0.3, tol=EXACT)
    assert [point.rate for point in result.points] == [point.rate for point in direct.points]


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "linear"}, {"kernel": "sigmoid"}, {"machine": "odml"}], ids=str
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_leave_one_out_points(options, n_classes):
    X, y = sample(60, n_classes)
    options = {"tol": 1e-8} | options
    result = grid_search(X, y, log2c=(-3, 3, 3), log2g=None, loo=True, **options)
    for point in result.points:
        expected = leave_one_out(X, y, **options | point.parameters)
        assert point.rate == pytest.approx(100 * expected.accuracy, abs=1e-4)
    with pytest.raises(ParameterError, match="leave-one-out from one fit is for machine odml, odm"):
        grid_search(X, y, loo=True, machine="svm")


def test_threads_do_not_change_rates():
    X, y = sample(250)
    rates = [
        [p.rate for p in grid_search(X, y, log2c=(-5, 11, 4), log2g=(0, -4, -2), threads=threads).points]
        for threads in (1, 2, 7)
    ]
    assert rates[0] == rates[1] == rates[2]


def test_all_axes_and_the_best():
    X, y = sample(60)
    result = grid_search(
        X, y, log2c=(0, 2, 2), log2g=(-1, -3, -2), nu=(0.2, 1, 0.4), theta=(0, 0.2, 0.2), folds=3
    )
    assert len(result.points) == 2 * 2 * 3 * 2
    assert list(result.best.parameters) == ["C", "gamma", "nu", "theta"]
    assert result.best.rate == max(point.rate for point in result.points)
    assert {point.parameters["nu"] for point in result.points} == {0.2, 0.6, 1.0}
    odml = grid_search(
        X, y, machine="odml", C=1.0, log2lambda1=(0, 4, 4), log2lambda2=(2, 2, 1), log2g=None, folds=3
    )
    assert [point.parameters for point in odml.points] == [
        {"lambda1": 16.0, "lambda2": 4.0},
        {"lambda1": 1.0, "lambda2": 4.0},
    ]
    report = odml.report()
    assert report["complete"] and len(report["points"]) == 2 and report["best"]["rate"] == odml.best.rate


def test_refinement_goes_around_the_best():
    X, y = sample(60)
    coarse = grid_search(X, y, log2c=(-4, 4, 4), log2g=(0, -4, -4), folds=3)
    fine = grid_search(X, y, log2c=(-4, 4, 4), log2g=(0, -4, -4), folds=3, refine=2)
    assert fine.complete and fine.n_points == len(fine.points) > len(coarse.points)
    keys = [point.key for point in fine.points]
    assert len(keys) == len(set(keys))
    assert fine.best.rate >= coarse.best.rate
    first = fine.points[len(coarse.points) :][:8]
    for point in first:  # half a step of 4 around the coarse best
        for name in ("C", "gamma"):
            assert abs(np.log2(point.parameters[name] / coarse.best.parameters[name])) in (0, 2)


def test_a_best_point_on_an_edge_extends_the_grid():
    X, y = sample(60)
    narrow = {"log2c": (-7, -5, 2), "log2g": (-6, -4, 2), "folds": 3}  # too smooth: better lies above
    coarse = grid_search(X, y, **narrow)
    assert edges(coarse) == {"C": 2.0**-3, "gamma": 2.0**-2}
    wide = grid_search(X, y, **narrow, extend=20)
    assert wide.complete and wide.n_points == len(wide.points) > len(coarse.points)
    keys = [point.key for point in wide.points]
    assert len(keys) == len(set(keys))
    assert wide.best.rate > coarse.best.rate and not edges(wide)


def test_where_nothing_lies_beyond_is_no_edge():
    def found(rates, name, values):
        result = GridResult({name: list(values)}, len(values))
        for value, rate in zip(values, rates, strict=True):
            result.add(GridPoint({name: value}, rate))
        return edges(result)

    assert found([1, 2, 3], "C", [1.0, 4.0, 16.0]) == {"C": 64.0}
    assert found([3, 2, 1], "C", [1.0, 4.0, 16.0]) == {"C": 0.25}
    assert found([3, 3, 1], "C", [1.0, 4.0, 16.0]) == {}  # as good inside
    assert found([3], "C", [1.0]) == {}
    assert found([2, 1], "nu", [0.0, 1.0]) == found([2, 1], "theta", [0.0, 0.2]) == {}
    assert found([1, 2], "nu", [0.5, 1.0]) == {"nu": 1.5}
    assert found([1, 2], "theta", [0.2, 0.4]) == {"theta": 0.6}


def test_known_points_are_not_validated_again():
    X, y = sample(60)
    problem, options = Problem.from_arrays(X, y), TrainOptions()
    axes = make_axes(options, {"C": (0, 4, 2), "gamma": (-1, -3, -2)})
    known = [
        GridPoint({"C": 4.0, "gamma": 0.5}, 12.5, resumed=True),
        GridPoint({"C": 99.0, "gamma": 1.0}, 99),  # not of this grid
    ]
    result = search(problem, options, axes, folds=3, known=known)
    assert len(result.points) == 6
    taken = [point for point in result.points if point.resumed]
    assert taken == known[:1]
    fresh = search(problem, options, axes, folds=3)
    assert [p.rate for p in result.points if not p.resumed] == pytest.approx(
        [p.rate for p in fresh.points if p.key != known[0].key], abs=3.5
    )


def test_callback_ends_the_search_and_time_limit_too():
    X, y = sample(60)
    heard = []

    def tell(point, result):
        heard.append(point)
        return len(heard) == 4

    result = grid_search(X, y, folds=3, tell=tell)
    assert result.points == heard and len(heard) == 4 and not result.complete
    heard.clear()
    result = grid_search(X, y, folds=3, time_limit=1e-9, tell=tell)
    assert result.points == heard == [] and not result.complete


def test_ranges():
    assert values_of("C", (-1, 3, 2)) == [0.5, 2.0, 8.0]
    assert values_of("gamma", (3, -3, -3)) == [8.0, 1.0, 0.125]
    assert values_of("nu", (0.1, 0.5, 0.1)) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert values_of("theta", (0, 0, 1)) == [0.0]
    for wrong, message in [
        ((0, 1, 0), "never gets"),
        ((0, 1, -1), "never gets"),
        ((0, 1), "begin, end and step"),
        ((0, np.inf, 1), "begin, end and step"),
        ((0, 1, 1e-9), "at most 10000"),
        ((1000, 1100, 50), "beyond"),
    ]:
        with pytest.raises(ParameterError, match=message):
            values_of("C", wrong)
    with pytest.raises(ParameterError, match="nothing to search"):
        grid_search([[1.0], [2.0]], [0, 1], C=1, kernel="linear")
    with pytest.raises(ParameterError, match="at least 2 folds"):
        grid_search([[1.0], [2.0]], [0, 1], folds=1)
    with pytest.raises(TypeError, match="no option 'kernal'"):
        grid_search([[1.0], [2.0]], [0, 1], kernal="linear")
    with pytest.raises(ParameterError, match="same label"):
        grid_search([[1.0], [2.0]], [1, 1])
    assert list(make_axes(TrainOptions(machine="svm"), {"nu": (0, 1, 1), "C": (0, 1, 1)})) == ["C"]


def test_order_is_coarse_to_fine_like_grid_py():
    assert coarse_to_fine([1.0]) == [1.0]
    assert coarse_to_fine([-5, -3, -1, 1, 3, 5, 7]) == [1, -3, 5, -5, 3, -1, 7]
    order = chains({"C": [4.0, 1.0, 2.0], "gamma": [1.0, 2.0, 3.0]})
    assert [chain[0]["gamma"] for chain in order] == [2.0, 1.0, 3.0]
    assert [point["C"] for point in order[0]] == [1.0, 2.0, 4.0]


def test_best_of_equals_is_the_smaller_c():
    result = GridResult({"C": [1.0, 2.0]}, 3)
    result.add(GridPoint({"C": 2.0, "gamma": 1.0}, 90.0))
    result.add(GridPoint({"C": 1.0, "gamma": 1.0}, 90.0))
    result.add(GridPoint({"C": 0.5, "gamma": 2.0}, 90.0))  # another gamma: grid.py keeps the first
    assert result.best.parameters == {"C": 1.0, "gamma": 1.0}


def test_heat_maps():
    result = GridResult({"C": [1.0, 2.0], "gamma": [1.0, 4.0], "nu": [0.5]}, 4)
    for C, gamma, nu, rate in [(1, 1, 0.5, 80), (2, 1, 0.5, 90), (1, 4, 0.5, 70), (2, 1, 0.7, 85)]:
        result.add(GridPoint({"C": float(C), "gamma": float(gamma), "nu": nu}, float(rate)))
    across, down, table = rate_table(result)
    assert across == ("C", [0.0, 1.0]) and down == ("gamma", [0.0, 2.0])
    assert table[0].tolist() == [80, 90] and table[1][0] == 70 and np.isnan(table[1][1])
    text = text_heat_map(result)
    assert text.splitlines()[0] == "   2 |  ??|" and text.splitlines()[1] == "   0 |  @@|"


def test_wide_rows_are_needed_at_large_c_only():
    """The path goes on from float32 to float64 rows, and its rates stay those of cross-validation."""
    X, y = sample(80)
    result = grid_search(X, y, log2c=(-2, 22, 8), log2g=None, folds=4, tol=1e-7)
    one_by_one(X, y, result.points, tol=1e-7)


def test_public_name():
    assert odmlib.grid_search is grid_search


def test_the_manual_runs(tmp_path, monkeypatch):
    root = Path(__file__).resolve().parents[2]
    (tmp_path / "data").symlink_to(root / "data")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", (root / "docs" / "grid.md").read_text(), flags=re.DOTALL)
    names: dict = {}
    exec(compile(block, "grid.md", "exec"), names)
    assert len(names["rates"]) == 9 and names["model"].report["status"] == "converged"
