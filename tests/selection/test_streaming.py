"""odmlib.train_stream against odmlib.train."""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import odmlib
from odmlib.data.files import open_output
from odmlib.data.row_store import CacheFormatError
from odmlib.errors import ConvergenceWarning, ParameterError
from odmlib.machines.training import make_settings
from odmlib.selection.streaming import stored_rows

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def blocks_of(X, y, size=50, weights=None):
    for first in range(0, X.shape[0], size):
        some = slice(first, first + size)
        yield (X[some], y[some]) if weights is None else (X[some], y[some], weights[some])


def noisy(n_rows=1500, n_features=12, n_classes=2, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features))
    scores = X @ random.normal(size=(n_features, n_classes)) + 2 * random.normal(size=(n_rows, n_classes))
    return X, scores.argmax(axis=1)


def check_same(streamed, trained):
    """Both certificates hold of the same objective, whatever code found them."""
    ours, theirs = streamed.report, trained.report
    assert ours["status"] == theirs["status"] == "converged"
    assert ours["dual"] <= theirs["primal"] + 1e-9 * abs(theirs["primal"])
    assert theirs["dual"] <= ours["primal"] + 1e-9 * abs(ours["primal"])
    assert ours["labels"] == theirs["labels"]
    assert ours["parameters"] == theirs["parameters"]
    assert os.listdir() == []


@pytest.mark.parametrize("machine", ["odm", "svm", "odml"])
@pytest.mark.parametrize("options", [{}, {"C": 30.0}, {"lambda_": 40.0, "bias": -1}], ids=str)
def test_the_objective_is_that_of_training_in_memory(machine, options):
    X, y = noisy()
    how = {"machine": machine, "tol": 1e-5} | options
    streamed = odmlib.train_stream(blocks_of(X, y), cache_mb=0.1, **how)
    trained = odmlib.train(X, y, kernel="linear", **how)
    check_same(streamed, trained)
    assert streamed.report["details"]["blocks"] > 10
    distance = streamed.decision_function(X) - trained.decision_function(X)
    assert np.abs(distance).max() < 0.02
    assert abs(streamed.report["margin"]["mean"] - trained.report["margin"]["mean"]) < 1e-2


@pytest.mark.parametrize("machine", ["odm", "svm", "odml"])
def test_several_classes(machine):
    X, y = noisy(n_classes=4)
    names = np.array(["a", "b", "c", "d"])[y]
    streamed = odmlib.train_stream(blocks_of(X, names), machine=machine, cache_mb=0.5)
    trained = odmlib.train(X, names, kernel="linear", machine=machine, multiclass="ovr")
    check_same(streamed, trained)
    assert len(streamed.report["tasks"]) == 4
    for one, other in zip(streamed.report["tasks"], trained.report["tasks"], strict=True):
        assert one["labels"][0] == other["labels"][0]
        assert abs(one["primal"] - other["primal"]) <= 2e-3 * abs(other["primal"])
    assert (streamed.predict(X) == trained.predict(X)).mean() > 0.98
    right = streamed.report["details"]["right"]
    assert right == (streamed.predict(X) == names).sum()


def test_weights_of_rows_and_classes():
    X, y = noisy()
    weights = np.random.default_rng(1).random(len(y))
    how = {"class_weight": {0: 3.0, 1: 0.5}, "tol": 1e-6}
    streamed = odmlib.train_stream(blocks_of(X, y, weights=weights), cache_mb=0.1, **how)
    check_same(streamed, odmlib.train(X, y, kernel="linear", sample_weight=weights, **how))
    balanced = odmlib.train_stream(blocks_of(X, y), cache_mb=0.1, class_weight="balanced")
    check_same(balanced, odmlib.train(X, y, kernel="linear", class_weight="balanced"))


def test_a_class_without_weight_is_refused_as_in_memory():
    X, y = noisy()
    for how in ({"class_weight": {0: 0.0}}, {"class_weight": {0: 0.0, 1: 0.0}}, {"class_weight": {5: 1.0}}):
        messages = []
        for train in (
            lambda how: odmlib.train_stream(blocks_of(X, y), cache_mb=0.1, **how),
            lambda how: odmlib.train(X, y, kernel="linear", **how),
        ):
            with pytest.raises(ParameterError) as caught:
                train(how)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def wide(n_classes=2):
    random = np.random.default_rng(0)
    X = csr_array(random.normal(size=(400, 3000)) * (random.random((400, 3000)) < 0.01))
    return X, random.integers(n_classes, size=400)


