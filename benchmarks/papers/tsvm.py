"""TSVM (Joachims 1999), a column of the ssODM paper's Table 2: the SVM of all rows by local search.

    min over w and the labels of the open rows:  1/2 |w|^2 + C sum over labeled rows of max(0, 1 - z_i)
                                                           + sum over open rows of C*_i max(0, 1 - z_i)

The number of positive labels is that share of the open rows that the labeled rows have. The labels begin as
the SVM of the labeled rows ranks the open ones. C* begins small and is doubled up to C; positive rows have
n- / n+ times the C* of negative ones. At each C* the labels of pairs of rows, one positive and one negative,
are exchanged where their losses are together above 2, which lowers the objective (both losses t become
max(0, 2 - t), in exchange). Joachims exchanges one pair and trains again; here all disjoint pairs are
exchanged at once, which lowers it by their sum.

The bias is that of our SVM: a constant feature with the linear kernel, none with RBF.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import odmlib

FIRST_COST = 1e-5  # C* of negative rows, as published
MOST_EXCHANGES = 100  # at one C*: a bound for runs whose gap is too wide for the losses to fall strictly


def train_tsvm(X: Any, marked: Any, C: float, **options: Any) -> odmlib.Model:
    """Labels are 1 and -1, 0 for rows without one; C is the weight of one row."""
    marked = np.asarray(marked)
    given, unlabeled = np.flatnonzero(marked != 0), np.flatnonzero(marked == 0)
    model = odmlib.train(X[given], marked[given], machine="svm", C=C, **options)
    n_positive = round(len(unlabeled) * float((marked[given] > 0).mean()))
    n_negative = len(unlabeled) - n_positive
    labels = marked.copy()
    labels[unlabeled] = -1
    labels[unlabeled[np.argsort(-scores(model, X[unlabeled]), kind="stable")[:n_positive]]] = 1
    cost = FIRST_COST
    while len(unlabeled):
        cost = min(cost, C)
        ratio = n_negative / n_positive if n_positive and n_negative else 1.0
        for _ in range(MOST_EXCHANGES):
            weights = np.where(labels > 0, min(C, cost * ratio), cost)
            weights[given] = C
            model = odmlib.train(X, labels, machine="svm", C=1.0, sample_weight=weights, **options)
            pairs = exchanged(labels, scores(model, X), unlabeled)
            if not len(pairs):
                break
            labels[pairs] *= -1
        if cost >= C:
            break
        cost *= 2
    return model


def scores(model: odmlib.Model, X: Any) -> Any:
    """Positive for the label 1."""
    return model.decision_function(X) * (1 if model.labels[0] == 1 else -1)


def exchanged(labels: Any, found: Any, unlabeled: Any) -> Any:
    """The open rows, as many positive as negative ones, whose labels change places."""
    losses = np.maximum(0, 1 - labels * found)
    sides = []
    for side in (1, -1):
        rows = unlabeled[(labels[unlabeled] == side) & (losses[unlabeled] > 0)]
        sides.append(rows[np.argsort(-losses[rows], kind="stable")])
    n = min(map(len, sides))
    first, second = sides[0][:n], sides[1][:n]
    taken = losses[first] + losses[second] > 2  # the sums fall from pair to pair
    return np.concatenate([first[taken], second[taken]])
