"""odmlib.train and Model: every kind of input, labels as given, weights, warnings, the report."""

from __future__ import annotations

import json
import math
import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse

import odmlib
from odmlib.model.functions import LinearFunction
from tests.reference_linear import random_problem, reference

LINEAR = {"kernel": "linear", "tol": 1e-12}


def weights_of(model):
    """Dense weights with the bias column's last, for the label labels[0]."""
    function = model.function
    assert isinstance(function, LinearFunction)
    dense = np.zeros(model.n_features + 1)
    dense[function.columns] = function.weights[:, 0]
    dense[-1] = function.bias_weights[0]
    return dense


@pytest.fixture(scope="module")
def problem():
    X, y = random_problem(n=80, d=6, seed=60)
    X = np.round(X, 2) * (np.random.default_rng(0).random(X.shape) < 0.7)
    return X, y


@pytest.fixture(scope="module")
def plain(problem):
    return odmlib.train(*problem, **LINEAR)


def test_train_states_the_right_problem(problem, plain):
    X, y = problem
    best = reference(X, y)  # the defaults: C = 1, nu = 0.5, theta = 0.2, bias = 1
    w = best.solve()
    np.testing.assert_allclose(weights_of(plain), w, atol=1e-6)
    np.testing.assert_allclose(plain.decision_function(X), best.X @ w, atol=1e-5)
    np.testing.assert_allclose(plain.margins(X, y), y * (best.X @ w), atol=1e-5)
    assert plain.report["primal"] == pytest.approx(best.primal(w), rel=1e-10)


# ---- kinds of input


def unsorted_csr(X):
    """The same matrix with the columns of every row in falling order."""
    rows = sparse.csr_array(X)
    for begin, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        rows.indices[begin:end] = rows.indices[begin:end][::-1].copy()
        rows.data[begin:end] = rows.data[begin:end][::-1].copy()
    rows.has_sorted_indices = False
    return rows


def repeated_coo(X):
    """Every entry given in two parts."""
    rows = sparse.coo_array(X)
    return sparse.coo_array(
        (np.tile(rows.data / 2, 2), (np.tile(rows.row, 2), np.tile(rows.col, 2))), shape=rows.shape
    )


def wide_indices(X):
    rows = sparse.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return rows


def read_only(X):
    copy = X.copy()
    copy.flags.writeable = False
    return copy


def contents(given):
    """The caller's arrays, byte for byte."""
    if isinstance(given, list):
        return repr(given)
    arrays = (
        [given]
        if isinstance(given, np.ndarray)
        else [
            getattr(given, name)
            for name in ("data", "indices", "indptr", "row", "col", "values")
            if isinstance(getattr(given, name, None), np.ndarray)
        ]
    )
    return [pickle.dumps(array) for array in arrays]


INPUTS = {
    "list": lambda X: X.tolist(),
    "F-order": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "read-only": read_only,
    "Dataset": odmlib.Dataset.from_any,
    "unsorted": unsorted_csr,
    "duplicates": repeated_coo,
    "int64 indices": wide_indices,
    "object": lambda X: X.astype(object),
    "big-endian": lambda X: X.astype(">f8"),
}
for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
    INPUTS[f"{form}_matrix"] = getattr(sparse, f"{form}_matrix")
    INPUTS[f"{form}_array"] = getattr(sparse, f"{form}_array")


@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix")
@pytest.mark.parametrize("name", INPUTS)
def test_every_kind_of_input_gives_the_same_model(problem, plain, name):
    X, y = problem
    given = INPUTS[name](X)
    before = contents(given)
    model = odmlib.train(given, y, **LINEAR)
    assert weights_of(model).tobytes() == weights_of(plain).tobytes()
    assert model.decision_function(given).tobytes() == plain.decision_function(X).tobytes()
    assert contents(given) == before  # the caller's data are left alone


def test_memory_mapped_input(problem, plain, tmp_path):
    X, y = problem
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert weights_of(odmlib.train(mapped, y, **LINEAR)).tobytes() == weights_of(plain).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.longdouble, np.int8, np.int64, np.uint16, bool])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_every_number_type(dtype, wrap):
    rng = np.random.default_rng(1)
    X = (rng.integers(0, 2, (50, 4)) * (1 if dtype is bool else 3)).astype(dtype)
    y = np.where(X[:, 0] + rng.random(50) > 1, 1, -1)
    one = odmlib.train(wrap(X), y, **LINEAR)
    other = odmlib.train(X.astype(np.float64), y, **LINEAR)
    assert weights_of(one).tobytes() == weights_of(other).tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_numbers_that_are_not_finite_are_refused(problem, plain, bad, wrap):
    X, y = problem
    X = X.copy()
    X[3, 2] = bad
    with pytest.raises(odmlib.ParameterError, match="NaN or infinity"):
        odmlib.train(wrap(X), y, **LINEAR)
    with pytest.raises(odmlib.ParameterError, match="NaN or infinity"):
        plain.predict(wrap(X))


