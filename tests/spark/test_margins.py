"""Margins of many blocks together."""

from itertools import pairwise

import numpy as np
import pytest

from odmlib.model.margins import margin_summary
from odmlib.names import QUANTILES
from odmlib.spark.margins import margin_part, margins_together


@pytest.mark.parametrize("points", [50, 100_000])
def test_blocks_together_are_as_one(points):
    rng = np.random.default_rng(1)
    margins = np.concatenate([rng.normal(1, 0.5, 5000), [-1e6, 1e6], rng.normal(2, 1, 3)])
    weights = rng.integers(0, 4, len(margins)).astype(float)
    signs = np.where(rng.random(len(margins)) < 0.5, 1.0, -1.0)
    cuts = [0, 1700, 1701, 4000, 5002, len(margins)]
    parts = [margin_part(margins[a:b], weights[a:b], signs[a:b], points) for a, b in pairwise(cuts)]
    together, exact = margins_together(parts), margin_summary(margins, weights)
    for name in ("mean", "variance", "min"):
        assert together[name] == pytest.approx(exact[name], rel=1e-9)
    used, weight = margins[weights > 0], weights[weights > 0]
    for part in QUANTILES:
        below = weight[used <= together["quantiles"][part]].sum() / weight.sum()
        assert abs(below - float(part)) <= 1 / points + 1 / len(used) + 1e-3
        if points > len(margins):
            assert together["quantiles"][part] == exact["quantiles"][part]
    assert sum(sum(part.right) for part in parts) == (margins > 0).sum()


def test_a_block_without_weight_says_nothing():
    nothing = margin_part(np.array([5.0]), np.array([0.0]), np.array([1.0]))
    something = margin_part(np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.array([1.0, -1.0]))
    assert margins_together([nothing, something])["mean"] == 2.0
    assert nothing.right == (1, 0)
