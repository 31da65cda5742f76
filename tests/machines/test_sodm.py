"""SODM: the oracles, the rescaled merge, and the same answer as ODM however it is partitioned."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.names import PARTITIONERS
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.distributed.levels import TUNING, solve_by_levels
from odmlib.solvers.distributed.partitions import Partitions, Plan, make_partitions
from odmlib.solvers.kernel.working_set import solve_working_set
from odmlib.solvers.problem import KernelProblem

FIVE = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0], [2, 0]])
FIVE_SIGNS = np.array([1.0, 1, -1, -1, -1])
FIVE_DUALS = [3.068932159105, 3.166560374108, 3.159514077978, 2.939337857630, 0.307363659272]
FIVE_MARGINS = [0.493106784089, 0.483343962589, 0.484048592202, 0.506066214237, 0.769263634073]


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(8)
    X = random.normal(size=(700, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.4 * random.normal(size=700) > 0.3, 1, -1)
    return X, y


def level_problem(X, signs, lam, nu=0.5, theta=0.2, gamma=0.5, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    costs = lam / weights.sum() * weights / (1 - theta) ** 2
    kernel = Kernel(KernelFormula("rbf", gamma=gamma), Dataset.from_any(X))
    return KernelProblem(kernel, signs, costs, BandLoss(theta, nu))


def solve(problem, part, tol=1e-3, weights=None, **details):
    """By levels, with the partitions given by hand."""
    weights = np.ones(len(problem.y)) if weights is None else weights
    resources = Resources(2, 50 << 20)
    return solve_by_levels(problem, partitioned(part), Control(tol), resources, weights=weights, **details)


def partitioned(part):
    """Partitions given by hand: part mod 2^level."""
    depth = int(np.log2(part.max() + 1))
    return Partitions(Plan(2, depth), lambda level: part % 2**level, 0)


# ------------------------------------------------------------------------------------------ oracles


@pytest.mark.parametrize(
    ("lam", "theta", "margins", "primal"),
    [
        (1, 0.2, [0.542986425339, 1.085972850679, 0.271493212670], 0.327300150830),
        (8, 0.1, [0.720191071100, 1.440382142201, 0.360095535550], 1.516154323634),
    ],
)
def test_oracle_linear(lam, theta, margins, primal):
    X, y = np.array([[1.0], [2.0], [-0.5]]), [1, 1, -1]
    given = {"lambda_": lam, "nu": 0.5, "theta": theta, "bias": -1, "tol": 1e-12}
    model = odmlib.train(X, y, machine="sodm", kernel="linear", **given)
    assert model.report["primal"] == pytest.approx(primal, abs=1e-11)
    assert model.training_margins == pytest.approx(margins, abs=1e-9)
    same = odmlib.train(X @ X.T, y, machine="sodm", kernel="precomputed", **given)
    assert same.report["primal"] == pytest.approx(primal, abs=1e-9)


def test_oracle_rbf():
    model = odmlib.train(FIVE, FIVE_SIGNS, machine="sodm", gamma=0.5, lambda_=16, tol=1e-12)
    assert model.report["primal"] == pytest.approx(5.056683251237, abs=1e-6)  # kernel values are float32
    assert model.function.coefficients[:, 0] * FIVE_SIGNS == pytest.approx(FIVE_DUALS, rel=1e-5)
    assert model.training_margins == pytest.approx(FIVE_MARGINS, rel=1e-5)


def test_two_copies_merge_at_the_optimum():
    """Repeated data: duals halved, the same margins; the merged problem needs no step at all."""
    X, signs = np.concatenate([FIVE, FIVE]), np.concatenate([FIVE_SIGNS, FIVE_SIGNS])
    problem = level_problem(X, signs, 16)
    result = solve(problem, np.repeat([0, 1], 5), TUNING.local_tol)
    assert result.iterations == 0
    assert result.levels[0]["iterations"] > 0
    exact = solve_working_set(problem, Control(1e-13), Resources(cache_bytes=1 << 20))
    assert exact.duals == pytest.approx(np.tile(FIVE_DUALS, 2) / 2, rel=1e-5)
    assert exact.margins == pytest.approx(np.tile(FIVE_MARGINS, 2), rel=1e-5)


# ---------------------------------------------------------------------------------------- invariants


@pytest.mark.parametrize("partition", PARTITIONERS)
def test_every_partitioner_ends_at_the_exact_machine(data, partition):
    X, y = data
    exact = odmlib.train(X, y, gamma=0.5, C=3, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
        model = odmlib.train(
            X, y, machine="sodm", gamma=0.5, C=3, tol=1e-6, partition=partition, partitions=8
        )
    report = model.report
    assert [record["partitions"] for record in report["levels"]] == [8, 4, 2, 1]
    assert report["primal"] >= exact.report["dual"] - 1e-9
    # what the gap promises holds for the objective, known from the exact machine
    assert report["primal"] - exact.report["primal"] <= report["gap"] * max(1, report["primal"])
    if partition == "cascade":
        assert report["status"] in ("early", "converged")
        assert report["primal"] <= 1.1 * exact.report["primal"]  # rows once dropped are gone
    else:
        assert report["status"] == "converged" and report["gap"] <= 1e-6
        assert model.decision_function(X) == pytest.approx(exact.decision_function(X), abs=5e-3)


def test_one_partition_is_plain_odm(data):
    X, y = data
    one = odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=1)
    plain = odmlib.train(X, y, machine="odm", gamma=0.5)
    assert (one.function.coefficients == plain.function.coefficients).all()
    assert one.report["levels"][0]["iterations"] == plain.report["iterations"]


def test_average_model_is_the_average_of_the_partitions_machines(data):
    """sum_k q_k f_k, the f_k trained by themselves with lambda of the whole, and the gap is that of ODM."""
    X, y = data
    signs = y.astype(float)
    weights = np.random.default_rng(2).uniform(0.5, 2, len(y))
    problem = level_problem(X, signs, lam=2000, weights=weights)
    part = np.arange(len(y)) % 4
    result = solve(problem, part, weights=weights, stop_level=2)
    assert result.status == "early" and result.levels[-1]["full_gap"] == result.gap
    scores = np.zeros(len(y))
    for k in range(4):
        inside = part == k
        own = odmlib.train(
            X[inside],
            y[inside],
            gamma=0.5,
            lambda_=2000,
            sample_weight=weights[inside],
            tol=1e-2,
            threads=1,
        )
        scores += weights[inside].sum() / weights.sum() * own.decision_function(X)
    assert result.margins == pytest.approx(signs * scores, abs=1e-4)
    # the certificate, computed here from nothing but the duals
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    a, c, theta, nu = result.duals, problem.costs, 0.2, 0.5
    z = signs * (K @ (signs * a))
    losses = c * (np.maximum(0, 1 - theta - z) ** 2 + nu * np.maximum(0, z - 1 - theta) ** 2)
    conjugates = -a + theta * np.abs(a) + a * a / (4 * c * np.where(a > 0, 1, nu))
    primal, dual = 0.5 * a @ z + losses.sum(), -0.5 * a @ z - conjugates.sum()
    assert result.primal == pytest.approx(primal, rel=1e-5)
    assert result.gap == pytest.approx((primal - dual) / primal, rel=1e-3)
    assert primal >= dual


def test_rescaled_merge_saves_most_of_the_work(data):
    """The average is close to the whole problem's solution; the sum, published, is far away."""
    X, y = data
    problem = level_problem(X, y.astype(float), lam=2000)
    part = np.arange(len(y)) % 2
    stopped = solve(problem, part, stop_level=1)
    look = problem, Control(1e-3, 0), Resources(cache_bytes=50 << 20)
    summed = solve_working_set(*look, WarmStart(duals=2 * stopped.duals))
    cold = solve_working_set(*look)
    assert stopped.gap < 0.3 * min(summed.gap, cold.gap)


