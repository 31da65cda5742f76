"""Pictures of models: charts as numbers, drawn as text, SVG, PNG or on Axes of matplotlib.

>>> import odmlib
>>> from odmlib.plots import plot_roc
>>> X, y = odmlib.read_data("data/wdbc.txt")
>>> axes = plot_roc(odmlib.train(X, y), X, y)  # doctest: +SKIP
"""

from odmlib.plots.axes import (
    plot_accuracy,
    plot_boundary,
    plot_calibration,
    plot_confusion,
    plot_convergence,
    plot_histogram,
    plot_margins,
    plot_pr,
    plot_predictions,
    plot_roc,
    plot_tune,
    plot_weights,
)

__all__ = [
    "plot_accuracy",
    "plot_boundary",
    "plot_calibration",
    "plot_confusion",
    "plot_convergence",
    "plot_histogram",
    "plot_margins",
    "plot_pr",
    "plot_predictions",
    "plot_roc",
    "plot_tune",
    "plot_weights",
]
