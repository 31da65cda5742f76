"""Label sets: thresholds against their definition, and the class margins."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.errors import ParameterError
from odmlib.model.label_sets import LEVELS, LOWEST, class_margins, threshold_for, thresholds
from odmlib.model.schemes import class_pairs, winners


@pytest.mark.parametrize("n", [1, 9, 10, 99, 1000, 999])
def test_threshold_is_the_order_statistic(n):
    margins = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    known = thresholds(margins)
    for level, found in zip(LEVELS, known, strict=True):
        place = next(k for k in range(n + 1, -1, -1) if k <= level * (n + 1) + 1e-9)
        assert found == (place if place else LOWEST)


def test_levels_promise_no_less_than_asked_for():
    known = tuple(range(len(LEVELS)))
    assert threshold_for(known, 0.9) == LEVELS.index(0.1)
    assert threshold_for(known, 0.895) == LEVELS.index(0.1)
    assert threshold_for(known, 0.9999) == LOWEST
    assert threshold_for(known, 0.999) == 0
    assert threshold_for(known, 0.01) == len(LEVELS) - 1
    for bad in (0, 1, -0.5, 2, float("nan"), "0.9", None):
        with pytest.raises(ParameterError, match="coverage must be above 0 and below 1"):
            threshold_for(known, bad)


def test_exchangeable_margins_are_covered():
    """The quantile itself: of n + 1 margins in random order the last is at least that of the others."""
    rng = np.random.default_rng(0)
    inside = [
        (draw := rng.standard_normal(101))[-1] >= threshold_for(thresholds(draw[:-1]), 0.9)
        for _ in range(4000)
    ]
    assert abs(np.mean(inside) - 0.9) < 2.5 * np.sqrt(0.09 / 4000)


@pytest.mark.parametrize(("scheme", "k"), [("binary", 2), ("ovr", 4), ("joint", 3), ("ovo", 4)])
def test_class_margins(scheme, k):
    n_outputs = {"binary": 1, "ovo": len(class_pairs(k)[0])}.get(scheme, k)
    scores = np.random.default_rng(0).standard_normal((50, n_outputs))
    margins = class_margins(scheme, scores, k)
    assert margins.shape == (50, k)
    assert ((margins > 0).sum(axis=1) <= 1).all()
    won = (margins > 0).any(axis=1)
    assert (margins.argmax(axis=1) == winners(scheme, scores, k))[won].all()