def test_gap_falls_from_level_to_level(data):
    X, y = data
    gaps = []
    for level in (3, 2, 1):
        with pytest.warns(
            odmlib.ConvergenceWarning, match=f"training ended at level {level}, as asked, with"
        ):
            model = odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=8, stop_level=level)
        assert model.report["status"] == "early"
        assert model.report["levels"][-1]["level"] == level
        gaps.append(model.report["gap"])
    assert gaps[0] > gaps[1] > gaps[2] > 1e-3


def test_same_model_for_any_number_of_threads(data):
    X, y = data
    one, three = (
        odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=4, threads=threads) for threads in (1, 3)
    )
    assert (one.function.coefficients == three.function.coefficients).all()


def test_many_classes_and_small_memory(data):
    X, _ = data
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.5, 0.5])
    for multiclass in ("ovo", "ovr"):
        model = odmlib.train(
            X, y, machine="sodm", gamma=0.5, partitions=4, multiclass=multiclass, cache_mb=0.5, tol=1e-4
        )
        exact = odmlib.train(X, y, gamma=0.5, multiclass=multiclass, tol=1e-4)
        assert model.report["primal"] == pytest.approx(exact.report["primal"], rel=2e-4)
        assert (model.predict(X) == exact.predict(X)).mean() > 0.99
        assert all(len(task["levels"]) == 3 for task in model.report["tasks"])


