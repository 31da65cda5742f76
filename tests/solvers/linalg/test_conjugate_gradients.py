"""Conjugate gradients against numpy's solver."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.solvers.linalg.conjugate_gradients import conjugate_gradients


def system(n=40, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    return root @ root.T + np.diag(rng.uniform(1, 1000, n)), rng.standard_normal(n)


@pytest.mark.parametrize("preconditioned", [False, True])
def test_solves_the_system(preconditioned):
    A, b = system()
    diagonal = np.diag(A) if preconditioned else np.ones(len(b))
    x, steps = conjugate_gradients(lambda v: A @ v, b, lambda r: r / diagonal, 1e-10, 1000)
    assert x == pytest.approx(np.linalg.solve(A, b), abs=1e-9)
    assert 0 < steps < 200
    assert np.linalg.norm(A @ x - b) <= 1e-9


def test_a_preconditioner_saves_steps():
    A, b = system()
    plain = conjugate_gradients(lambda v: A @ v, b, lambda r: r.copy(), 1e-8, 1000)[1]
    scaled = conjugate_gradients(lambda v: A @ v, b, lambda r: r / np.diag(A), 1e-8, 1000)[1]
    assert scaled < plain


def test_ends_at_the_limit_and_when_the_time_is_over():
    A, b = system()
    x, steps = conjugate_gradients(lambda v: A @ v, b, lambda r: r.copy(), 0.0, 3)
    assert steps == 3 and b @ x > 0  # a direction of descent all the same
    x, steps = conjugate_gradients(lambda v: A @ v, b, lambda r: r.copy(), 0.0, 30, lambda: "time_limit")
    assert steps == 1 and b @ x > 0


def test_nothing_to_solve():
    x, steps = conjugate_gradients(lambda v: v, np.zeros(3), lambda r: r.copy(), 0.0, 10)
    assert steps == 0 and not x.any()


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_a_curvature_that_is_no_number_ends_it(scale):
    x, _ = conjugate_gradients(lambda v: scale * v, np.ones(3), lambda r: r, 1e-10, 100)
    assert x.tolist() == [0, 0, 0]
