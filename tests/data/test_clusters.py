"""K-means: against scipy from the same start, and the corners."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.vq import kmeans2

from odmlib.data import clusters
from odmlib.data.clusters import k_means
from odmlib.data.dataset import Dataset


@pytest.fixture(scope="module")
def points():
    random = np.random.default_rng(5)
    return np.concatenate([random.normal(size=(80, 3)) + centre for centre in (0, 4, -5)])


def test_agrees_with_scipy(points):
    first = np.sort(np.random.default_rng(7).permutation(len(points))[:4])
    _, theirs = kmeans2(points, points[first], iter=clusters.MAX_STEPS, minit="matrix")
    assert (k_means(Dataset.from_any(points), 4, seed=7) == theirs).all()


def test_threads_and_blocks_change_nothing(points):
    rows = Dataset.from_any(points)
    whole = k_means(rows, 6, seed=1)
    assert (k_means(rows, 6, seed=1, threads=3, block_values=1) == whole).all()


def test_as_many_clusters_as_rows_and_equal_rows():
    rows = Dataset.from_any(np.arange(5.0).reshape(-1, 1) + 1)
    assert sorted(k_means(rows, 5).tolist()) == [0, 1, 2, 3, 4]
    assert set(k_means(Dataset.from_any(np.ones((6, 2))), 3).tolist()) == {0}
