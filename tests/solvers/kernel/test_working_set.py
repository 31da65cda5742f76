"""The working-set solver against oracles, a slow reference, and its own certificate."""

from pathlib import Path

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.expansion import kernel_scores
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.kernel.working_set import WorkingSetTuning, solve_working_set
from odmlib.solvers.problem import KernelProblem
from tests.kernels.test_kernel import run_python
from tests.reference_kernel import BandReference, random_rows, solve_by_coordinates
from tests.turns import Clock, turns_during

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
MEGABYTE = 1 << 20


def solve(
    kernel,
    y,
    costs,
    theta=0.2,
    nu=0.5,
    tol=1e-3,
    max_iter=None,
    time_limit=None,
    callback=None,
    over=None,
    **options,
):
    m = len(y)
    costs = np.broadcast_to(np.asarray(costs, dtype=float), (m,)).copy()
    limits = {"max_iter": max_iter, "time_limit": time_limit, "callback": callback}
    control = Control(tol, **limits, over=over or (lambda: None))
    return by_working_set(kernel, np.asarray(y, dtype=float), costs, BandLoss(theta, nu), control, **options)


def by_working_set(
    kernel,
    y,
    costs,
    loss,
    control,
    *,
    cache_bytes=100 * MEGABYTE,
    threads=1,
    seed=0,
    cache=None,
    start=None,
    start_scores=None,
    shrinking=True,
    margin_mean=None,
    **tuning,
):
    """solve_working_set of plain arguments; `tuning`: fields of WorkingSetTuning."""
    return solve_working_set(
        KernelProblem(kernel, y, costs, loss),
        control,
        Resources(threads, cache_bytes, cache, seed),
        WarmStart(duals=start, scores=start_scores),
        WorkingSetTuning(**tuning),
        shrinking=shrinking,
        margin_mean=margin_mean,
    )


def precomputed(matrix):
    return Kernel(KernelFormula("precomputed"), matrix)


def random_problem(seed, m=60, d=4, gamma=0.5):
    """Labels with noise and an RBF matrix whose values are exact in float32."""
    rng = np.random.default_rng(seed)
    X = random_rows(rng, m, d)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(m) > 0, 1.0, -1.0)
    K = Kernel(KernelFormula("rbf", gamma=gamma), Dataset.from_any(X)).block(range(m)).astype(float)
    return K, y


def check_certificate(result, K, y, theta, nu, costs, rel=1e-9):
    """What the solver says of itself, computed again from its duals."""
    Q = K * y[:, None] * y
    reference = BandReference(theta, nu, np.broadcast_to(costs, y.shape))
    primal, dual = reference.primal(Q, result.duals), reference.dual(Q, result.duals)
    scale = abs(primal)
    assert result.margins == pytest.approx(Q @ result.duals, abs=rel * max(1, np.abs(result.duals).sum()))
    assert result.primal == pytest.approx(primal, rel=rel, abs=1e-12)
    assert result.dual == pytest.approx(dual, rel=rel, abs=rel * scale)
    assert result.gap >= 0
    assert result.gap == pytest.approx((primal - dual) / scale, abs=rel)


def test_one_row():
    result = solve(precomputed([[1.0]]), [1.0], 1.0, theta=0.0, tol=1e-12)
    assert result.status == "converged"
    assert result.duals[0] == pytest.approx(2 / 3)
    assert result.primal == pytest.approx(1 / 3)


def test_no_rows_at_all():
    result = solve(Kernel(KernelFormula("rbf"), Dataset.from_any(np.zeros((0, 3)))), [], 1.0)
    assert (result.status, result.primal, result.duals.shape) == ("converged", 0.0, (0,))


def test_two_rows_on_either_side_of_the_band():
    kernel = Kernel(KernelFormula("linear"), Dataset.from_any([[1.0], [3.0]]))
    result = solve(kernel, [1.0, 1.0], 0.5, theta=0.0, nu=1.0, tol=1e-14)
    assert result.duals == pytest.approx([7 / 11, -1 / 11], abs=1e-6)
    assert result.solver == "working-set"


