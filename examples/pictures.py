"""Draw the pictures of the manual from data/: `python examples/pictures.py FOLDER` (default: docs/pictures).

Needs matplotlib (and Pillow, which comes with it). Every picture is a kind of odm-plot;
docs/gallery.md shows them with their commands.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import odmlib
from odmlib.plots.chart import Picture
from odmlib.plots.figures import accuracy_curve, convergence, margin_distribution, margin_histograms
from odmlib.plots.inside import band_of, boundary_chart, tune_picture, weight_picture
from odmlib.plots.picture import save_picture
from odmlib.plots.quality import calibration_chart, confusion_matrix, pr_chart, prediction_chart, roc_chart
from odmlib.solvers.trace import Trace

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"


def wdbc() -> tuple:
    """Training and test rows, scaled as `odm-scale -l 0` does it."""
    X, y = odmlib.read_data(DATA / "wdbc.train.txt")
    X_test, y_test = odmlib.read_data(DATA / "wdbc.test.txt", features=X.shape[1])
    X, X_test = X.toarray(), X_test.toarray()
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / (high - low), y, (X_test - low) / (high - low), y_test


def thirds(name: str) -> tuple:
    """Training rows and test rows: every third row is a test row."""
    X, y = odmlib.read_data(DATA / name)
    test = np.arange(len(y)) % 3 == 0
    return X[~test], y[~test], X[test], y[test]


def friedman(n_rows: int, seed: int = 0) -> tuple:
    """Friedman's first problem of regression: two columns act together, one as a square, two as lines."""
    random = np.random.default_rng(seed)
    X = random.uniform(size=(n_rows, 8))
    curved = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, curved + 10 * X[:, 3] + 5 * X[:, 4] + random.normal(size=n_rows)


def pictures() -> dict[str, list[Picture]]:
    X, y, X_test, y_test = wdbc()
    machines = {
        "linear SVM": odmlib.train(X, y, machine="svm", kernel="linear"),
        "linear ODM": odmlib.train(X, y, kernel="linear"),
        "rbf ODM": odmlib.train(X, y),
    }
    found = {name: model.evaluate(X_test, y_test) for name, model in machines.items()}
    margins = {name: evaluation.margins for name, evaluation in found.items()}
    rbf = machines["rbf ODM"]
    D, d, D_test, d_test = thirds("digits.txt")
    digits = {
        "one-vs-rest ODM": odmlib.train(D, d, kernel="linear", multiclass="ovr", probability=True),
        "mcODM": odmlib.train(D, d, kernel="linear", machine="mcodm", probability=True),
    }
    on_digits = {name: model.evaluate(D_test, d_test) for name, model in digits.items()}
    digit_margins = {name: evaluation.margins for name, evaluation in on_digits.items()}
    R, r = odmlib.read_data(DATA / "rings.txt")
    S, s = friedman(300)
    F, f = friedman(150, seed=1)
    kinds = ("linear", "rbf")
    numbers = {kind: odmlib.train(S, s, machine="odmr", kernel=kind, C=10).evaluate(F, f) for kind in kinds}
    I, i = odmlib.read_data(DATA / "iris.txt")  # noqa: E741 (data and labels, as above)
    return {
        "margins": [margin_distribution(margins, True, "margins of wdbc's test rows")],
        "histogram": margin_histograms({"rbf ODM": margins["rbf ODM"]}, band=band_of(rbf.parameters)),
        "roc": [roc_chart(found, on="wdbc")],
        "pr": [pr_chart(found, on="wdbc")],
        "calibration": [calibration_chart(on_digits, bins=6, on="digits")],
        "predictions": [prediction_chart(numbers, on="friedman1")],
        "confusion": [confusion_matrix(on_digits["mcODM"], "mcODM", on="digits")],
        "histograms": margin_histograms(digit_margins),
        "convergence": [convergence({"svm": report(D, d, "svm"), "odm": report(D, d, "odm")})],
        "boundary": [boundary_chart(odmlib.train(R, r), R, r, name="rings: odm")],
        "boundary3": [boundary_chart(odmlib.train(I, i), I, i, (3, 4), "iris: odm")],
        "weights": [weight_picture(machines["linear ODM"], name="wdbc: linear ODM")],
        "tune": [tune_picture(odmlib.grid_search(X, y), "wdbc, 5 folds")],
        "accuracy": [accuracy_curve(X, y, "C", [2.0**k for k in range(-7, 10, 2)])],
    }


def report(X: np.ndarray, y: np.ndarray, machine: str) -> dict:
    """What odm-train --json writes, as far as `convergence` needs it."""
    trace = Trace()
    odmlib.train(X, y == 3, machine=machine, tol=1e-6, callback=trace)
    return {"trace": trace.points()}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, shown in pictures().items():
        path = folder / f"{name}.png"
        save_picture(shown, str(path))
        with Image.open(path) as image:  # 256 colours are enough, and half the bytes
            image.convert("RGB").quantize(256, method=2).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
