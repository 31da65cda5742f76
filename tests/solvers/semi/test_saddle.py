"""The relaxation of ssODM: oracles A to D, bounds, both kinds of data, and mirror prox."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import CONVERGED, MAX_ITER, Control, Resources
from odmlib.solvers.semi.assignments import Assignments, Balance
from odmlib.solvers.semi.engine import KernelEngine, LinearEngine, Mixture, SemiProblem
from odmlib.solvers.semi.mirror_prox import mirror_prox
from odmlib.solvers.semi.saddle import SaddleTuning, master, relax
from tests.reference_ssodm import ORACLES, Tiny, objective, relaxed

LINEAR = [name for name, (tiny, _, _) in ORACLES.items() if tiny.gamma is None]
WAYS = [(name, "kernel") for name in ORACLES] + [(name, "linear") for name in LINEAR]


def engine(tiny: Tiny, way: str, cache_bytes: int = 1 << 22):
    rows = Rows(Dataset.from_any(tiny.x), tiny.bias)
    kernel = Kernel(KernelFormula("precomputed"), tiny.K)
    assignments = Assignments(tiny.given, Balance(tiny.n_plus, tiny.n_plus))
    given = assignments, tiny.costs, BandLoss(tiny.theta, tiny.nu)
    if way == "linear":
        return LinearEngine(rows, SemiProblem(rows, *given), Resources())
    return KernelEngine(kernel, SemiProblem(kernel, *given), Resources(1, cache_bytes), wide=True)


def mixture(members: np.ndarray) -> Mixture:
    """All members alike, from a = 0."""
    m, n = members.shape
    return Mixture(np.ascontiguousarray(members), np.full(n, 1 / n), np.zeros(m))


def solved(tiny: Tiny, way: str, members: np.ndarray, tol: float, method=master, **more):
    return method(engine(tiny, way), mixture(members), Control(tol), **more)


def random_problem(seed: int, m: int = 60, gamma: float | None = None) -> Tiny:
    """A parameter corner for every seed."""
    rng = np.random.default_rng(seed)
    y = np.array([1.0, -1.0] * 5)
    x = rng.standard_normal((m, 4))
    x[:10, 0] += 1.5 * y
    return Tiny(
        x,
        y,
        lambda1=[1.0, 30.0, 1000.0][seed % 3],
        lambda2=[1.0, 100.0][seed % 2],
        nu=[0.2, 1.0][seed // 2 % 2],
        theta=[0.0, 0.2, 0.8][seed // 4 % 3],
        n_plus=(m - 10) // 2,
        gamma=gamma,
        bias=1.0,
    )


def random_members(tiny: Tiny, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    members = Assignments(tiny.given, Balance(tiny.n_plus, tiny.n_plus))
    return np.ascontiguousarray(np.stack([members.random(rng) for _ in range(n)], axis=1))


@pytest.mark.parametrize("name, way", WAYS)
def test_oracles(name, way):
    tiny, values, J = ORACLES[name]
    members = tiny.assignments()
    found = solved(tiny, way, members, 1e-8)
    assert found.status == CONVERGED
    assert found.lower - 1e-9 <= J <= found.upper + 1e-9
    assert found.upper == pytest.approx(J, abs=2e-8)
    for place, value in enumerate(values or []):  # one member: the ODM for these labels
        single = solved(tiny, way, members[:, [place]], 1e-9)
        assert single.upper == pytest.approx(value, abs=1e-8 * max(1, value))


def test_oracle_solutions():
    """a* is unique; mu* of A, C and D too."""
    duals = {
        "A": [0, 0, 2 / 5, 2 / 5],
        "B": [0, 0, 4 / 17, 4 / 17],
        "C": [0.1913448, 0.0117371, 0.6213119, 0.6213119, 0.1893998, 0.1893998],
    }
    shares = {
        "A": [13 / 16, 3 / 16],
        "C": [0.704016, 0, 0.147992, 0.147992, 0, 0],
        "D": [0.878296, 0.121704, 0, 0, 0, 0],
    }
    for name, (tiny, _, _) in ORACLES.items():
        found = solved(tiny, "kernel", tiny.assignments(), 1e-9)
        if name in duals:
            assert found.duals == pytest.approx(duals[name], abs=2e-4)
        if name in shares:
            assert found.shares == pytest.approx(shares[name], abs=2e-4)


@pytest.mark.parametrize("name", ORACLES)
def test_oracles_agree_with_a_general_solver(name):
    tiny, _, J = ORACLES[name]
    value, _ = relaxed(tiny, tiny.assignments())
    assert value == pytest.approx(J, abs=1e-7)


@pytest.mark.parametrize("name, way", WAYS)
def test_mirror_prox_reaches_the_same_value(name, way):
    tiny, _, J = ORACLES[name]
    found = solved(tiny, way, tiny.assignments(), 2e-3, mirror_prox)
    assert found.status == CONVERGED
    assert found.lower <= J + 1e-9 and found.upper >= J - 1e-9
    assert found.upper - found.lower <= 2e-3 * max(1, found.upper)


@pytest.mark.parametrize("name", ["A", "C", "C with RBF"])
def test_stochastic_mirror_prox_comes_near(name):
    tiny, _, J = ORACLES[name]
    start = mixture(tiny.assignments())
    found = [
        mirror_prox(engine(tiny, "kernel"), start, Control(1e-9, max_iter=steps), stochastic=True)
        for steps in (150, 2000)
    ]
    for point in found:
        assert point.status == MAX_ITER and point.lower <= J <= point.upper
    assert found[1].gap < min(0.4, 0.8 * found[0].gap)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_everywhere_and_meet(seed):
    """Invariants 1 to 3 on random problems, both kinds of data, which agree (invariant 7)."""
    tiny = random_problem(seed)
    members = random_members(tiny, 4, seed)
    rng = np.random.default_rng(seed)
    some = engine(tiny, "kernel")
    total = tiny.weights.sum()
    for _ in range(5):  # UB >= LB at any point
        a, mu = rng.standard_normal(len(tiny.x)) * rng.random(), rng.dirichlet(np.ones(4))
        state = some.members(a.copy(), members, mu)
        upper, lower, _ = some.certify(a, state.margins(), mu, state.squares())
        assert upper >= lower - 1e-9 * max(1, upper)
        products, squares = some.images(a[:, None] * members)
        assert state.squares() == pytest.approx(squares)
        assert state.margins() == pytest.approx((members * products) @ mu)
    found = {way: solved(tiny, way, members, 1e-5) for way in ("linear", "kernel")}
    assert found["linear"].upper == pytest.approx(found["kernel"].upper, abs=1e-4 * max(1, total))
    kernel = found["kernel"]
    singles = [solved(tiny, "kernel", members[:, [k]], 1e-5).upper for k in range(4)]
    assert kernel.lower <= min(singles) and kernel.upper <= total * (1 + 1e-5)
    fewer = solved(tiny, "kernel", members[:, :3], 1e-5)
    assert kernel.lower <= fewer.upper
    most = 2 * np.sqrt(tiny.weights * total) / (1 - tiny.theta)
    assert (kernel.duals <= most * (1 + 1e-6)).all()
    assert (kernel.duals >= -np.sqrt(tiny.nu) * most * (1 + 1e-6)).all()


def test_a_small_cache_gives_the_same():
    tiny = random_problem(3, m=300, gamma=0.3)
    members = random_members(tiny, 3, 0)
    whole, small = engine(tiny, "kernel"), engine(tiny, "kernel", 60_000)
    assert small.cache.capacity < 300
    values = [master(some, mixture(members), Control(1e-6)).upper for some in (whole, small)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_cutting_planes_reach_the_whole_set(seed):
    """Invariant 9: |B| = 70; J of the working set falls to J(B), which all of B gives."""
    rng = np.random.default_rng(seed)
    y = np.array([1.0, -1.0, 1.0, -1.0])
    x = rng.standard_normal((12, 2))
    x[:4, 0] += y
    tiny = Tiny(x, y, 10.0, 20.0, 0.5, 0.2, 4, gamma=0.5 if seed % 2 else None, bias=1.0)
    everything = solved(tiny, "kernel", tiny.assignments(), 1e-6)
    some = engine(tiny, "kernel")
    first = some.assignments.best(x[:, 0])
    tuning = SaddleTuning(max_cuts=30, cut_tolerance=1e-5)
    found = relax(some, first, Control(1e-6), tuning=tuning)
    assert found.lower <= everything.upper <= found.upper + 1e-5
    assert found.upper == pytest.approx(everything.upper, rel=5e-4)
    assert objective(tiny, first) >= found.lower
    assert (found.labels[:4] == y[:, None]).all() and ((found.labels[4:] > 0).sum(axis=0) == 4).all()


def test_stopping():
    tiny = random_problem(1)
    start = mixture(random_members(tiny, 3, 0))
    some = engine(tiny, "linear")
    assert master(some, start, Control(1e-12, max_iter=2)).status == MAX_ITER
    assert master(some, start, Control(1e-12, time_limit=1e-9)).status == "time_limit"
    assert mirror_prox(some, start, Control(1e-12, max_iter=3)).sweeps == 3
    seen = []
    stopping = Control(1e-12, callback=lambda progress: seen.append(progress) or len(seen) == 2)
    assert master(some, start, stopping).status == "stopped" and len(seen) == 2