@pytest.mark.parametrize("block_rows", [4, 16, 512])
@pytest.mark.parametrize("cost", [2.0**-5, 1.0, 30.0, 2.0**10])
@pytest.mark.parametrize(("theta", "nu"), [(0.2, 0.5), (0.0, 1.0), (0.1, 0.0), (0.0, 0.0)])
def test_agrees_with_slow_reference(theta, nu, cost, block_rows):
    K, y = random_problem(1, m=40)
    costs = cost * np.random.default_rng(2).random(40)
    expected, primal = solve_by_coordinates(K * y[:, None] * y, theta, nu, costs, gap=1e-10)
    result = solve(precomputed(K), y, costs, theta, nu, tol=1e-11, block_rows=block_rows)
    assert result.status == "converged"
    assert result.primal == pytest.approx(primal, rel=1e-8)
    margins = K * y[:, None] * y @ expected
    assert result.margins == pytest.approx(margins, abs=1e-4)
    if cost <= 1:
        assert result.duals == pytest.approx(expected, abs=1e-4 * max(1, np.abs(expected).max()))
    check_certificate(result, K, y, theta, nu, costs)


@pytest.mark.parametrize("seed", range(8))
def test_certificate_on_random_problems(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 300))
    K, y = random_problem(seed, m=m, d=int(rng.integers(1, 6)), gamma=float(rng.choice([0.01, 0.3, 5.0])))
    costs = 10.0 ** rng.uniform(-2, 2.5) * rng.integers(0, 3, m)
    theta, nu = float(rng.choice([0.0, 0.1, 0.5])), float(rng.choice([0.0, 0.3, 1.0]))
    result = solve(precomputed(K), y, costs, theta, nu, tol=1e-6)
    assert result.status == "converged"
    assert result.gap <= 1e-6
    assert (result.duals[costs == 0] == 0).all()
    check_certificate(result, K, y, theta, nu, costs)


def test_zero_costs_and_no_progress_to_make():
    K, y = random_problem(3)
    result = solve(precomputed(K), y, 0.0)
    assert (result.status, result.iterations, result.primal) == ("converged", 0, 0.0)
    assert not result.duals.any()


def test_zero_rows_duplicates_and_contradictions():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [0.0, 0.0], [-1.0, 0.5]])
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    for formula in (KernelFormula("linear"), KernelFormula("rbf"), KernelFormula("poly", degree=2)):
        kernel = Kernel(formula, Dataset.from_any(X))
        K = kernel.block(range(6)).astype(float)
        result = solve(kernel, y, 5.0, tol=1e-10)
        assert result.status == "converged"
        assert result.margins[1] == pytest.approx(result.margins[2])
        assert result.margins[1] == pytest.approx(-result.margins[3])
        check_certificate(result, K, y, 0.2, 0.5, 5.0)
        _, primal = solve_by_coordinates(K * y[:, None] * y, 0.2, 0.5, np.full(6, 5.0))
        assert result.primal == pytest.approx(primal, rel=1e-9)


def test_permuted_flipped_and_doubled_problems_agree():
    K, y = random_problem(4)
    m = len(y)
    first = solve(precomputed(K), y, 2.0, tol=1e-10)
    order = np.random.default_rng(5).permutation(m)
    shuffled = solve(precomputed(K[np.ix_(order, order)]), y[order], 2.0, tol=1e-10)
    assert shuffled.margins == pytest.approx(first.margins[order], abs=1e-5)
    flipped = solve(precomputed(K), -y, 2.0, tol=1e-10)
    assert flipped.duals == pytest.approx(first.duals, abs=1e-5)
    doubled = solve(precomputed(np.tile(K, (2, 2))), np.tile(y, 2), 1.0, tol=1e-10)
    assert doubled.margins == pytest.approx(np.tile(first.margins, 2), abs=1e-5)
    assert doubled.primal == pytest.approx(first.primal, rel=1e-9)


def test_two_cached_rows_lead_to_the_same_solution():
    K, y = random_problem(6, m=40)
    row_bytes = 320 + 32  # float64: 40 rows are few
    rich = solve(precomputed(K), y, 1.0, tol=1e-9)
    poor = solve(precomputed(K), y, 1.0, tol=1e-9, cache_bytes=2 * row_bytes + 4 * 40)
    assert poor.details["cache_rows"] == poor.details["block_rows"] == 2
    assert poor.status == rich.status == "converged"
    assert poor.primal == pytest.approx(rich.primal, rel=1e-8)
    with pytest.raises(ParameterError, match="two kernel rows"):
        solve(precomputed(K), y, 1.0, cache_bytes=row_bytes)


