"""ODM^L's hard margin."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib


def separable(m=60):
    random = np.random.default_rng(0)
    X = random.normal(size=(m, 4))
    scores = X @ np.array([1, 2, -1, 0.5])
    far = np.abs(scores) > 0.8
    return X[far], np.sign(scores[far])


HARD = {"machine": "odml", "lambda1": 1.0, "lambda2": 1.0, "hard_margin": True}


@pytest.mark.parametrize("given", [{"kernel": "linear", "bias": -1}, {"gamma": 0.5}], ids=str)
def test_the_hard_margin_is_the_best_machine_without_a_margin_below_1(given):
    """Against SLSQP, which knows the constraints themselves."""
    from scipy.optimize import minimize

    X, y = separable(30)
    model = odmlib.train(X, y, tol=1e-9, **HARD, **given)
    K = (
        X @ X.T
        if given.get("kernel") == "linear"
        else np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    )
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10
    rows = y[:, None] * vectors[:, kept] * np.sqrt(values[kept])  # margins are rows @ w

    def objective(w):
        z = rows @ w
        return 0.5 * w @ w + z.var() - z.mean()

    start = np.linalg.lstsq(rows, np.full(len(y), 1.5), rcond=None)[0]
    exact = minimize(objective, start, constraints={"type": "ineq", "fun": lambda w: rows @ w - 1},
                     options={"maxiter": 1000, "ftol": 1e-12})  # fmt: skip
    assert exact.success
    np.testing.assert_allclose(model.margins(X, y), rows @ exact.x, atol=1e-3)
    assert model.report["margin"]["min"] > 1 - 1e-6
    assert model.report["details"]["hard_margin_C"] >= 1


@pytest.mark.parametrize(
    "given", [{"kernel": "linear"}, {"kernel": "poly", "degree": 1, "gamma": 1}], ids=str
)
def test_no_hard_margin_where_the_classes_overlap(given):
    X, y = separable()
    y[0] = -y[0]
    with pytest.raises(odmlib.ParameterError, match=r"^not separable, .* with C = \S+ \d+ rows still"):
        odmlib.train(X, y, **HARD, **given)


def test_what_the_hard_margin_needs():
    X, y = separable()
    for change, message in (
        ({"lambda2": None}, "needs lambda1"),
        ({"C": 2}, "cannot stand together"),
        ({"machine": "odm", "lambda1": None, "lambda2": None}, "machine odml"),
    ):
        with pytest.raises(odmlib.ParameterError, match=message):
            odmlib.train(X, y, **HARD | change)
    with pytest.raises(odmlib.ParameterError, match="hard_margin"):
        odmlib.leave_one_out(X, y, **HARD)
    with pytest.raises(odmlib.ParameterError, match="not available for a stream"):
        odmlib.train_stream([(X, y)], **HARD)