def test_shapes_must_fit(problem, plain):
    X, y = problem
    with pytest.raises(odmlib.ParameterError, match="80 rows but y has 79"):
        odmlib.train(X, y[:-1], **LINEAR)
    with pytest.raises(odmlib.ParameterError, match="two dimensions"):
        odmlib.train(X[0], y, **LINEAR)
    with pytest.raises(odmlib.ParameterError, match="no rows"):
        odmlib.train(X[:0], y[:0], **LINEAR)
    with pytest.raises(odmlib.ParameterError, match="5 features per row, the model was trained with 6"):
        plain.predict(X[:, :5])
    with pytest.raises(odmlib.ParameterError, match="80 rows but y has 3"):
        plain.margins(X, y[:3])


def test_no_rows_to_predict(plain):
    assert plain.predict(np.zeros((0, 6))).shape == (0,)
    assert plain.decision_function(sparse.csr_array((0, 6))).shape == (0,)


def test_sparse_rows_of_another_width(problem, plain):
    X, _ = problem
    narrow = sparse.csr_array(X[:, :4])
    cut = np.hstack([X[:, :4], np.zeros((80, 2))])
    np.testing.assert_array_equal(plain.decision_function(narrow), plain.decision_function(cut))
    wide = sparse.csr_array(np.hstack([X, np.ones((80, 3))]))
    with pytest.warns(UserWarning, match="features above 6 were not seen"):
        scores = plain.decision_function(wide)
    np.testing.assert_array_equal(scores, plain.decision_function(X))
    empty_and_wide = sparse.csr_array(np.hstack([X, np.zeros((80, 3))]))
    np.testing.assert_array_equal(plain.decision_function(empty_and_wide), scores)  # no warning


def test_a_huge_feature_number_costs_no_memory():
    X = sparse.csr_array(
        ([1.0, -1.0, 2.0, -2.0], ([0, 1, 2, 3], [0, 5, 2**31 - 2, 2**31 - 2])), shape=(4, 2**31 - 1)
    )
    model = odmlib.train(X, [1, -1, 1, -1], **LINEAR)
    assert model.predict(X).tolist() == [1, -1, 1, -1]


# ---- labels

LABELS = {
    "zero and one": (0, 1),
    "two and five": (2, 5),
    "minus and plus": (-1, 1),
    "floats": (-1.0, 1.0),
    "fractions": (0.25, 0.75),
    "strings": ("no", "yes"),
    "bytes": (b"no", b"yes"),
    "bools": (False, True),
    "large": (2**60, 2**60 + 1),
    "unsigned": (np.uint8(3), np.uint8(200)),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_come_back_as_given(problem, plain, name):
    X, y = problem
    low, high = LABELS[name]
    given = np.array([high if sign > 0 else low for sign in y])
    model = odmlib.train(X, given, **LINEAR)
    predicted = model.predict(X)
    assert predicted.dtype == given.dtype
    assert set(predicted.tolist()) <= set(given.tolist())
    assert np.mean(predicted == given) == np.mean(plain.predict(X) == y)
    np.testing.assert_allclose(model.margins(X, given), plain.margins(X, y), atol=1e-8)


def test_object_labels(problem, plain):
    X, y = problem
    given = np.array([1 if sign > 0 else "other" for sign in y], dtype=object)
    predicted = odmlib.train(X, given, **LINEAR).predict(X)
    assert np.mean(predicted == given) == np.mean(plain.predict(X) == y)


def test_list_and_column_labels(problem, plain):
    X, y = problem
    for given in (y.tolist(), y[:, None]):
        assert weights_of(odmlib.train(X, given, **LINEAR)).tobytes() == weights_of(plain).tobytes()


def test_the_order_of_the_labels_does_not_change_the_machine(problem, plain):
    X, y = problem
    turned = odmlib.train(X[::-1], np.where(y > 0, "a", "b")[::-1], **LINEAR)
    sign = 1 if turned.labels[0] == "a" else -1
    np.testing.assert_allclose(sign * weights_of(turned), weights_of(plain), atol=1e-6)


def test_plus_one_is_positive(problem):
    X, y = problem
    model = odmlib.train(X[np.argsort(y)], np.sort(y), **LINEAR)
    assert model.labels.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1, 1], "same label"),
        ([1.0, np.nan, 2.0], "NaN"),
        ([1, None, 2], "given"),
        ([1 + 1j, 1, 2], "complex"),
    ],
)
def test_labels_that_cannot_be(labels, message):
    with pytest.raises(odmlib.ParameterError, match=message):
        odmlib.train(np.eye(3), labels, **LINEAR)


