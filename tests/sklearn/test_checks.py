"""scikit-learn's own checks of every estimator, as `check_estimator` runs them.

Expected failures, all of them: probabilities come from scores of rows left out, and leaving out a row of
weight 2 is not leaving out one of two; and KM-OMD's weights of a whole class cancel, since in its problem
the multipliers of each class sum to 1.
"""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")

from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from odmlib.sklearn import (
    KMOMDClassifier,
    LinearODM,
    LinearODMRegressor,
    MultiClassODM,
    ODMClassifier,
    ODMLClassifier,
    ODMRegressor,
    OneClassODM,
    ScalableODM,
    SemiSupervisedODM,
    SVMClassifier,
)


class RBF:
    """A kernel function whose name is the same in every process, as the names of tests must be."""

    def __call__(self, X, Z):
        return rbf_kernel(X, Z)

    def __repr__(self):
        return "RBF()"


DEFAULT = [
    LinearODM(),
    ODMClassifier(),
    ODMLClassifier(),
    MultiClassODM(),
    KMOMDClassifier(),
    SVMClassifier(),
    SemiSupervisedODM(),
    ScalableODM(),
    ODMRegressor(),
    LinearODMRegressor(),
    OneClassODM(),
]
OTHERS = [
    LinearODM(probability=True, leave_one_out=True, class_weight="balanced"),
    LinearODM(multiclass="ovo", warm_start=True, n_jobs=2),
    ODMClassifier(probability=True, leave_one_out=True),
    ODMClassifier(kernel="precomputed", bias=1),
    ODMClassifier(kernel=RBF(), bias=1),
    ODMClassifier(kernel="linear", tol=1e-9),
    ODMClassifier(kernel="poly", multiclass="ovr", lambda_=100.0),
    MultiClassODM(kernel="linear", probability=True),
    ScalableODM(approx="nystrom"),
    ODMRegressor(kernel=RBF(), leave_one_out=True, epsilon=0.0),
    ODMRegressor(kernel="precomputed", nu=0.5),
    OneClassODM(kernel="poly", theta=0.1),
    OneClassODM(kernel=RBF()),
]

EQUIVALENCE = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
LEFT_OUT = "leaving out a row of weight 2 is not leaving out one of two"
CANCELS = "weights of a whole class cancel in KM-OMD"
# these checks fit rows around (100, 100), whose poly kernel values are near 1e12
UNSCALED = ("check_fit_idempotent", "check_fit_check_is_fitted", "check_n_features_in")
HIDDEN = "float64 values of the kernel are too coarse for a certificate, and the fit warns of that"


def expected_failures(estimator) -> dict[str, str]:
    failures = {}
    if getattr(estimator, "probability", False) or isinstance(estimator, OneClassODM):
        failures |= dict.fromkeys(EQUIVALENCE, LEFT_OUT)
    if __debug__ and isinstance(estimator, KMOMDClassifier):  # it is an assert, which python -O removes
        failures["check_class_weight_classifiers"] = CANCELS
    if isinstance(estimator, SemiSupervisedODM):
        failures["check_classifiers_classes"] = "its labels -1 and 1: -1 means no label"
    if isinstance(estimator, ODMClassifier) and estimator.kernel == "poly":
        failures |= dict.fromkeys(UNSCALED, HIDDEN)
    if isinstance(estimator, ScalableODM) and estimator.approx == "nystrom":  # trained as a linear machine
        failures = {}
    return failures


@parametrize_with_checks(DEFAULT, expected_failed_checks=expected_failures)
def test_default(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failures)
def test_other_settings(estimator, check):
    check(estimator)
