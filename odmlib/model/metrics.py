"""How good predictions are: accuracy, and precision, recall, F1 and AUC of every class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Codes, Floats
from odmlib.data.labels import python_label


def classification_report(
    labels: NDArray, truth: NDArray, places: Codes, scores: Floats | None = None
) -> dict[str, Any]:
    """What there is to say about predictions, as JSON can hold it.

    labels  of the model
    truth   the true label of every row; labels that the model does not know count as wrong
    places  the position in `labels` of every predicted label
    scores  one per class and row, for the AUC of each class against the others

    A number is None where nothing can be said: the precision of a class that is never predicted, the recall
    of one that never occurs. Means over classes leave these out.
    """
    known = [truth == label for label in labels]
    classes = []
    for place, (label, own) in enumerate(zip(labels, known, strict=True)):
        predicted = places == place
        right = int((own & predicted).sum())
        precision = _ratio(right, int(predicted.sum()))
        recall = _ratio(right, int(own.sum()))
        classes.append(
            {
                "label": python_label(label),
                "rows": int(own.sum()),
                "predicted": int(predicted.sum()),
                "precision": precision,
                "recall": recall,
                "f1": _ratio(2 * right, int(predicted.sum()) + int(own.sum())),
                "auc": None if scores is None else area_under_curve(own, scores[:, place]),
            }
        )
    right = sum(int((own & (places == place)).sum()) for place, own in enumerate(known))
    names = ("precision", "recall", "f1", "auc")
    return {
        "rows": len(truth),
        "right": right,
        "accuracy": _ratio(right, len(truth)),
        "unknown_labels": int(len(truth) - np.sum(known)),
        "classes": classes,
        "mean": {name: _mean([one[name] for one in classes]) for name in names},
        "confusion": [[int((own & (places == k)).sum()) for k in range(len(labels))] for own in known],
    }


def area_under_curve(positive: NDArray[np.bool_], scores: Floats) -> float | None:
    """The chance that a positive row has a larger score than another; an equal score counts half.

    >>> area_under_curve(np.array([True, False, True]), np.array([2.0, 1.0, 1.0]))
    0.75
    """
    n, total = int(positive.sum()), len(positive)
    if n in (0, total):
        return None
    ordered = np.sort(scores)
    low, high = (np.searchsorted(ordered, scores[positive], side) for side in ("left", "right"))
    ranks = (low + high + 1) / 2  # of equal scores the mean
    return float((ranks.sum() - n * (n + 1) / 2) / (n * (total - n)))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