def test_margins_of_unknown_labels(problem, plain):
    X, _ = problem
    with pytest.raises(odmlib.ParameterError, match=r"y\[0\] is .*7.*does not know"):
        plain.margins(X, np.full(80, 7))
    with pytest.raises(odmlib.ParameterError, match="does not know"):
        plain.margins(X, ["spam"] * 80)


# ---- weights


def test_a_row_of_weight_two_is_two_rows(problem):
    """lambda = C m with m the sum of the row weights, so both spellings agree."""
    X, y = problem
    twice = np.concatenate([np.arange(80), np.arange(20)])
    weights = np.where(np.arange(80) < 20, 2.0, 1.0)
    for strength in ({"C": 0.3}, {"lambda_": 17.0}):
        one = odmlib.train(X[twice], y[twice], **LINEAR, **strength)
        other = odmlib.train(X, y, sample_weight=weights, **LINEAR, **strength)
        np.testing.assert_allclose(weights_of(one), weights_of(other), atol=1e-6)
        assert one.parameters["lambda"] == pytest.approx(other.parameters["lambda"])
        assert one.parameters["C"] == pytest.approx(other.parameters["C"])


def test_duplicating_every_row_at_the_same_lambda_changes_nothing(problem):
    X, y = problem
    one = odmlib.train(np.vstack([X, X]), np.concatenate([y, y]), lambda_=9.0, **LINEAR)
    np.testing.assert_allclose(
        weights_of(one), weights_of(odmlib.train(X, y, lambda_=9.0, **LINEAR)), atol=1e-6
    )


def test_class_weights_multiply_but_do_not_enter_m(problem):
    X, y = problem
    model = odmlib.train(X, y, class_weight={1: 3.0}, lambda_=8.0, **LINEAR)
    assert model.parameters["C"] == pytest.approx(8.0 / 80)
    expected = reference(X, y, C=0.1, weights=np.where(y > 0, 3.0, 1.0)).solve()
    np.testing.assert_allclose(weights_of(model), expected, atol=1e-6)


def test_balanced_classes(problem):
    X, y = problem
    counts = {label: int(np.sum(y == label)) for label in (1.0, -1.0)}
    weight = {label: 80 / (2 * count) for label, count in counts.items()}
    one = odmlib.train(X, y, class_weight="balanced", **LINEAR)
    other = odmlib.train(X, y, class_weight=weight, **LINEAR)
    np.testing.assert_allclose(weights_of(one), weights_of(other), atol=1e-9)


def test_rows_of_weight_zero_are_absent(problem):
    X, y = problem
    kept = np.arange(80) % 3 != 0
    one = odmlib.train(X, y, sample_weight=kept, **LINEAR)
    other = odmlib.train(X[kept], y[kept], **LINEAR)
    np.testing.assert_allclose(weights_of(one), weights_of(other), atol=1e-6)
    for key in ("mean", "variance", "min"):
        assert one.report["margin"][key] == pytest.approx(other.report["margin"][key], abs=1e-6)


@pytest.mark.parametrize(
    "weights", [{"sample_weight": np.zeros(80)}, {"class_weight": {1: 0.0, -1: 0.0}}], ids=["rows", "classes"]
)
def test_nothing_but_zero_weights(problem, weights):
    with pytest.raises(odmlib.ParameterError, match="weight"):
        odmlib.train(*problem, **weights, **LINEAR)


@pytest.mark.parametrize("weights", [[1.0] * 79, [-1.0] * 80, [np.nan] * 80, ["x"] * 80])
def test_weights_that_cannot_be(problem, weights):
    with pytest.raises(odmlib.ParameterError, match="weight"):
        odmlib.train(*problem, sample_weight=weights, **LINEAR)


# ---- options, outcome


def test_the_strength_has_two_spellings(problem):
    X, y = problem
    one, other = odmlib.train(X, y, C=0.5, **LINEAR), odmlib.train(X, y, lambda_=40.0, **LINEAR)
    assert weights_of(one).tobytes() == weights_of(other).tobytes()
    assert one.parameters == other.parameters


