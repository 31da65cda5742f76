"""scikit-learn estimators for the machines of odmlib; needs scikit-learn 1.6 or later.

>>> from sklearn.datasets import load_iris
>>> from odmlib.sklearn import ODMClassifier
>>> X, y = load_iris(return_X_y=True)
>>> machine = ODMClassifier().fit(X, y)
>>> machine.score(X, y) > 0.95, machine.duality_gap_ <= machine.tol
(True, True)
"""

from odmlib.sklearn.estimators import (
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

__all__ = [
    "KMOMDClassifier",
    "LinearODM",
    "LinearODMRegressor",
    "MultiClassODM",
    "ODMClassifier",
    "ODMLClassifier",
    "ODMRegressor",
    "OneClassODM",
    "SVMClassifier",
    "ScalableODM",
    "SemiSupervisedODM",
]
