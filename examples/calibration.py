"""How true the probabilities are: predict_proba beside scikit-learn's CalibratedClassifierCV."""

from __future__ import annotations

import sys
from typing import Any

import _figure
import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from odmlib.sklearn import LinearODM, ODMClassifier


def draw(quick: bool) -> Any:
    rows = 400 if quick else 3000
    X, y = make_classification(rows, 20, n_informative=6, flip_y=0.15, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    machines = {
        "ODMClassifier(probability=True)": ODMClassifier(probability=True),
        "CalibratedClassifierCV(ODMClassifier())": CalibratedClassifierCV(ODMClassifier()),
        "LinearODM(probability=True)": LinearODM(probability=True),
    }
    figure, axis = plt.subplots(figsize=(5.5, 5), layout="constrained")
    for name, machine in machines.items():
        machine.fit(X, y)
        score = brier_score_loss(y_test, machine.predict_proba(X_test)[:, 1])
        print(f"{name:40} Brier score {score:.4f}, accuracy {100 * machine.score(X_test, y_test):.1f} %")
        CalibrationDisplay.from_estimator(
            machine, X_test, y_test, n_bins=8, ax=axis, name=f"{name}: {score:.3f}"
        )
    axis.set(title="Probabilities against frequencies (Brier score: less is better)")
    axis.legend(loc="lower right", fontsize="small")
    return figure


if __name__ == "__main__":
    _figure.run(draw, "calibration", __doc__, sys.argv[1:])