@pytest.mark.parametrize(("machine", "solver"), [("odm", "dcd"), ("svm", "dcd"), ("odml", "lbfgs")])
def test_wide_sparse_rows(machine, solver):
    X, y = wide()
    streamed = odmlib.train_stream(blocks_of(X, y), machine=machine, cache_mb=1)
    check_same(streamed, odmlib.train(X, y, kernel="linear", machine=machine))
    assert streamed.report["solver"] == solver


def test_several_classes_of_wide_rows():
    X, y = wide(n_classes=4)
    weights = np.arange(len(y)) % 7 / 4  # sums of these are exact
    how = {"class_weight": {0: 3.0}, "machine": "svm"}
    streamed = odmlib.train_stream(blocks_of(X, y, weights=weights), cache_mb=1, **how)
    trained = odmlib.train(X, y, kernel="linear", sample_weight=weights, multiclass="ovr", **how)
    check_same(streamed, trained)


def test_rows_sorted_by_class_are_no_trap():
    X, y = noisy()
    order = np.argsort(y, kind="stable")
    streamed = odmlib.train_stream(blocks_of(X[order], y[order]), cache_mb=0.1)
    check_same(streamed, odmlib.train(X[order], y[order], kernel="linear"))


def test_few_passes():
    X, y = noisy(20_000)
    model = odmlib.train_stream(blocks_of(X, y, 1000), cache_mb=1)
    assert model.report["details"]["blocks"] >= 20
    assert model.report["details"]["passes"] <= 6  # the last one is for the margins


def test_a_file_and_its_cache():
    source = str(ROOT / "data" / "wdbc.train.txt")
    os.mkdir("caches")
    first = odmlib.train_stream(source, C=0.01, cache_dir="caches", keep_cache=True)
    (name,) = os.listdir("caches")
    before = os.stat(f"caches/{name}").st_mtime_ns
    again = odmlib.train_stream(source, C=0.01, cache_dir="caches", keep_cache=True)
    assert os.stat(f"caches/{name}").st_mtime_ns == before
    assert again.to_bytes() == first.to_bytes()
    odmlib.train_stream(source, C=0.01, cache_dir="caches", zero_based=True)  # makes its own and removes it
    assert os.listdir("caches") == []