def noisy_circles(seed, m):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 3))
    y = np.where(np.square(X).sum(axis=1) + 0.3 * rng.standard_normal(m) > 2.4, 1.0, -1.0)
    return X, y


def test_same_bytes_for_every_thread_count():
    X, y = noisy_circles(7, 2500)
    results = [
        solve(Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X), threads=t), y, 5.0, threads=t)
        for t in (1, 2, 3)
    ]
    for other in results[1:]:
        assert other.duals.tobytes() == results[0].duals.tobytes()
        assert (other.primal, other.gap, other.iterations) == (
            results[0].primal,
            results[0].gap,
            results[0].iterations,
        )


def test_cache_size_changes_the_way_but_not_the_optimum():
    X, y = noisy_circles(8, 1500)
    kernel = Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X))
    rich = solve(kernel, y, 5.0, tol=1e-5)
    poor = solve(kernel, y, 5.0, tol=1e-5, cache_bytes=600 * 1500 * 4)
    assert rich.details["cache_misses"] <= 1500 < poor.details["cache_misses"]
    assert poor.primal == pytest.approx(rich.primal, rel=3e-5)


def test_warm_start_from_the_optimum_is_done_at_once():
    X, y = noisy_circles(9, 700)
    kernel = Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X))
    cold = solve(kernel, y, 5.0, tol=1e-6)
    assert cold.iterations > 1
    warm = solve(kernel, y, 5.0, tol=1e-5, start=cold.duals)
    assert warm.status == "converged"
    assert warm.iterations <= 1
    assert warm.primal == pytest.approx(cold.primal, rel=1e-5)
    near = solve(kernel, y, 5.5, tol=1e-3, start=cold.duals)
    assert near.iterations <= solve(kernel, y, 5.5, tol=1e-3).iterations
    with pytest.raises(ParameterError, match="start must hold one number for each of 700 rows"):
        solve(kernel, y, 5.0, start=np.zeros(3))


def test_scores_do_not_drift_over_many_iterations():
    K, y = random_problem(10, m=200)
    result = solve(precomputed(K), y, 300.0, tol=1e-9, block_rows=8)
    assert result.iterations > 200
    check_certificate(result, K, y, 0.2, 0.5, 300.0)


@pytest.mark.parametrize("kind", ["sigmoid", "indefinite", "negative"])
def test_indefinite_kernels_end(kind):
    rng = np.random.default_rng(11)
    m = 120
    y = np.where(rng.random(m) > 0.5, 1.0, -1.0)
    if kind == "sigmoid":
        kernel = Kernel(
            KernelFormula("sigmoid", gamma=1.0, coef0=-1.0), Dataset.from_any(rng.standard_normal((m, 3)))
        )
    else:
        G = rng.standard_normal((m, m)).astype(np.float32).astype(float)
        kernel = precomputed(G + G.T if kind == "indefinite" else -np.eye(m) * 4)
    result = solve(kernel, y, 100.0, max_iter=3000)
    assert result.status in ("converged", "stalled", "max_iter")
    assert np.isfinite(result.duals).all()
    assert np.isfinite([result.primal, result.dual, result.gap]).all()
    # never worse than not to have begun
    assert result.gap <= 1
    if kind == "negative":
        assert result.status == "stalled"


