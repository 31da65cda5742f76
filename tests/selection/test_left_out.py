"""Leave-one-out margins from one fit, against machines that were trained without each row in turn."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.losses.loss import BandLoss
from odmlib.selection.left_out import (
    COLUMNS,
    FEATURES,
    ROWS,
    LeftOutTuning,
    NoRoom,
    left_out_margins,
    may_be_wrong,
)

ROOM = 1 << 30


def two_clouds(m: int, d: int, distance: float, seed: int = 0):
    random = np.random.default_rng(seed)
    y = np.where(np.arange(m) % 3 == 0, -1.0, 1.0)
    X = random.standard_normal((m, d))
    X[:, 0] += distance * y
    return X, y


def exact_band_machine(K, y, costs, theta, nu):
    """(coefficients a y, side of each row) of the machine on all rows of K, by an active-set iteration."""
    z = np.zeros(len(y))
    for step in range(200):
        side = np.where(z < 1 - theta, 1, np.where(z > 1 + theta, -1, 0))
        c = 2 * costs * np.select([side == 1, side == -1], [1.0, nu], 0.0)
        b = 1 - theta * side
        S = c > 0
        beta = np.zeros(len(y))
        beta[S] = np.linalg.solve(K[np.ix_(S, S)] + np.diag(1 / c[S]), (y * b)[S])
        new = y * (K @ beta)
        if np.array_equal(side, np.where(new < 1 - theta, 1, np.where(new > 1 + theta, -1, 0))):
            return beta, side
        z = new if step < 20 else 0.5 * (z + new)
    raise AssertionError("the reference did not settle")


def true_left_out(K, y, costs, theta, nu, K_predict=None):
    """Margin of every row under the machine trained without it, and whether no other row changed sides."""
    K_predict = K if K_predict is None else K_predict
    _, side = exact_band_machine(K, y, costs, theta, nu)
    margins, settled = np.empty(len(y)), np.empty(len(y), dtype=bool)
    for i in range(len(y)):
        rest = np.flatnonzero(np.arange(len(y)) != i)
        beta, side_without = exact_band_machine(K[np.ix_(rest, rest)], y[rest], costs[rest], theta, nu)
        margins[i] = y[i] * (K_predict[i, rest] @ beta)
        settled[i] = np.array_equal(side_without, side[rest])
    return margins, settled


def gaussian(X, gamma=0.4):
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


KERNELS = {
    "linear": (KernelFormula("linear"), lambda X: X @ X.T),
    "linear with bias": (KernelFormula("linear", bias=1.5), lambda X: X @ X.T + 2.25),
    "rbf": (KernelFormula("rbf", gamma=0.4), gaussian),
    "rbf with bias": (KernelFormula("rbf", gamma=0.4, bias=0.5), lambda X: gaussian(X) + 0.25),
    "poly": (KernelFormula("poly", gamma=0.5, degree=2, coef0=1.0), lambda X: (0.5 * X @ X.T + 1) ** 2),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("theta", "nu"), [(0.2, 0.5), (0.0, 0.0), (0.1, 1.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_margins_are_those_of_refits_where_no_row_changes_sides(name, theta, nu, weighted):
    X, y = two_clouds(45, 3, 0.8)
    formula, matrix = KERNELS[name]
    K = matrix(X)
    costs = np.full(45, 0.7 / (1 - theta) ** 2)
    if weighted:
        costs *= np.random.default_rng(3).integers(0, 4, 45)
    beta, _ = exact_band_machine(K, y, costs, theta, nu)
    margins = y * (K @ beta)
    result = left_out_margins(
        Dataset.from_any(X), formula, y, costs, BandLoss(theta, nu), margins, max_bytes=ROOM
    )
    expected, settled = true_left_out(K, y, costs, theta, nu)
    assert settled.sum() > 8
    np.testing.assert_allclose(result.margins[settled], expected[settled], atol=1e-6)
    assert np.abs(result.margins - expected).mean() < 0.1  # and close elsewhere
    assert abs(np.count_nonzero(result.margins <= 0) - np.count_nonzero(expected <= 0)) <= 1
    unsure = may_be_wrong(margins, np.diag(K), costs, BandLoss(theta, nu), 0.0)
    assert unsure[expected <= 0].all()
    assert unsure.sum() < 45


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("shape", [(60, 4), (20, 40)])
def test_both_forms_of_a_linear_machine_agree(bias, shape):
    X, y = two_clouds(*shape, 0.5, seed=1)
    formula, loss = KernelFormula("linear", bias=bias), BandLoss(0.2, 0.5)
    costs = np.linspace(0.1, 3, shape[0])
    margins = y * np.tanh(X[:, 0])  # any margins will do
    given = Dataset.from_any(X), formula, y, costs, loss, margins
    results = [
        left_out_margins(*given, max_bytes=ROOM, tuning=LeftOutTuning(form=form)) for form in (COLUMNS, ROWS)
    ]
    assert left_out_margins(*given, max_bytes=ROOM).form == (COLUMNS if shape[1] == 4 else ROWS)
    np.testing.assert_allclose(results[0].margins, results[1].margins, rtol=1e-7)


@pytest.mark.parametrize("bias", [0.0, 0.5])
@pytest.mark.parametrize("cost", [0.01, 1.0, 500.0])
@pytest.mark.parametrize("gamma", [0.01, 3.0])
def test_a_kernel_of_little_rank_is_a_linear_one(bias, cost, gamma):
    """gamma 0.01: some dozens of 500 rows span the others. gamma 3: no short way, and none is taken."""
    X, y = two_clouds(500, 2, 0.5, seed=1)
    formula, loss = KernelFormula("rbf", gamma=gamma, bias=bias), BandLoss(0.2, 0.5)
    costs = cost * np.linspace(0.1, 1, 500)
    margins = y * np.tanh(X[:, 0])  # any margins will do
    given = Dataset.from_any(X), formula, y, costs, loss, margins
    short = left_out_margins(*given, max_bytes=ROOM, tuning=LeftOutTuning(low_rank_rows=300))
    whole = left_out_margins(*given, max_bytes=ROOM, tuning=LeftOutTuning(form=ROWS))
    assert short.form == (FEATURES if gamma == 0.01 else ROWS)
    np.testing.assert_allclose(short.margins, whole.margins, atol=2e-6)


def test_a_leverage_near_one_does_not_blow_up():
    """A row with a feature of its own and a huge C: its margin, left out, is what the others give it: 0."""
    X = np.zeros((30, 3))
    X[:29, 0] = np.linspace(-1, 1, 29)
    X[29, 2] = 1.0
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    costs = np.full(30, 1e9)
    margins = np.where(np.arange(30) == 29, 1 - 1e-9, 0.3)
    result = left_out_margins(
        Dataset.from_any(X), KernelFormula("linear"), y, costs, BandLoss(0.0, 0.0), margins, max_bytes=ROOM
    )
    assert abs(result.margins[29]) < 1e-3


def test_a_shifted_kernel_is_left_out_by_the_kernel_itself():
    X, y = two_clouds(40, 3, 0.6, seed=2)
    K = np.tanh(0.8 * X @ X.T - 1.0)
    shift = 0.1 - np.linalg.eigvalsh(K)[0]
    assert shift > 0.5
    costs = np.full(40, 2.0)
    shifted = K + shift * np.eye(40)
    beta, _ = exact_band_machine(shifted, y, costs, 0.1, 0.5)
    expected, settled = true_left_out(shifted, y, costs, 0.1, 0.5)
    for formula, rows in (
        (KernelFormula("sigmoid", gamma=0.8, coef0=-1.0), X),
        (KernelFormula("precomputed"), K),
    ):
        result = left_out_margins(
            Dataset.from_any(rows),
            formula,
            y,
            costs,
            BandLoss(0.1, 0.5),
            y * (K @ beta),  # as prediction of the training rows has them
            max_bytes=ROOM,
            shift=shift,
        )
        np.testing.assert_allclose(result.margins[settled], expected[settled], atol=1e-6)
        assert settled.sum() > 20


def test_a_precomputed_kernel_with_bias_is_the_same_as_its_formula():
    X, y = two_clouds(30, 2, 0.7)
    costs, loss, margins = np.full(30, 1.5), BandLoss(0.2, 0.5), y * X[:, 0]
    direct, given = (
        left_out_margins(Dataset.from_any(rows), formula, y, costs, loss, margins, max_bytes=ROOM)
        for formula, rows in (
            (KernelFormula("rbf", gamma=0.4, bias=2.0), X),
            (KernelFormula("precomputed", bias=2.0), gaussian(X)),
        )
    )
    np.testing.assert_allclose(direct.margins, given.margins, rtol=1e-10)


def test_one_sloppy_fit_counts_the_errors_of_many_exact_ones():
    """Hundreds of refits, and one fit at the default tolerance."""
    X, y = two_clouds(90, 2, 1.1, seed=5)
    for C, gamma in ((1, 0.4), (5, 0.4), (1, 2.0)):
        K, costs = gaussian(X, gamma), np.full(90, C / 0.8**2)
        expected, _ = true_left_out(K, y, costs, 0.2, 0.5)
        margins = odmlib.train(X, y, C=C, gamma=gamma).margins(X, y)
        result = left_out_margins(
            Dataset.from_any(X),
            KernelFormula("rbf", gamma=gamma),
            y,
            costs,
            BandLoss(0.2, 0.5),
            margins,
            max_bytes=ROOM,
        )
        errors = np.count_nonzero(expected <= 0)
        assert 5 < errors < 40
        assert abs(np.count_nonzero(result.margins <= 0) - errors) <= 1


def test_rows_all_inside_the_band_stay_where_they_are():
    X, y = two_clouds(9, 2, 1)
    margins = np.ones(9)
    result = left_out_margins(
        Dataset.from_any(X), KernelFormula(), y, np.ones(9), BandLoss(0.2, 0.5), margins, max_bytes=0
    )
    assert (result.margins == margins).all() and result.form is None
    assert (result.margins == 1).all()


def test_too_little_memory_is_said_with_the_size():
    X, y = two_clouds(500, 2, 1)
    with pytest.raises(NoRoom, match=r"needs 3 MB for 500 rows outside the band, but cache_mb allows 2"):
        left_out_margins(
            Dataset.from_any(X),
            KernelFormula(),
            y,
            np.ones(500),
            BandLoss(0.2, 0.5),
            np.zeros(500),
            max_bytes=2 << 20,
        )


def test_wide_data_with_few_columns_in_use():
    X, y = two_clouds(30, 2, 1)
    wide = Dataset.from_any(X).with_features(10**9)
    costs, loss, margins = np.ones(30), BandLoss(0.2, 0.5), y * X[:, 0]
    narrow, result = (
        left_out_margins(rows, KernelFormula("linear", bias=1.0), y, costs, loss, margins, max_bytes=ROOM)
        for rows in (Dataset.from_any(X), wide)
    )
    np.testing.assert_allclose(result.margins, narrow.margins, rtol=1e-12)


def room_to_a_violation(K, y, costs, theta, nu):
    """How far the bound is from calling a wrong row right: above 0 it would be false."""
    beta, _ = exact_band_machine(K, y, costs, theta, nu)
    expected, _ = true_left_out(K, y, costs, theta, nu)
    pull = 2 * costs * np.diag(K)
    lead = y * (K @ beta) - (1 - theta) * pull / (1 + pull)
    wrong = expected <= 0
    unsure = may_be_wrong(y * (K @ beta), np.diag(K), costs, BandLoss(theta, nu), 1e-16)
    assert unsure[wrong].all()
    return lead[wrong].max(initial=-np.inf)


@pytest.mark.parametrize("seed", range(4))
def test_a_search_for_sets_that_break_the_bound_finds_none(seed):
    """Random small sets, each made worse by random steps; the bound is reached, and never crossed."""
    random = np.random.default_rng(seed)
    worst = -np.inf
    for _ in range(12):
        m, d = random.integers(2, 9), random.integers(1, 4)
        theta, nu = random.choice([0.0, 0.2, 0.5, 0.9]), random.choice([0.0, 0.5, 1.0, 8.0])
        X, y = random.normal(size=(m, d)), random.choice([-1.0, 1.0], m)
        log_costs, bias = random.normal(size=m), random.choice([0.0, 1.0])
        here = -np.inf
        for _ in range(25):
            moved = X + random.normal(size=X.shape) * random.choice([0.01, 0.1, 1.0])
            costs = np.exp(log_costs + 0.3 * random.normal(size=m))
            K = moved @ moved.T + bias if seed % 2 else gaussian(moved, 0.7) + bias
            found = room_to_a_violation(K, y, costs, theta, nu)
            if found >= here:
                X, log_costs, here = moved, np.log(costs), found
        worst = max(worst, here)
    assert -0.2 < worst < 1e-9


def test_the_printed_bound_is_false_where_ours_holds():
    """The sum in Theorem 3 of the ODM paper is below 0 here, and one row is wrong when it is left out."""
    X = np.array([0.19996, 0.000667] + [1.0, -1.0] * 5)[:, None]
    y = np.array([1.0, -1.0] * 6)
    theta = nu = 0.5
    costs = np.full(12, 4.9152 / (1 - theta) ** 2)
    K = X @ X.T
    beta, side = exact_band_machine(K, y, costs, theta, nu)
    a = y * beta
    h = np.diag(K) + 1 / (2 * costs * np.where(side > 0, 1.0, nu))
    assert np.where(a > 0, a * h + theta, np.where(a < 0, -a * h - theta, 0)).sum() < -2
    expected, _ = true_left_out(K, y, costs, theta, nu)
    assert np.count_nonzero(expected <= 0) == 1
    unsure = may_be_wrong(y * (K @ beta), np.diag(K), costs, BandLoss(theta, nu), 0.0)
    assert unsure[expected <= 0].all() and unsure.sum() == 2


def test_a_sloppy_fit_has_a_wider_bound():
    X, y = two_clouds(700, 2, 1.1, seed=5)
    loose, tight = (odmlib.leave_one_out(X, y, C=0.5, tol=tol) for tol in (0.05, 1e-9))
    assert loose.model.report["gap"] > 1e-6
    assert tight.errors <= tight.bound < loose.bound
    assert tight.bound < 700