def test_starts_from_a_model(data):
    X, y = data
    first = odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=4)
    again = odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=4, init=first)
    assert again.report["status"] == "converged"
    assert len(again.report["levels"]) == 1 and again.report["iterations"] <= first.report["iterations"]
    with pytest.warns(odmlib.ConvergenceWarning, match="training ended at level 1"):
        odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=4, init=first, stop_level=1, tol=1e-6)


def test_progress_names_levels_and_the_callback_stops(data):
    X, y = data
    told = []
    odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=4, callback=lambda p: told.append(p))
    stages = [progress.stage for progress in told]
    assert stages[0].startswith("level 2, partition") and stages[-1] == ""
    with pytest.warns(odmlib.ConvergenceWarning, match="callback asked to stop"):
        model = odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=4, callback=lambda p: True)
    assert model.report["status"] == "stopped"


def test_limits(data):
    X, y = data
    with pytest.warns(odmlib.ConvergenceWarning, match="time limit"):
        model = odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=4, time_limit=1e-9)
    assert np.isfinite(model.report["gap"])
    with pytest.warns(odmlib.ConvergenceWarning, match="iterations"):
        model = odmlib.train(X, y, machine="sodm", gamma=0.5, C=100, tol=1e-9, partitions=4, max_iter=1)
    assert model.report["levels"][-1]["iterations"] == 1


def test_bad_wishes_in_one_line(data):
    X, y = data
    cases = {
        r"stop_level must be at most 2": {"partitions": 4, "stop_level": 3},
        "partitions .* are too many": {"levels": 12},
        "dip needs the rows themselves": {"kernel": "precomputed", "partition": "dip", "partitions": 2},
        r"levels is for machine sodm": {"machine": "odm", "levels": 2},
    }
    for message, wishes in cases.items():
        X, y = (X[:40] @ X[:40].T, y[:40]) if "kernel" in wishes else data
        with pytest.raises(odmlib.ParameterError, match=message):
            odmlib.train(X, y, **({"machine": "sodm"} | wishes))


# -------------------------------------------------------------------- stop at a gap, rows passed up, linear


def test_stops_at_the_first_level_that_has_converged(data):
    X, y = data
    given = {"machine": "sodm", "gamma": 0.5, "levels": 3}
    tol = 0.13
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stopped = [odmlib.train(X, y, stop_level=level, **given) for level in (3, 2, 1)]
    gaps = [model.report["gap"] for model in stopped]
    first = next(level for level, gap in zip((3, 2, 1), gaps, strict=True) if gap <= tol)
    assert first < 3  # the average of the first level is not good enough
    model = odmlib.train(X, y, stop_level="auto", tol=tol, **given)
    levels = model.report["levels"]
    assert model.report["status"] == "converged" and model.report["gap"] == gaps[3 - first]
    assert levels[-1]["level"] == first
    assert all(record["full_gap"] > tol for record in levels[:-1])
    exact = odmlib.train(X, y, stop_level="auto", tol=1e-5, **given)  # no average is as good as that
    assert exact.report["levels"][-1]["level"] == 0 and exact.report["gap"] <= 1e-5