@pytest.mark.parametrize(
    ("formula", "proven"),
    [(KernelFormula("linear"), 1e-4), (KernelFormula("poly", gamma=1.0, coef0=1.0), 1e-2)],
    ids=["linear", "poly"],
)
def test_large_kernel_values_and_costs(formula, proven):
    # rounded to float32 these matrices are indefinite by more than the loss can mend
    rng = np.random.default_rng(17)
    X = 5 * rng.standard_normal((300, 4))
    y = np.where(X[:, 0] + 2 * rng.standard_normal(300) > 0, 1.0, -1.0)
    kernel = Kernel(formula, Dataset.from_any(X))
    result = solve(kernel, y, 1000.0, tol=1e-4)
    assert result.details["float64"]
    # the terms of a margin are so large that even float64 can prove only so much of their sum
    assert result.gap <= proven
    assert result.status == ("converged" if proven <= 1e-4 else "stalled")
    check_certificate(result, kernel.block(range(300), wide=True), y, 0.2, 0.5, 1000.0, rel=proven)
    many = Kernel(formula, Dataset.from_any(np.tile(X, (2, 1))))
    assert not solve(many, np.tile(y, 2), 1e-9).details["float64"]


def test_max_iter_time_limit_and_callback():
    X, y = noisy_circles(12, 2000)
    kernel = Kernel(KernelFormula("rbf", gamma=2.0), Dataset.from_any(X))
    short = solve(kernel, y, 100.0, tol=1e-9, max_iter=2)
    assert (short.status, short.iterations) == ("max_iter", 2)
    clock = Clock(30)
    timed = solve(kernel, y, 1000.0, tol=1e-15, over=clock.over)
    assert timed.status == "time_limit"
    assert timed.iterations <= 30 and clock.asked <= 33
    seen = []
    stopped = solve(
        kernel, y, 100.0, tol=1e-9, callback=lambda progress: seen.append(progress) or len(seen) == 3
    )
    assert stopped.status == "stopped"
    assert [progress.iteration for progress in seen] == [0, 1, 2]
    assert seen[-1].gap <= stopped.gap < seen[0].gap  # the result's includes rounding
    assert stopped.gap == pytest.approx(seen[-1].gap, rel=1e-6)


def test_time_limit_during_a_warm_start():
    X, y = noisy_circles(13, 1000)
    result = solve(
        Kernel(KernelFormula("rbf"), Dataset.from_any(X)),
        y,
        1.0,
        start=np.ones(1000),
        time_limit=0.0,
        tol=1e-12,
    )
    assert result.status == "time_limit"


INTERRUPTED = """
import os, signal, threading
import numpy as np
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from tests.solvers.kernel.test_working_set import noisy_circles, solve
X, y = noisy_circles(0, 4000)
kernel = Kernel(KernelFormula("rbf", gamma=2.0), Dataset.from_any(X))
begun = threading.Event()
def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=interrupt).start()
    solve(kernel, y, 1000.0, tol=1e-15, callback=lambda progress: begun.set())
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_is_answered():
    """At the next look at the clock; the test above counts them."""
    assert run_python(INTERRUPTED) == "interrupted\n"


def test_python_threads_go_on_while_it_solves():
    X, y = noisy_circles(14, 2000)
    kernel = Kernel(KernelFormula("rbf", gamma=2.0), Dataset.from_any(X))

    def enough(turns, seconds):
        return turns > 20 * seconds

    found = turns_during(lambda: solve(kernel, y, 100.0, tol=1e-3), enough)
    assert enough(*found), found


def shared_data(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path))
    return X.toarray(), y


@pytest.mark.slow
def test_svmguide1_reaches_the_accuracy_of_libodm():
    X, y = shared_data("svmguide1.libsvm")
    X_test, y_test = shared_data("svmguide1.t.libsvm")
    low, high = X.min(axis=0), X.max(axis=0)
    data, test = (Dataset.from_any((part - low) / (high - low)) for part in (X, X_test))
    labels = np.where(y == y.max(), 1.0, -1.0)
    formula = KernelFormula("rbf", gamma=16.0)
    C = 4096 / len(y)
    result = solve(Kernel(formula, data), labels, C / 0.9**2, theta=0.1, nu=0.3)
    assert result.status == "converged"
    support = np.flatnonzero(result.duals)
    scores = kernel_scores(formula, data.take(support), (result.duals * labels)[support], test)
    accuracy = np.mean((scores > 0) == (y_test == y.max())) * 100
    assert accuracy == pytest.approx(97.075, abs=0.1)
    on_training_rows = kernel_scores(formula, data.take(support), (result.duals * labels)[support], data)
    assert labels * on_training_rows == pytest.approx(result.margins, abs=1e-4)
