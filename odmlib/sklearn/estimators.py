"""The estimators: one class per machine with the names of its parameters. base.py does the work."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib.data.problem import Problem
from odmlib.machines.declarations import DECLARATIONS
from odmlib.machines.declarations.many_rows import LANDMARKS_ONLY, PARTITIONING
from odmlib.model.model import Model
from odmlib.options import KMOMD_LAMBDA, TrainOptions
from odmlib.sklearn.base import MarginClassifier, MarginDetector, MarginRegressor

KERNEL = ("kernel", "gamma", "degree", "coef0", "cache_mb")
COST = ("C", "lambda_")
BAND = ("nu", "theta")
TASKS = ("multiclass", "decision_function_shape")
CLASSES = ("probability", "class_weight")
TRAINING = ("tol", "max_iter", "time_limit", "solver", "n_jobs", "random_state", "warm_start", "callback")
RUN = (*CLASSES, *TRAINING)
MANY_ROWS = (*PARTITIONING, *LANDMARKS_ONLY)


class ODMClassifier(
    MarginClassifier,
    machine="odm",
    parameters=(*COST, *BAND, *KERNEL, "bias", *TASKS, "leave_one_out", "shrinking", *RUN),
):
    """Optimal margin distribution machine with a kernel.

    Minimises `1/2 |w|^2 + C/(1-theta)^2 sum_i s_i [max(0, 1-theta-z_i)^2 + nu max(0, z_i-1-theta)^2]` over
    the margins `z_i = y_i f(x_i)` with row weights `s_i`: all margins are drawn into [1-theta, 1+theta].

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or a function of two matrices of rows
    C : weight of one row's loss
    lambda_ : the papers' total weight C x (sum of the row weights); replaces C where given
    nu : weight of deviations above the band relative to those below, at least 0
    theta : half-width of the band without loss, 0 <= theta < 1
    gamma : a number, "scale" = 1/(features x variance of X), "auto" = 1/features or "mean" = 1/(2 x
        squared mean distance between rows)
    degree, coef0 : of the poly and sigmoid kernels
    bias : value of a constant feature (linear) or whose square is added to the kernel; negative: none;
        None: 1 for linear and poly, none for the others
    tol : relative duality gap at which training stops
    cache_mb : memory for kernel rows, a hard cap
    shrinking : leave rows inside the band out for a while
    multiclass : "ovo" (one-vs-one) or "ovr" (one-vs-rest); None: ovo, but ovr for the linear kernel
        with no fewer features than rows, or with too many pairs of classes for their weights
    decision_function_shape : "ovr", a value per class, or "ovo", a value per pair of classes where the
        machine was trained one-vs-one
    probability : make predict_proba available; calibrated on leave-one-out scores where these can be had
    leave_one_out : make loo_score_ available: leave-one-out accuracy from one fit
    class_weight : a mapping from label to weight, or "balanced"
    solver : "auto", or one that `odmlib.train` knows
    n_jobs : threads; None: the cores this process may use, inside joblib workers their share; -1: all cores
    random_state : seed of everything random; None is 0, so that training is repeatable
    max_iter, time_limit : stop early, with a ConvergenceWarning that tells the gap reached
    warm_start : begin from the model of the last fit where classes and features are the same
    callback : called with an `odmlib` Progress after every iteration; a true answer stops training

    Attributes
    ----------
    classes_ : the labels, sorted
    model_ : the `odmlib.Model` inside; `model_.save(file)` writes it for odm-predict
    n_iter_, duality_gap_ : iterations, and the relative duality gap reached (largest of all tasks)
    margins_ : the margin of every training row
    coef_, intercept_ : linear kernel; `decision = X @ coef_.T + intercept_`
    support_, support_vectors_, dual_coef_, n_support_ : other kernels
    loo_score_ : with leave_one_out=True, or probability=True where leave-one-out was the source
    n_features_in_, feature_names_in_ : what X had in `fit`

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), ODMClassifier(leave_one_out=True)).fit(X, y)
    >>> pipe[-1].loo_score_ > 0.97
    True
    """


class LinearODM(
    MarginClassifier,
    machine="odm",
    parameters=(*COST, *BAND, "bias", *TASKS, "leave_one_out", "shrinking", *RUN),
):
    """Optimal margin distribution machine without a kernel, for many rows or many features.

    The machine of `ODMClassifier(kernel="linear")`; parameters and attributes mean the same. `coef_` has a
    row per pair of classes where the machine was trained one-vs-one, as that of `SVC(kernel="linear")` has,
    and a row per class with `multiclass="ovr"`, as that of `LinearSVC` has.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = LinearODM(C=0.001, multiclass="ovr").fit(X, y)
    >>> machine.coef_.shape, machine.intercept_.shape
    ((10, 64), (10,))
    """


class ODMLClassifier(
    MarginClassifier,
    machine="odml",
    parameters=(*COST, "lambda1", "lambda2", *KERNEL, "bias", *TASKS, "shrinking", *RUN),
):
    """ODM^L, large margin distribution by mean and variance.

    Minimises `1/2 |w|^2 + lambda1 Var(z) - lambda2 Mean(z) + C sum_i s_i max(0, 1-z_i)`.

    lambda1, lambda2 : total weights of the margins' variance and mean; None: C x (sum of the row weights)

    The other parameters and the attributes mean what they mean in `ODMClassifier`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ODMLClassifier().fit(X, y).score(X, y) > 0.9
    True
    """


class MultiClassODM(
    MarginClassifier,
    machine="mcodm",
    parameters=(*COST, *BAND, *KERNEL, "bias", *DECLARATIONS["mcodm"].options, "shrinking", *RUN),
):
    """mcODM: all classes in one problem, with margins `z_i = f_y(x_i) - (largest other f_l(x_i))`.

    relaxation : "majorise", or "frozen", the published scheme

    The other parameters and the attributes mean what they mean in `ODMClassifier`; two classes: one output.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> MultiClassODM(kernel="linear").fit(X, y).decision_function(X).shape
    (150, 3)
    """


class KMOMDClassifier(
    MarginClassifier,
    machine="kmomd",
    parameters=("lambda_", *DECLARATIONS["kmomd"].options, *KERNEL, *TASKS, *RUN),
    defaults={"lambda_": KMOMD_LAMBDA},
):
    """KM-OMD: the line between two points in the reduced hulls of the classes.

    lambda_ : from 0 (hard margin) to 1 (line between the centroids)
    threshold : "midpoint" of the two points, "kkt" (bias of the equal L2-loss SVM) or "none"
    decision_scale : decision values are distances ("unit") or those of an SVM ("svm")

    The other parameters and the attributes mean what they mean in `ODMClassifier`.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> KMOMDClassifier().fit(X, y).score(X, y) > 0.9
    True
    """


class SVMClassifier(
    MarginClassifier, machine="svm", parameters=(*COST, *KERNEL, "bias", *TASKS, "shrinking", *RUN)
):
    """C-SVM, the baseline: `1/2 |w|^2 + C sum_i s_i max(0, 1-z_i)`, the bias a constant feature.

    Parameters and attributes mean what they mean in `ODMClassifier`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> SVMClassifier().fit(X, y).score(X, y) > 0.9
    True
    """


class SemiSupervisedODM(
    MarginClassifier,
    machine="ssodm",
    parameters=(
        "lambda1", "lambda2", "C", *BAND, *KERNEL, "bias", *TASKS, *DECLARATIONS["ssodm"].options,
        "shrinking", *RUN,
    ),
    defaults={"C": None, "unlabeled": -1},
):  # fmt: skip
    """Semi-supervised ODM: rows whose label in y is `unlabeled` (-1, as elsewhere in scikit-learn) help too.

    lambda1, lambda2 : total weights of the labeled and of the unlabeled rows
    balance, max_disagree, max_cuts : as in `odmlib.train`; a fraction is that of classes_[1]. More than two
        classes: where fractions are not given, they are those of the labeled rows

    The other parameters and the attributes mean what they mean in `ODMClassifier`; `transduction_` has the
    label of every training row, given or found.

    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> seen = [label if i < 10 else -1 for i, label in enumerate(y)]
    >>> machine = SemiSupervisedODM().fit(X, seen)
    >>> machine.transduction_.shape, machine.classes_.tolist()
    ((200,), [0, 1])
    """

    unlabeled: Any
    balance: Any
    transduction_: NDArray

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        super().fit(X, y, sample_weight)
        if self.model_.assigned is not None:
            self.transduction_[self.transduction_ == self.unlabeled] = self.model_.assigned
        return self

    def _encode(self, y: NDArray) -> tuple[NDArray, NDArray[np.int64]]:
        known = y != self.unlabeled
        classes, codes = super()._encode(y[known])
        places = np.full(len(y), -1, dtype=np.int64)
        places[known] = codes
        self.transduction_ = y.copy()
        return classes, places

    def _train_options(self, problem: Problem, previous: Model | None) -> TrainOptions:
        options = super()._train_options(problem, previous)
        if len(problem.labels) > 2 and isinstance(self.balance, str):
            known = problem.codes >= 0
            counts = np.bincount(
                problem.codes[known], problem.sample_weights[known], minlength=len(problem.labels)
            )
            shares = dict(zip(problem.labels.tolist(), (counts / counts.sum()).tolist(), strict=True))
            options = dataclasses.replace(options, balance=shares)
        return options


class ScalableODM(
    MarginClassifier,
    machine="sodm",
    parameters=(*COST, *BAND, *KERNEL, "bias", *TASKS, *DECLARATIONS["sodm"].options, "shrinking", *RUN),
):
    """SODM: ODM by partitions of the rows, merged level by level, for kernels on very many rows.

    partition, partitions, levels, stop_level, pass_up, landmarks, approx, rank, eta, inner_steps : as in
        `odmlib.train`

    The other parameters and the attributes mean what they mean in `ODMClassifier`.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ScalableODM(levels=2).fit(X, y).score(X, y) > 0.9
    True
    """


class ODMRegressor(
    MarginRegressor,
    machine="odmr",
    parameters=(*COST, "epsilon", "nu", *KERNEL, "bias", *MANY_ROWS, "leave_one_out", "shrinking", *TRAINING),
    defaults={"nu": 1.0},
):
    """Regression with the losses of ODM around the targets, with a kernel.

    Minimises `1/2 |w|^2 + C sum_i s_i [max(0, -epsilon-z_i)^2 + nu max(0, z_i-epsilon)^2]` over the residuals
    `z_i = f(x_i) - y_i` with row weights `s_i`. y may have several columns: each is an output of its own, and
    all share the kernel rows.

    Parameters
    ----------
    epsilon : residuals up to this size cost nothing
    nu : weight of residuals above the band (predictions that are too large) relative to those below, 0 to 1
    leave_one_out : make loo_predictions_ and loo_score_ available: what the machine trained without a row
        predicts for it, and R^2 of these predictions, from one fit; from 10 folds with approx where more than
        0.5 % of the rows are landmarks
    partition, partitions, levels, landmarks, approx, rank : for very many rows, as in `odmlib.train`
    bias : as in `ODMClassifier`; None: kernels other than linear and poly add their sum to the mean of y

    The other parameters, and the attributes that are not of classes, mean what they mean in `ODMClassifier`.
    margins_ are the residuals of the training rows.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> machine = ODMRegressor(leave_one_out=True).fit(X, y)
    >>> machine.predict(X).shape, machine.loo_score_ > 0.4
    ((442,), True)
    """


class LinearODMRegressor(
    MarginRegressor,
    machine="odmr",
    parameters=(*COST, "epsilon", "nu", "bias", "leave_one_out", "shrinking", *TRAINING),
    defaults={"nu": 1.0},
):
    """Regression without a kernel, for many rows or many features: LIBLINEAR's -s 11 where nu is 1.

    The machine of `ODMRegressor(kernel="linear")`; parameters and attributes mean the same.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> machine = LinearODMRegressor(C=100).fit(X, y)
    >>> machine.coef_.shape, machine.score(X, y) > 0.5
    ((10,), True)
    """


class OneClassODM(
    MarginDetector,
    machine="odmo",
    parameters=("nu", *COST, "theta", *KERNEL, "bias", *MANY_ROWS, "shrinking", *TRAINING),
    defaults=DECLARATIONS["odmo"].defaults,
):
    """Novelty detection: the ODM of one class, with a threshold that keeps its promise on new rows.

    The outputs of all rows are drawn to 1 (theta > 0: into [1-theta, 1+theta]). The threshold comes from
    leave-one-out outputs: about a part `nu` of new rows that are like the training rows falls below it.

    Parameters
    ----------
    nu : part of new normal rows that may be called novel, 0 < nu < 1
    theta : half-width of the band without loss, 0 <= theta < 1; above 0 not all rows are support vectors
    partition, partitions, levels, landmarks, approx, rank : for very many rows, as in `odmlib.train`

    The other parameters mean what they mean in `ODMClassifier`, and so do the attributes that are not of
    classes. offset_ is the threshold: `decision_function(X) = score_samples(X) - offset_`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> detector = OneClassODM(nu=0.05).fit(X[y == 0])
    >>> (detector.predict(X[y != 0]) == -1).all()
    np.True_
    >>> detector.p_values(X[y == 0]).shape
    (50,)
    """