def test_all_rows_are_passed_up(data):
    X, y = data
    given = {"machine": "sodm", "gamma": 0.5, "levels": 2, "theta": 0.5}
    ours, published = (odmlib.train(X, y, pass_up=name, **given) for name in ("support", "all"))
    assert [level["rows"] for level in published.report["levels"]] == [700, 700, 700]
    assert ours.report["levels"][1]["rows"] < 700
    assert published.report["primal"] == pytest.approx(ours.report["primal"], rel=2e-3)


@pytest.mark.parametrize("partition", PARTITIONERS)
def test_linear_machines_by_levels(data, partition):
    """The same as with poly of degree 1, which is the linear kernel; the model has weights."""
    X, y = data
    given = {"machine": "sodm", "partition": partition, "levels": 2, "stop_level": 1, "C": 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linear = odmlib.train(X, y, kernel="linear", **given)
        poly = odmlib.train(X, y, kernel="poly", degree=1, gamma=1.0, **given)
    np.testing.assert_allclose(linear.decision_function(X), poly.decision_function(X), atol=1e-6)
    assert [one["level"] for one in linear.report["levels"]] == [2, 1]
    whole = odmlib.train(X, y, machine="sodm", kernel="linear", levels=2, C=0.1)
    exact = odmlib.train(X, y, kernel="linear", C=0.1)
    assert whole.report["primal"] == pytest.approx(exact.report["primal"], rel=2e-3)


@pytest.mark.parametrize(
    ("message", "wishes"),
    [
        ("auto has no meaning with partition dc", {"partition": "dc", "stop_level": "auto"}),
        ("all has no meaning with partition cascade", {"partition": "cascade", "pass_up": "all"}),
        ("whole number from 0 to 30 or 'auto'", {"stop_level": "never"}),
        ("levels has no meaning with kernel linear and solver newton",
         {"kernel": "linear", "solver": "newton", "levels": 2}),
        ("levels has no meaning with kernel linear and solver dsvrg",
         {"kernel": "linear", "solver": "dsvrg", "levels": 2}),
    ],
)  # fmt: skip
def test_wishes_that_contradict(data, message, wishes):
    with pytest.raises(odmlib.ParameterError, match=message):
        odmlib.train(*data, machine="sodm", **wishes)


# ------------------------------------------------------------------------------------------- regions


@pytest.mark.parametrize("stop_level", [1, 2])
def test_clusters_have_machines_of_their_own_and_rows_go_to_the_nearest(data, stop_level):
    X, y = data
    given = {"gamma": 0.5, "C": 2.0, "tol": 1e-5}
    model = odmlib.train(
        X, y, machine="sodm", partition="dc", levels=2, stop_level=stop_level, landmarks=20, **given
    )
    assert model.report["status"] == "converged"
    # the same by hand: features over the landmarks, clusters, centres, and plain ODM on each cluster
    kernel = Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X))
    found = make_partitions("dc", Plan(2, 2), kernel, y.astype(float), None, landmarks=20)
    clusters = np.unique(found.at(stop_level), return_inverse=True)[1]
    features = found.found.factor
    centres = np.array([features[clusters == k].mean(axis=0) for k in range(2**stop_level)])
    nearest = ((features[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    scores, primal = np.empty(len(y)), 0.0
    for k in range(2**stop_level):
        inside = clusters == k
        share = inside.mean()
        own = odmlib.train(X[inside], y[inside], gamma=0.5, C=2.0 / share, tol=1e-7)
        scores[nearest == k] = own.decision_function(X[nearest == k]) * (1 if own.labels[0] == 1 else -1)
        primal += share * own.report["primal"]
    scores *= 1 if model.labels[0] == 1 else -1
    assert model.decision_function(X) == pytest.approx(scores, abs=0.02)
    assert model.report["primal"] == pytest.approx(primal, rel=1e-5)
    assert model.report["levels"][-1]["full_gap"] == model.report["gap"] <= 1e-5
    assert model.report["details"]["regions"] == 2**stop_level
    assert model.training_margins == pytest.approx(model.margins(X, y), abs=1e-9)
    again = odmlib.load_model(model.to_bytes())
    assert again.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert (again.predict(X) == model.predict(X)).all() and again.n_outputs == 1


def test_what_regions_cannot_be(data):
    X, y = data
    wishes = {"machine": "sodm", "partition": "dc", "levels": 1, "stop_level": 1}
    with pytest.raises(odmlib.ParameterError, match="is for two classes, found 3"):
        odmlib.train(X, np.digitize(X[:, 0], [-0.5, 0.5]), **wishes)
    with pytest.raises(odmlib.ParameterError, match="needs the rows themselves"):
        odmlib.train(X[:40] @ X[:40].T, y[:40], kernel="precomputed", **wishes)
    model = odmlib.train(X, y, **wishes)
    with pytest.raises(odmlib.ParameterError, match="no form that other programs read"):
        odmlib.save_foreign_model(model, "unwritten")
    text = model.to_bytes()
    for wrong, message in ((b"regions 99", "offsets: expected 198 numbers"), (b"regions x", "regions")):
        with pytest.raises(odmlib.ModelFormatError, match=message):
            odmlib.load_model(text.replace(b"regions 2", wrong))
    with pytest.warns(odmlib.ConvergenceWarning, match="time limit"):
        model = odmlib.train(X, y, time_limit=1e-9, **wishes)
    assert np.isfinite(model.decision_function(X)).all()


# ------------------------------------------------------------------------------------------- Nystrom


def nystrom(X, y, **wishes):
    return odmlib.train(X, y, **({"machine": "sodm", "approx": "nystrom", "gamma": 0.5} | wishes))


def test_nystrom_objective_is_exact_for_its_function(data):
    """The objective is that of ODM at the function found: above the optimum, falling with the rank."""
    X, y = data
    exact = odmlib.train(X, y, gamma=0.5, C=3, tol=1e-6)
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    before = np.inf
    for rank in (5, 40, 200):
        model = nystrom(X, y, C=3, tol=1e-6, rank=rank)
        report = model.report
        assert report["status"] == "converged" and report["approximation"]["rank"] == rank
        assert model.n_support == rank
        beta = model.function.coefficients[:, 0]
        places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in model.function.vectors.to_dense()]
        z = y * (K[:, places] @ beta)
        losses = 3 / 0.64 * (np.maximum(0, 0.8 - z) ** 2 + 0.5 * np.maximum(0, z - 1.2) ** 2)
        primal = 0.5 * beta @ K[np.ix_(places, places)] @ beta + losses.sum()
        assert report["primal"] == pytest.approx(primal, rel=1e-6)
        assert model.training_margins == pytest.approx(z, abs=1e-6)
        assert exact.report["dual"] < primal < before
        before = primal
    assert before < 1.02 * exact.report["primal"]


def test_nystrom_of_full_rank_is_the_exact_machine():
    random = np.random.default_rng(3)
    X = random.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0.3 * random.normal(size=60), "a", "b")
    exact = odmlib.train(X, y, gamma=1.0, tol=1e-8)
    model = nystrom(X, y, gamma=1.0, tol=1e-8, rank=60)
    assert model.report["primal"] == pytest.approx(exact.report["primal"], rel=1e-6)
    assert model.decision_function(X) == pytest.approx(exact.decision_function(X), abs=1e-3)


def test_nystrom_many_classes_saves_and_loads(data, tmp_path):
    X, _ = data
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.5, 0.5])
    for multiclass in ("ovo", "ovr"):
        model = nystrom(X, y, rank=80, multiclass=multiclass)
        assert "tasks" in model.report and model.report["approximation"]["rank"] == 80
        model.save(tmp_path / "m")
        again = odmlib.load_model(tmp_path / "m")
        assert (again.decision_function(X) == model.decision_function(X)).all()
        assert (model.predict(X) == y).mean() > 0.95


