"""Sums over vectors: right, for any shape, and by one thread. Rows taken out of CSR arrays."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from odmlib._core.vectors import inner, long_sums, taken_rows


@pytest.mark.parametrize("n", [0, 1, 3, 15, 16, 17, 1000, 20_011])
def test_inner_is_the_sum_of_products(n):
    a, b = np.random.default_rng(n).standard_normal((2, n))
    assert inner(a, b) == pytest.approx(math.fsum(a * b), rel=1e-12, abs=1e-12)


def test_inner_takes_matrices_and_views():
    a = np.arange(12.0).reshape(3, 4)
    assert inner(a, a) == 506.0
    assert inner(a[:, ::2], a[:, ::2]) == (a[:, ::2] ** 2).sum()
    assert inner(a[:, 1], a[:, 2]) == 1 * 2 + 5 * 6 + 9 * 10
    assert inner(np.arange(3), np.ones(3)) == 3.0


def test_inner_wants_vectors_of_one_size():
    with pytest.raises(ValueError, match="vectors of 2 and 3 values"):
        inner(np.ones(2), np.ones(3))


def test_training_with_one_thread_uses_one_thread():
    """numpy's BLAS would wake its threads for weights of so many columns, and they spin for a while."""
    code = """
import time, warnings
import numpy as np
from scipy import sparse
import odmlib
rng = np.random.default_rng(0)
X = sparse.csr_array(sparse.random(300, 40_000, density=0.002, random_state=0))
y = np.arange(300) % 3
for machine in ("mcodm", "odm"):
    odmlib.train(X[:10], y[:10] % 2, machine=machine, kernel="linear", threads=1)
    wall, used, own = time.perf_counter(), time.process_time(), time.thread_time()
    for _ in range(3):
        odmlib.train(X, y, machine=machine, kernel="linear", threads=1, tol=1e-8)
    print((time.process_time() - used) / (time.thread_time() - own))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert all(float(part) < 1.2 for part in run.stdout.split()), run.stdout


def test_taken_rows_are_those_of_scipy():
    rng = np.random.default_rng(3)
    whole = sparse.csr_array(sparse.random(40, 7, density=0.3, random_state=3))
    indptr = whole.indptr.astype(np.int64)
    for n in (0, 1, 5, 90):
        rows = rng.integers(0, 40, n)  # in any order, some of them twice
        starts, columns, values = taken_rows(indptr, rows, whole.indices, whole.data)
        part = whole[rows]
        assert starts.tolist() == part.indptr.tolist()
        assert columns.dtype == whole.indices.dtype and columns.tolist() == part.indices.tolist()
        assert values.tolist() == part.data.tolist()


def test_rows_that_are_not_there_are_refused():
    indptr, values = np.array([0, 2, 3]), np.ones(3)
    for row in (-1, 2):
        with pytest.raises(IndexError, match=f"no row {row} among 2"):
            taken_rows(indptr, np.array([0, row]), values)
    with pytest.raises(ValueError, match="3 values of the rows"):
        taken_rows(indptr, np.array([0]), values[:2])


def test_long_sums_are_those_of_numpy_in_the_widest_type():
    rng = np.random.default_rng(4)
    for m, n in ((0, 3), (3, 0), (1, 1), (40, 17)):
        lines, factors = rng.standard_normal((m, n)), 10 ** rng.uniform(-9, 9, m)
        wide = np.zeros(n, dtype=np.longdouble)
        for line, factor in zip(lines, factors, strict=True):
            wide += line.astype(np.longdouble) * factor
        assert long_sums(lines, factors).tolist() == wide.astype(np.float64).tolist()
    with pytest.raises(ValueError, match="2 lines and 3 factors"):
        long_sums(np.ones((2, 2)), np.ones(3))