def test_limits_end_a_run_with_what_there_is():
    X, y = noisy()
    with pytest.warns(ConvergenceWarning, match="limit of 1 iterations"):
        model = odmlib.train_stream(blocks_of(X, y), cache_mb=0.1, tol=1e-12, max_iter=1)
    assert 1e-12 < model.report["gap"] < np.inf
    with pytest.warns(ConvergenceWarning, match="callback asked to stop"):
        odmlib.train_stream(blocks_of(X, y), cache_mb=0.1, tol=1e-12, callback=lambda seen: True)
    assert os.listdir() == []


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_error_in_the_callback_comes_out_and_nothing_stays(n_classes):
    X, y = noisy(n_classes=n_classes)

    def fail(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        odmlib.train_stream(blocks_of(X, y), cache_mb=0.5, callback=fail)
    assert os.listdir() == []


@pytest.mark.parametrize(
    "options, message",
    [
        ({"machine": "mcodm"}, "a stream trains machines odm, svm, odml, found mcodm"),
        ({"kernel": "rbf"}, "a stream needs kernel linear, found rbf"),
        ({"solver": "dcd"}, "a stream chooses its solver, found dcd"),
        ({"multiclass": "ovo"}, "one-vs-rest"),
        ({"probability": True}, "probability is not available for a stream"),
        ({"cache_dir": "nowhere"}, "the folder of the cache does not exist: nowhere"),
        ({"features": 3}, "block 1 has 12 features, expected 3"),
    ],
)
def test_what_a_stream_cannot_do(options, message):
    with pytest.raises(ParameterError, match=message):
        odmlib.train_stream(blocks_of(*noisy()), **options)
    assert os.listdir() == []


def test_bad_blocks():
    X, y = noisy(20)
    for source, message in (
        (5, "source must be the name of a file or an iterable of blocks"),
        ([X], "block 1 of the source must be"),
        ([(X, y), (X[:, :4], y)], "block 2 has 4 features, expected 12"),
        ([(X, y[:5])], "block 1 has 20 rows but 5 labels"),
        ([(X, np.zeros(20))], "all rows have the same label"),
        ([(X * np.nan, y)], "X of block 1 holds NaN"),
        ([], "no rows found"),
    ):
        with pytest.raises(ParameterError, match=message):
            odmlib.train_stream(source)
    assert os.listdir() == []


@pytest.mark.parametrize("keep", [False, True])
def test_an_interrupt_as_the_cache_gets_its_name_leaves_no_cache(monkeypatch, keep):
    odmlib.write_data("data", *noisy(n_rows=100))

    @contextmanager
    def interrupted(path):
        with open_output(path) as stream:
            yield stream
        raise KeyboardInterrupt

    monkeypatch.setattr("odmlib.data.row_store.open_output", interrupted)
    with pytest.raises(KeyboardInterrupt):
        odmlib.train_stream("data", keep_cache=keep)
    assert len(os.listdir()) == 1 + keep


CACHING = ("selection/streaming.py", "data/row_store.py", "data/files.py")


def interrupted_at(n, keep):
    """Whether Ctrl-C came, at the n-th line of what puts the rows of "data" into a cache and removes it."""
    lines = 0

    def follow(frame, event, argument):
        def count(frame, event, argument):
            nonlocal lines
            lines += event == "line"
            if event == "line" and lines == n:
                raise KeyboardInterrupt
            return count

        return count if frame.f_code.co_filename.endswith(CACHING) else None

    settings, before = make_settings({"kernel": "linear", "cache_mb": 1.0, "threads": 1}), sys.gettrace()
    try:
        sys.settrace(follow)
        with stored_rows("data", settings, ".", keep):
            pass
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # files opened and not yet held
@pytest.mark.parametrize("found", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_an_interrupt_at_any_line_leaves_a_cache_only_if_it_is_to_be_kept(keep, found):
    odmlib.write_data("data", *noisy(n_rows=20, n_features=2))
    before, n = set(threading.enumerate()), 1
    caches: list[str] = []
    while True:
        if found and not caches:
            interrupted_at(0, keep=True)
        came = interrupted_at(n, keep)
        caches = [name for name in os.listdir() if name != "data"]
        most = keep or found  # a cache that was found stays where the run has not come to hold it
        assert len(caches) <= most and all(name.endswith(".odmrows") for name in caches), n
        if not came:
            break
        if not found:
            for name in caches:
                os.unlink(name)
        n += 1
    gc.collect()  # here, where the warning about files is known, and not in some later test
    assert n > 100
    assert len(caches) == keep
    for thread in set(threading.enumerate()) - before:  # where the interrupt came as it was waited for
        thread.join(300)
        assert not thread.is_alive()


def test_a_cache_of_blocks_has_no_name_while_it_is_used():
    """A kill leaves nothing that no other run could use."""
    X, y = noisy(n_rows=100)
    seen = []
    odmlib.train_stream(blocks_of(X, y), callback=lambda progress: seen.append(os.listdir()))
    assert seen and all(names == [] for names in seen)


def test_a_damaged_cache_stays_for_who_is_told_to_delete_it():
    odmlib.write_data("data", *noisy(n_rows=200))
    odmlib.train_stream("data", cache_mb=1, keep_cache=True)
    (name,) = set(os.listdir()) - {"data"}
    whole = Path(name).read_bytes()
    for damaged in (whole[:-1], whole[:5000], b"odmrows0" + whole[8:], whole[:200] + b"x" + whole[201:]):
        Path(name).write_bytes(damaged)
        with pytest.raises(CacheFormatError, match="delete the file and run again"):
            odmlib.train_stream("data", cache_mb=1)
        assert Path(name).read_bytes() == damaged
    Path(name).write_bytes(whole)
    odmlib.train_stream("data", cache_mb=1)
    assert os.listdir() == ["data"]


def test_a_block_may_have_no_weight_at_all():
    X, y = noisy(200)
    weights = np.where(np.arange(200) < 50, 0.0, 1.0)
    streamed = odmlib.train_stream(blocks_of(X, y, 50, weights), machine="odm", tol=1e-6)
    trained = odmlib.train(X[50:], y[50:], kernel="linear", tol=1e-6)
    assert abs(streamed.report["primal"] - trained.report["primal"]) <= 1e-6 * trained.report["primal"]
    with pytest.raises(ParameterError, match="weight"):
        odmlib.train_stream(blocks_of(X, y, 50, np.zeros(200)), machine="odm")