def test_nystrom_starts_from_any_model(data):
    X, y = data
    exact = odmlib.train(X, y, gamma=0.5, tol=1e-5)
    model = nystrom(X, y, rank=100, init=exact)
    assert model.report["iterations"] <= nystrom(X, y, rank=100).report["iterations"]
    again = nystrom(X, y, rank=100, init=odmlib.train(X, y, kernel="linear"))
    assert again.report["primal"] == pytest.approx(model.report["primal"], rel=2e-3)


@pytest.mark.parametrize("solver", ["newton", "dcd", "svrg", "blocks"])
def test_nystrom_by_every_linear_solver(data, solver):
    X, y = data
    model = nystrom(X, y, rank=30, solver=solver)
    assert model.report["solver"] == f"nystrom+{solver}"
    assert model.report["primal"] == pytest.approx(
        nystrom(X, y, rank=30, tol=1e-6).report["primal"], rel=2e-3
    )


def test_nystrom_refuses_what_it_cannot_do():
    cases = {
        "for kernels rbf and poly, found sigmoid": {"kernel": "sigmoid"},
        "for kernels rbf and poly, found linear": {"kernel": "linear"},
        "found poly with coef0": {"kernel": "poly", "coef0": -1},
        r"levels has no meaning": {"levels": 2},
        "must be one of auto, newton, dcd, blocks, svrg for approx nystrom": {"solver": "working-set"},
    }
    for message, wishes in cases.items():
        with pytest.raises(odmlib.ParameterError, match=message):
            nystrom([[0.0], [1.0]], [1, 2], **wishes)
    with pytest.raises(odmlib.ParameterError, match=r"rank needs approx"):
        odmlib.train([[0.0], [1.0]], [1, 2], machine="sodm", rank=3)


