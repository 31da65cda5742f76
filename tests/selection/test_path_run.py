"""Validation along C: unfinished trainings are counted, and what cannot be shared is refused."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.problem import Problem
from odmlib.model.schemes import class_pairs, winners
from odmlib.options import TrainOptions
from odmlib.selection.cross_validation import cross_validate
from odmlib.selection.path_run import FoldPaths, PathRun, Predictions
from odmlib.solvers.control import Control

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 4))
Y = (X @ RANDOM.normal(size=(4, 3)) + RANDOM.normal(size=(120, 3))).argmax(axis=1)
PROBLEM = Problem.from_arrays(X, Y)
CODES = np.array([0, 1, 2, 2, 1, 0])


def rates(settings, control=None, problem=PROBLEM):
    found = {}
    PathRun(FoldPaths(problem, 4, 0), settings, control or Control(settings[0].tol), found.__setitem__).run()
    return found


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"kernel": "rbf"}, {"multiclass": "ovr"}])
def test_every_setting_is_that_of_cross_validation(options):
    settings = [TrainOptions(C=C, tol=1e-8, **options) for C in (0.1, 1.0, 10.0)]
    found = rates(settings)
    for place, setting in enumerate(settings):
        assert found[place].score == pytest.approx(cross_validate(PROBLEM, setting, 4).accuracy)
        assert found[place].unfinished == 0


def test_a_kernel_of_little_rank_leaves_nothing_to_the_blocks():
    X = RANDOM.uniform(-1, 1, size=(700, 3))
    classes = 1 * (X[:, 0] + 0.3 * RANDOM.normal(size=len(X)) > 0) + 2 * (X[:, 1] > 0.9)
    for y in (classes % 2, classes):  # of four classes, two make a pair of more rows than a block
        problem = Problem.from_arrays(X, y)
        settings = [TrainOptions(C=C, gamma=0.05) for C in (0.1, 1.0, 10.0)]
        several = {}
        for n_settings in (3, 1):  # with few trainings no features are made
            seen = []
            rates(settings[:n_settings], Control(1e-3, callback=seen.append), problem)
            several[n_settings] = any(progress.iteration > 1 for progress in seen)
        assert several == {3: False, 1: True}


def test_unfinished_trainings_are_counted_by_fold():
    settings = [TrainOptions(C=C, tol=1e-12) for C in (1.0, 1000.0)]
    assert rates(settings, Control(1e-12, max_iter=1))[1].unfinished == 4


def test_settings_that_the_time_limit_cut_short_have_no_rate():
    assert rates([TrainOptions(C=1.0)], Control(time_limit=1e-9)) == {}


def test_what_suits():
    paths = FoldPaths(PROBLEM, 4, 0)
    for options in ({}, {"kernel": "linear"}, {"machine": "svm"}, {"machine": "kmomd"}):
        assert paths.suits(TrainOptions(**options))
    for options in (
        {"machine": "mcodm"},
        {"machine": "kmomd", "threshold": "none", "lambda_": 1.0},
        {"cache_mb": 0.01},  # one-vs-one needs room for all rows
        {"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0},  # the shift would be each fold's own
    ):
        assert not paths.suits(TrainOptions(**options))


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_as_prediction_does_in_any_order_of_outputs(scheme):
    random = np.random.default_rng(4)
    pairs = [(int(i), int(j)) for i, j in zip(*class_pairs(3), strict=True)]
    sides = pairs if scheme == "ovo" else [(0, None), (1, None), (2, None)]
    scores = random.integers(-1, 2, size=(6, 3)).astype(float)  # with ties
    expected = winners(scheme, scores, 3)
    for order in (range(3), reversed(range(3))):
        predictions = Predictions(scheme, CODES, 2, 3)
        for output in order:
            predictions.add(1, np.arange(6), scores[:, output], sides[output])
        assert predictions.score(1) == np.mean(expected == CODES)
        assert predictions.predicted[1].tolist() == expected.tolist()


def test_two_classes_that_a_fold_has_left():
    predictions = Predictions("ovr", CODES, 1, 3)
    predictions.add(0, np.array([1, 4]), np.array([0.5, -0.5]), (2, 1))
    assert predictions.predicted[0].tolist() == [0, 2, 0, 0, 1, 0]