def test_bias(problem):
    X, y = problem
    assert odmlib.train(X, y, **LINEAR).function.bias == 1.0
    without = odmlib.train(X, y, bias=-1, **LINEAR)
    assert without.function.bias == without.function.bias_weights[0] == 0.0
    np.testing.assert_allclose(weights_of(without)[:-1], reference(X, y, bias=0.0).solve(), atol=1e-6)
    large = odmlib.train(X, y, bias=20.0, **LINEAR)
    expected = reference(X, y, bias=20.0).solve()
    np.testing.assert_allclose(weights_of(large), expected, atol=1e-6)
    np.testing.assert_allclose(large.decision_function(X), X @ expected[:-1] + 20 * expected[-1], atol=1e-5)


@pytest.mark.parametrize("solver", ["newton", "dcd", "blocks", "svrg"])
def test_forced_solvers_agree(problem, solver):
    X, y = problem
    model = odmlib.train(X, y, kernel="linear", C=0.02, tol=1e-12, solver=solver)
    assert model.report["solver"] == solver
    np.testing.assert_allclose(weights_of(model), reference(X, y, C=0.02).solve(), atol=2e-6)


def test_not_converged_is_a_warning_with_the_gap(problem):
    with pytest.warns(odmlib.ConvergenceWarning, match="limit of 1 iterations") as caught:
        model = odmlib.train(*problem, kernel="linear", C=100, tol=1e-15, max_iter=1)
    assert model.report["status"] == "max_iter" and model.report["iterations"] == 1
    assert f"{model.report['gap']:.2g}" in str(caught[0].message)
    assert "wanted 1e-15" in str(caught[0].message)
    assert caught[0].filename == __file__  # points at the caller


def test_a_stop_by_the_callback_is_a_warning_too(problem):
    with pytest.warns(odmlib.ConvergenceWarning, match="callback asked to stop"):
        odmlib.train(*problem, kernel="linear", C=100, tol=1e-15, callback=lambda progress: True)


def test_time_limit(problem):
    with pytest.warns(odmlib.ConvergenceWarning, match="time limit"):
        odmlib.train(*problem, kernel="linear", C=100, tol=1e-15, time_limit=1e-9)


def test_an_interrupt_comes_out(problem):
    def callback(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        odmlib.train(*problem, **LINEAR, callback=callback)


def test_report(problem, plain):
    report = plain.report
    assert json.loads(json.dumps(report)) == report
    assert report["version"] == odmlib.__version__
    assert (report["machine"], report["kernel"]) == ("odm", "linear")
    assert (report["rows"], report["features"]) == (80, 6)
    assert report["nonzeros"] == np.count_nonzero(problem[0])
    assert report["status"] == "converged" and report["gap"] <= 1e-12
    assert report["dual"] <= report["primal"]
    assert report["labels"] == [1, -1]
    assert report["support_vectors"] is None
    assert report["seconds"]["train"] > 0
    margins = plain.margins(*problem)
    assert report["margin"]["mean"] == pytest.approx(margins.mean(), rel=1e-9)
    assert report["margin"]["variance"] == pytest.approx(margins.var(), rel=1e-9)
    assert report["margin"]["min"] == pytest.approx(margins.min(), rel=1e-9)
    assert report["parameters"] == plain.parameters
    assert plain.parameters["lambda"] == plain.parameters["C"] * 80


def test_save_load_pickle(problem, plain, tmp_path):
    X, _ = problem
    plain.save(tmp_path / "model")
    for copy in (odmlib.load_model(tmp_path / "model"), pickle.loads(pickle.dumps(plain))):
        assert copy.decision_function(X).tobytes() == plain.decision_function(X).tobytes()
        assert copy.predict(X).tolist() == plain.predict(X).tolist()
        assert copy.labels.tolist() == plain.labels.tolist()


def test_same_seed_same_model_file(problem, tmp_path):
    for number, threads in enumerate((1, 1, 2)):
        model = odmlib.train(*problem, kernel="linear", solver="dcd", C=0.1, seed=5, threads=threads)
        model.save(tmp_path / str(number))
    contents = {(tmp_path / str(number)).read_bytes() for number in range(3)}
    assert len(contents) == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"C": 0}, odmlib.ParameterError, "C"),
        ({"C": 1, "lambda_": 1}, odmlib.ParameterError, "same thing"),
        ({"theta": 1.0}, odmlib.ParameterError, "theta"),
        ({"nu": -0.5}, odmlib.ParameterError, "nu"),
        ({"solver": "working-set"}, odmlib.ParameterError, "solver"),
        ({"threads": 0}, odmlib.ParameterError, "threads"),
        ({"thets": 0.1}, TypeError, "did you mean 'theta'"),
    ],
)
def test_options_that_cannot_be(problem, options, error, message):
    with pytest.raises(error, match=message):
        odmlib.train(*problem, kernel="linear", **options)