# ------------------------------------------------------------------------- level 0 with a small cache


def test_rounds_on_active_rows_end_at_the_exact_machine(data):
    """Little cache, few support vectors: most rows are only looked at, and the result is that of ODM."""
    X, _ = data
    y = np.where(X[:, 0] > 0.1, 1, -1)  # easily told apart: many rows inside the band
    given = {"gamma": 0.1, "C": 0.3, "theta": 0.6, "cache_mb": 0.2, "tol": 1e-5}
    exact = odmlib.train(X, y, **given)
    told = []
    model = odmlib.train(X, y, machine="sodm", partitions=4, callback=told.append, **given)
    assert model.report["details"]["rounds"] >= 1
    assert model.report["status"] == "converged" and model.report["gap"] <= 1e-5
    assert model.report["primal"] == pytest.approx(exact.report["primal"], rel=1e-5)
    assert model.decision_function(X) == pytest.approx(exact.decision_function(X), abs=1e-2)
    rounds = [progress for progress in told if "rows" in progress.stage]
    assert rounds and all(progress.gap == np.inf for progress in rounds)
    assert f"of {len(y)} rows" in rounds[0].stage


def test_rounds_obey_limits(data):
    X, _ = data
    y = np.where(X[:, 0] > 0.1, 1, -1)
    given = {"machine": "sodm", "partitions": 4, "gamma": 0.1, "C": 0.3, "theta": 0.6, "cache_mb": 0.2}
    with pytest.warns(odmlib.ConvergenceWarning, match="iterations"):
        model = odmlib.train(X, y, tol=1e-9, max_iter=1, **given)
    assert np.isfinite(model.report["gap"]) and model.report["iterations"] <= 1
    with pytest.warns(odmlib.ConvergenceWarning, match="callback asked"):
        model = odmlib.train(X, y, tol=1e-9, callback=lambda progress: "rows" in progress.stage, **given)
    # the point is the last one that was seen with all rows: its certificate is true
    assert model.report["primal"] - model.report["dual"] >= 0 and np.isfinite(model.report["gap"])


def test_stopping_early_with_many_classes_says_so(data):
    X, _ = data
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    with pytest.warns(odmlib.ConvergenceWarning, match="in 3 of 3 tasks training ended at level 1, as asked"):
        model = odmlib.train(X, y, machine="sodm", gamma=0.5, partitions=2, stop_level=1)
    assert model.report["status"] == "early"
