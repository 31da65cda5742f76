"""Two problems that ODM and LIBLINEAR share exactly, against LIBLINEAR, a program we did not write.

nu = 1 is L2-loss epsilon-SVR on targets +-1: -s 11 with -p theta -c C/(1-theta)^2.
nu = 0, theta = 0 is the L2-loss SVC: -s 2 with -c C.
LIBLINEAR stops on the gradient norm; with a tight -e its weights are good to many digits.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, diags_array

import odmlib
from tests.real_data import real_set
from tests.reference_linear import reference

liblinear = pytest.importorskip("liblinear.liblinearutil", reason="liblinear-multicore is not installed")


def liblinear_weights(X, y, options, bias):
    """Weights of LIBLINEAR's model, bias last, for the label or target +1."""
    model = liblinear.train(y, csr_matrix(X), f"{options} -B {1 if bias else -1} -q")
    weights, intercept = model.get_decfun()
    weights = np.array([*weights, intercept] if bias else weights)
    return weights if "-s 11" in options or model.get_labels()[0] == 1 else -weights


def compare(name, C, nu, theta, bias, scaled=False):
    X, y = real_set(name)
    y = np.where(y == y.max(), 1.0, -1.0)
    if scaled:
        X = X @ diags_array(1 / np.maximum(1e-9, abs(X).max(axis=0).toarray().ravel()))
    if nu == 1:
        options = f"-s 11 -p {theta!r} -c {C / (1 - theta) ** 2!r} -e 1e-12"
    else:
        options = f"-s 2 -c {C!r} -e 1e-12"
    theirs = liblinear_weights(X, y, options, bias)
    model = odmlib.train(
        X, y, kernel="linear", C=C, nu=nu, theta=theta, bias=1 if bias else -1, tol=1e-12, solver="newton"
    )
    direction = 1 if model.labels[0] == 1 else -1
    ours = np.zeros(len(theirs))
    ours[model.function.columns] = model.function.weights[:, 0]
    if bias:
        ours[-1] = model.function.bias_weights[0]
    ours *= direction
    problem = reference(X.toarray(), y, C=C, nu=nu, theta=theta, bias=1.0 if bias else 0.0)
    best, peer = problem.primal(ours), problem.primal(theirs)
    assert model.report["primal"] == pytest.approx(best, rel=1e-12)
    assert best <= peer * (1 + 1e-13), "LIBLINEAR found a smaller objective"
    # P is 1-strongly convex, so |w - w*| is at most the gradient norm: what LIBLINEAR left undone counts
    undone = np.linalg.norm(problem.gradient(theirs))
    np.testing.assert_allclose(ours, theirs, atol=max(1e-6, undone))
    assert undone < 1e-3 and np.linalg.norm(problem.gradient(ours)) < 1e-6


SMALL = ["heart_scale", "german.numer", "diabetes_scale", "svmguide1"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("C", "theta"), [(1.0, 0.2), (0.03, 0.0)])
def test_nu_one_is_svr(name, C, theta, bias):
    compare(name, C, 1.0, theta, bias, scaled=True)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("C", [1.0, 0.03])
def test_nu_zero_theta_zero_is_the_squared_hinge(name, C, bias):
    compare(name, C, 0.0, 0.0, bias, scaled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a9a", "ijcnn1"])
@pytest.mark.parametrize(("nu", "theta"), [(1.0, 0.3), (0.0, 0.0)])
def test_large_sets(name, nu, theta):
    compare(name, 1.0, nu, theta, True)