# ---- warm starts


@pytest.mark.parametrize("solver", ["auto", "newton", "dcd", "svrg"])
def test_init_starts_near_the_optimum(problem, solver):
    X, y = problem
    options = {"kernel": "linear", "C": 0.05, "tol": 1e-8, "solver": solver}
    cold = odmlib.train(X, y, **options)
    again = odmlib.train(X, y, init=cold, **options)
    # dcd's weights belong to its own dual variables, not quite to those that they suggest
    assert again.report["iterations"] <= (2 if solver == "dcd" else 0) < cold.report["iterations"]
    np.testing.assert_allclose(weights_of(again), weights_of(cold), atol=1e-4)
    options["C"] = 0.06
    cold, near = odmlib.train(X, y, **options), odmlib.train(X, y, init=cold, **options)
    assert near.report["iterations"] <= cold.report["iterations"]
    np.testing.assert_allclose(weights_of(near), weights_of(cold), atol=1e-3)


def test_init_from_a_file_and_from_labels_in_the_other_order(problem, tmp_path):
    X, y = problem
    names = np.where(y > 0, "a", "b")
    first = odmlib.train(X, names, **LINEAR)
    first.save(tmp_path / "model")
    order = np.argsort(names != first.labels[1], kind="stable")  # the other label first
    again = odmlib.train(X[order], names[order], init=tmp_path / "model", **LINEAR)
    assert again.labels.tolist() == first.labels.tolist()[::-1]
    assert again.report["iterations"] == 0
    np.testing.assert_allclose(weights_of(again), -weights_of(first), atol=1e-6)


def test_init_with_other_labels_is_refused(problem, plain):
    X, y = problem
    with pytest.raises(odmlib.ParameterError, match="model to start from has labels 1, -1"):
        odmlib.train(X, np.where(y > 0, "a", "b"), init=plain, **LINEAR)


def test_init_of_another_width(problem, plain):
    """Columns are matched by number, also where most of them are empty."""
    X, y = problem
    wide = sparse.hstack([sparse.csr_array(X), sparse.csr_array((80, 10**6))]).tocsr()
    again = odmlib.train(wide, y, init=plain, **LINEAR)
    assert again.report["iterations"] == 0
    far = sparse.hstack([sparse.csr_array((80, 10**6)), sparse.csr_array(X)]).tocsr()
    moved = odmlib.train(far, y, **LINEAR)
    assert odmlib.train(far, y, init=moved, **LINEAR).report["iterations"] == 0
    unrelated = odmlib.train(far, y, init=plain, **LINEAR)
    assert unrelated.report["status"] == "converged"
    assert odmlib.train(X, y, init=moved, **LINEAR).report["status"] == "converged"


def test_init_without_bias_for_a_machine_with_one(problem, plain):
    X, y = problem
    without = odmlib.train(X, y, bias=-1, **LINEAR)
    for init, bias in ((without, 1), (plain, -1), (plain, 5)):
        warm = odmlib.train(X, y, init=init, bias=bias, **LINEAR)
        cold = odmlib.train(X, y, bias=bias, **LINEAR)
        np.testing.assert_allclose(weights_of(warm), weights_of(cold), atol=1e-6)


# ---- against scikit-learn


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_the_squared_hinge_is_that_of_scikit_learn(C):
    svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is not installed")
    X, y = random_problem(n=300, d=5, seed=61)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = svm.LinearSVC(loss="squared_hinge", C=C, dual=False, tol=1e-10).fit(X, y)
    ours = odmlib.train(X, y, kernel="linear", nu=0.0, theta=0.0, C=C, tol=1e-12)
    np.testing.assert_allclose(weights_of(ours)[:-1], theirs.coef_[0], atol=1e-4)
    assert math.isclose(np.mean(ours.predict(X) == y), theirs.score(X, y))


def test_labels_that_look_like_targets():
    X = np.arange(60.0).reshape(30, 2)
    with pytest.warns(odmlib.DataWarning, match="targets of a regression: 30 different labels in 30 rows"):
        odmlib.train(X, X[:, 0] + 0.5, kernel="linear", multiclass="ovr")
    odmlib.train(X, X[:, 0] > 9, kernel="linear")  # warnings are errors here


def test_gamma_by_the_mean_distance():
    X = np.array([[0.0], [3.0], [6.0]])  # distances 3, 3 and 6
    model = odmlib.train(X, [1, 2, 2], gamma="mean")
    assert model.formula.gamma == pytest.approx(1 / (2 * 4**2))
    assert odmlib.train(X * 0, [1, 2, 2], gamma="mean").formula.gamma == 1
