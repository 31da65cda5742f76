"""odm-train -b 1 and odm-predict -b 1: LIBSVM's format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import odmlib

from .tools import ROOT, WDBC, WDBC_TEST, files


def read_output(name: str):
    header, *lines = Path(name).read_text().splitlines()
    words = [line.split() for line in lines]
    return header, [word[0] for word in words], np.array([word[1:] for word in words], dtype=float)


@pytest.mark.parametrize(("data", "options"), [
    (WDBC, ""),
    (WDBC, "-t 0"),
    (ROOT / "data" / "iris.txt", ""),
    (ROOT / "data" / "wine.txt", "-t 0"),
])  # fmt: skip
def test_header_labels_and_probabilities(tools, data, options):
    assert tools.train("-q -b 1", options, data, "m").code == 0
    test = WDBC_TEST if data == WDBC else data
    outcome = tools.predict("-b 1", test, "m out")
    assert outcome.code == 0
    assert outcome.out == tools.predict(test, "m plain").out  # the accuracy
    model = odmlib.load_model("m")
    header, labels, p = read_output("out")
    assert header == "labels " + " ".join(f"{label:g}" for label in model.labels)
    assert labels == Path("plain").read_text().split()
    X, _ = odmlib.read_data(test)
    assert (p == model.predict_proba(X)).all()
    names = np.array(header.split()[1:])
    assert (names[p.argmax(axis=1)] == labels).all()


def test_form_is_svm_predicts(tools):
    """The same shape of file as LIBSVM's own program writes."""
    svmutil = pytest.importorskip("libsvm.svmutil")
    y, x = svmutil.svm_read_problem(str(ROOT / "data" / "iris.txt"))
    theirs = svmutil.svm_train(y, x, "-q -b 1")
    labels, _, p = svmutil.svm_predict(y, x, theirs, "-q -b 1")
    assert tools.train("-q -b 1", ROOT / "data" / "iris.txt", "m").code == 0
    assert tools.predict("-q -b 1", ROOT / "data" / "iris.txt", "m out").code == 0
    header, ours, p_ours = read_output("out")
    assert header.split() == ["labels", *map(str, theirs.get_labels())]
    assert np.shape(p) == p_ours.shape
    assert np.mean(np.array(ours, dtype=float) == labels) > 0.95
    assert np.abs(p_ours - p).mean() < 0.1


def test_a_model_without_probabilities_is_refused_before_anything_is_written(tools):
    tools.train("-q", WDBC, "m")
    outcome = tools.predict("-b 1", WDBC_TEST, "m out")
    assert outcome == (
        1,
        "",
        "odm-predict: the model holds no probabilities; train it with odm-train -b 1\n",
    )
    assert files() == ["m"]


def test_training_says_where_they_come_from(tools):
    outcome = tools.train("-b 1 --json report.json", WDBC, "m")
    assert "odm-train: probabilities from leave-one-out: log-loss 0." in outcome.err
    outcome = tools.train("-b 1 -m 0.1", WDBC, "m")
    assert "odm-train: probabilities from 5-fold cross-validation: log-loss 0." in outcome.err
    assert tools.predict("-b 1 -q", WDBC_TEST, "m out").code == 0


def test_cross_validation_with_b_is_the_same(tools):
    assert tools.train("-q -v 3 -b 1", WDBC).out == tools.train("-q -v 3", WDBC).out


def test_two_rows_leave_nothing_to_measure(tools):
    Path("d").write_text("1 1:1\n-1 1:-1\n")
    code, _, err = tools.train("-s kmomd -b 1 d m")
    assert code == 0 and "no row could be left out" in err, err
