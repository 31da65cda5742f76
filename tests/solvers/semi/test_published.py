"""Algorithm 1 of the ssODM paper: shares of members that are never stored, moments, bounds that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources
from odmlib.solvers.semi.assignments import Assignments, Balance
from odmlib.solvers.semi.engine import Mixture, SemiProblem, make_engine
from odmlib.solvers.semi.published import Members, PublishedTuning, Shares, _Certificate, solve_published
from odmlib.solvers.semi.saddle import master
from tests.reference_linear import random_problem

GIVEN = np.array([1, -1, 0, 0, 0, 0, 0], dtype=np.int8)


def members_of(low=2, high=3):
    return Members(Assignments(GIVEN, Balance(low, high)))


def engine_of(low=2, high=3):
    random = np.random.default_rng(3)
    X = random.normal(size=(7, 2))
    kernel = Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X))
    problem = SemiProblem(kernel, Assignments(GIVEN, Balance(low, high)), np.full(7, 2.0), BandLoss(0.2, 0.5))
    return make_engine(problem, Resources(1, 1 << 20))


def test_members_and_their_moments():
    members = members_of()
    every = members.all().astype(float)
    assert members.size == every.shape[1] == math.comb(5, 2) + math.comb(5, 3)
    assert len({column.tobytes() for column in members.all().T}) == members.size
    mean, product = members.moments()
    np.testing.assert_allclose(mean, every.mean(axis=1), atol=1e-15)
    assert product == pytest.approx((every[2] * every[5]).mean())
    random = np.random.default_rng(0)
    drawn = np.array([members.draw(random) for _ in range(4000)])
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.06)
    assert set(drawn.sum(axis=1) + 7) == {2 * (1 + 2), 2 * (1 + 3)}


def test_shares_are_those_of_a_full_vector():
    """The same steps on all numbers of mu."""
    members, random = members_of(), np.random.default_rng(1)
    every = [column.tobytes() for column in members.all().T]
    shares, plain = Shares({}, -math.log(20), 20), np.full(20, 1 / 20)
    for _ in range(30):
        place, change = int(random.integers(20)), float(random.normal())
        shares = shares.changed(every[place], change)
        plain[place] *= math.exp(change)
        plain /= plain.sum()
    full = [math.exp(shares.drawn.get(key, shares.rest)) for key in every]
    np.testing.assert_allclose(full, plain, rtol=1e-9)
    counts = dict.fromkeys(every, 0)
    for _ in range(4000):
        counts[shares.draw(members, random).tobytes()] += 1
    np.testing.assert_allclose([counts[key] / 4000 for key in every], plain, atol=0.03)
    everything = shares.changed(every[4], 1e300)
    assert math.exp(everything.drawn[every[4]]) == 1 and everything.even_part() == 0


@pytest.mark.parametrize("few", [0, 1000])
def test_the_bounds_hold(few):
    """Against the working-set solver with all of B at work."""
    engine, members = engine_of(), members_of()
    labels = np.ascontiguousarray(members.all())
    best = master(engine, Mixture(labels, np.full(20, 1 / 20), np.zeros(7)), Control(1e-8))
    assert best.gap <= 1e-8
    result = solve_published(engine, Control(1e-9, max_iter=300), PublishedTuning(few_members=few))
    assert result.lower <= best.upper + 1e-9 and best.lower - 1e-9 <= result.upper
    assert result.status == "max_iter" and result.steps == 300 and result.gap > 1e-9
    # the upper bound and the mean labels, from all of mu by hand
    random = np.random.default_rng(5)
    shares, a = Shares({}, -math.log(20), 20), random.normal(size=7)
    for column in members.all().T[:6]:
        shares = shares.changed(column.tobytes(), float(random.normal()))
    mu = np.array([math.exp(shares.drawn.get(key.tobytes(), shares.rest)) for key in members.all().T])
    products, squares = engine.images(a[:, None] * labels)
    upper, lower, _ = engine.certify(a, (labels * products) @ mu, mu, squares)
    found = _Certificate(engine, members, PublishedTuning(few_members=few)).of(shares, a)
    assert found[0] == pytest.approx(upper, rel=1e-6)
    assert found[1] == pytest.approx(lower, rel=1e-6) if few else found[1] <= lower
    np.testing.assert_allclose(found[2], labels @ mu, atol=1e-12)


def test_one_member_is_plain_odm():
    """With nothing to choose the steps are gradient steps of ODM, and converge."""
    engine = engine_of(5, 5)
    result = solve_published(engine, Control(1e-2), PublishedTuning(max_steps=20_000))
    assert result.status == "converged" and result.gap <= 1e-2
    labels = members_of(5, 5).all()[:, 0]
    exact = engine.solve(labels, Control(1e-9), None)
    assert result.lower <= exact.primal <= result.upper * (1 + 1e-9)


def test_as_a_machine():
    X, y = random_problem(n=100, d=3, seed=1)
    marked = y.copy()
    marked[np.random.default_rng(0).permutation(len(y))[:60]] = 0
    given = {"machine": "ssodm", "balance": "equal", "solver": "smp", "max_iter": 50}
    with pytest.warns(odmlib.ConvergenceWarning, match=r"published algorithm \(--raw\) ended after 50 steps"):
        model = odmlib.train(X, marked, raw=True, **given)
    note = model.report["semi_supervised"]
    assert note["raw"] and note["polish_steps"] == 0 and note["cuts"] == 0 and note["gap"] > 1e-3
    with pytest.raises(odmlib.ParameterError, match="raw is for solver smp"):
        odmlib.train(X, marked, machine="ssodm", raw=True)
    with pytest.raises(odmlib.ParameterError, match="raw has no cuts"):
        odmlib.train(X, marked, raw=True, max_cuts=2, **given)
