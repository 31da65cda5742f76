"""The proximal Newton method of the linear multi-class machine: its rows' steps, derivatives and systems."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odmlib.losses.class_block import solve_class_block
from odmlib.solvers.control import CONVERGED, Control
from odmlib.solvers.multiclass._mcodm import ProximalRows
from odmlib.solvers.multiclass.linear import TUNING
from tests.solvers.multiclass.test_linear import problem, solve, state_of


def tuned(**proximal):
    return dataclasses.replace(TUNING, proximal=dataclasses.replace(TUNING.proximal, **proximal))


def sparse_rows():
    X, _ = problem(18, m=90, d=7, k=5, spread=3)
    X[np.random.default_rng(2).random(X.shape) < 0.6] = 0
    return X


@pytest.mark.parametrize("relaxation", ["majorise", "frozen"])
def test_preconditioners_and_factorised_hessian_agree(relaxation):
    X, labels = problem(15, m=100, k=5)
    # mu = 0: one convex problem, whose minimum all of them find
    options = {"bias": 1.0, "solver": "newton", "relaxation": relaxation, "mu": 0.0}
    a = solve(X, labels, 5, 1000.0, **options)
    b = solve(X, labels, 5, 1000.0, tuning=tuned(max_explicit=0), **options)
    c = solve(X, labels, 5, 1000.0, tuning=tuned(max_explicit=0, max_block_values=0), **options)
    assert b.details["cg_steps"] < c.details["cg_steps"]  # blocks are the better preconditioner
    assert c.status == CONVERGED
    assert a.details["objective"] == pytest.approx(c.details["objective"], rel=1e-6)
    assert a.details["cg_steps"] == 0 < b.details["cg_steps"]
    assert a.status == b.status == CONVERGED
    assert a.details["objective"] == pytest.approx(b.details["objective"], rel=1e-6)


def _proximal_rows(relaxation, sparse, bias, threads=1, k=5, filled=False):
    """Rows some way into a run, with multipliers of all kinds, and a direction."""
    X, labels = problem(18, m=90, d=7, k=k, spread=3)
    if sparse:
        X = sparse_rows()
    frozen = relaxation == "frozen"
    state = state_of(X, labels, np.full(90, 3.0), k, frozen=frozen, bias=bias)
    for _ in range(4):
        state.begin_epoch()
        state.advance(10**9)
    state.measure()
    state.reassign(at_once=True)
    if filled:
        state.fill_rows()
    rows = ProximalRows(state, threads)
    rows.begin(np.linspace(0.02, 0.2, 90), state.weights.copy())
    direction = np.zeros_like(state.weights)
    direction[:, :k] = np.random.default_rng(3).normal(size=(state.n_columns, k))
    rows.search(direction)
    rows.step(0.0)
    assert rows.zeta.any() and (rows.beta > 0).any()
    return state, rows, direction


@pytest.mark.parametrize("relaxation", ["majorise", "frozen"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_the_forms_of_the_hessian_agree(relaxation, sparse, bias):
    """The matrix (by pairs of classes), the products, the diagonal blocks and the diagonal."""
    state, rows, direction = _proximal_rows(relaxation, sparse, bias)
    d, k = state.n_columns, state.n_classes
    lower = np.tril(rows.hessian())
    H = lower + np.tril(lower, -1).T
    expected = (H @ direction[:, :k].T.ravel()).reshape(k, d).T
    for by_pairs in (False, True):
        product = rows.hessian_product(direction, by_pairs)
        np.testing.assert_allclose(product[:, :k], expected, rtol=1e-11, atol=1e-11)
        assert not product[:, k:].any()
    blocks = rows.hessian_blocks()
    for label in range(k):
        own = slice(label * d, (label + 1) * d)
        np.testing.assert_allclose(np.tril(blocks[label, :d, :d]), np.tril(H[own, own]), atol=1e-11)
    np.testing.assert_allclose(
        rows.hessian_diagonal()[:, :k], np.diagonal(H).reshape(k, d).T, rtol=1e-11, atol=1e-11
    )
    assert np.linalg.eigvalsh(H).min() >= -1e-10
    _, more, _ = _proximal_rows(relaxation, sparse, bias, threads=3)
    assert np.tril(more.hessian()).tobytes() == np.tril(rows.hessian()).tobytes()


def test_products_by_pairs_of_many_rows():
    """More rows than one thread takes at a time; nothing depends on the number of threads."""
    X, labels = problem(19, m=15_000, d=4, k=3, spread=2)
    products = []
    for threads in (1, 3):
        rows = ProximalRows(state_of(X, labels, np.ones(15_000), 3, bias=1.0), threads)
        rows.begin(np.full(15_000, 0.1), np.zeros((5, 4)))
        rows.step(0.0)
        direction = np.random.default_rng(4).normal(size=(5, 4)) * [1, 1, 1, 0]
        products.append(rows.hessian_product(direction, True))
        np.testing.assert_allclose(products[-1], rows.hessian_product(direction, False), rtol=1e-10)
    assert rows.n_curved == 15_000
    assert products[0].any() and products[0].tobytes() == products[1].tobytes()


@pytest.mark.parametrize("relaxation", ["majorise", "frozen"])
def test_rows_take_exact_steps(relaxation):
    """Each row's multipliers are those of its sub-problem at its scores, shifted by t times the center."""
    state, rows, direction = _proximal_rows(relaxation, True, 1.0)
    h, t = 0.5 / 3.0, np.linspace(0.02, 0.2, 90)
    columns = np.c_[sparse_rows(), np.ones(90)]
    _, _, center = state.multipliers()
    for length in (0.0, 0.4, -0.7):
        rows.step(length)
        scores = columns @ (state.weights + length * direction) - t[:, None] * center
        for i, label in enumerate(state.labels):
            q = -1 if state.frozen else int(state.others[i])
            zeta, beta = solve_class_block(
                scores[i, :5], label, t[i], h, 0.5, 0.2, other=q, reference=state.references[i]
            )
            np.testing.assert_allclose(rows.zeta[i, :5], zeta, rtol=1e-8, atol=1e-9)
            assert rows.beta[i] == pytest.approx(beta, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("relaxation", ["majorise", "frozen"])
def test_slopes_and_products_are_derivatives(relaxation):
    """The slope along a direction is that of the gradient, the Hessian's product the gradient's change."""
    _, rows, direction = _proximal_rows(relaxation, True, 1.0)
    for length in (0.0, 0.4, -0.7):
        slope = rows.step(length)
        product = rows.hessian_product(direction)
        assert slope == pytest.approx(float(np.vdot(rows.weights(), direction)), rel=1e-10)
        rows.step(length + 1e-7)
        above = rows.weights()
        rows.step(length - 1e-7)
        np.testing.assert_allclose(product, (rows.weights() - above) / 2e-7, rtol=1e-5, atol=1e-4)
    slope = rows.step(0.3)
    rows.advance(0.3)
    assert rows.step(0.0) == pytest.approx(slope, rel=1e-12)


def test_separable_rows_need_few_steps():
    """Multipliers of separable rows stay small at a large C; t in units of 1/C took more than 2000 steps."""
    X, labels = problem(22, m=600, d=120, k=20)
    result = solve(X, labels, 20, lambda_=1e5, bias=1.0, solver="newton", control=Control(tol=1e-3))
    assert result.status == CONVERGED and result.details["newton_steps"] < 100


def test_first_proximal_steps_are_short():
    """Rows with noise in more columns than a Hessian that is formed may have."""
    random = np.random.default_rng(0)
    labels = np.arange(300) % 5
    X = 0.2 * random.normal(size=(5, 320))[labels] + random.normal(size=(300, 320))
    short = solve(X, labels, 5, 1e5, solver="newton")
    long = solve(X, labels, 5, 1e5, solver="newton", tuning=tuned(first_part=0.0))
    assert short.status == long.status == CONVERGED and short.details["cg_steps"] > 0
    assert short.details["newton_steps"] < 0.6 * long.details["newton_steps"]
    assert short.details["objective"] == pytest.approx(long.details["objective"], rel=0.02)


@pytest.mark.parametrize("k", [3, 5, 9, 14])
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_full_rows_give_what_sparse_ones_give(k, bias):
    (state, rows, _), (other, filled, _) = (
        _proximal_rows("majorise", False, bias, k=k, filled=how) for how in (False, True)
    )
    for length in (0.0, 0.6):
        np.testing.assert_allclose(filled.step(length), rows.step(length), rtol=1e-12)
        np.testing.assert_allclose(filled.weights(), rows.weights(), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(np.tril(filled.hessian()), np.tril(rows.hessian()), rtol=1e-11, atol=1e-12)
    kept, again = np.zeros((90, state.padded)), np.zeros((90, state.padded))
    assert other.measure(1, again) == pytest.approx(state.measure(1, kept), rel=1e-12)
    np.testing.assert_allclose(again, kept, rtol=1e-12, atol=1e-13)
    columns = np.c_[problem(18, m=90, d=7, k=k, spread=3)[0], np.full(90, bias)][:, : state.n_columns]
    np.testing.assert_allclose(kept[:, :k], columns @ state.weights[:, :k], rtol=1e-10, atol=1e-12)
    assert state.measure() == state.measure(1, kept)


def test_rows_with_few_values_are_not_filled():
    state, rows, _ = _proximal_rows("majorise", True, 1.0)
    before = rows.hessian().tobytes()
    state.fill_rows()
    assert rows.hessian().tobytes() == before
