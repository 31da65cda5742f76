"""The benchmarks' own arithmetic; nothing here is timed."""

import importlib
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import benchmarks
from benchmarks import _common, end_to_end, limits, linear, prediction, scaling
from benchmarks.__main__ import MINUTES, STUDIES, machine
from odmlib.data.problem import Problem

MODULES = sorted(path.stem for path in Path(benchmarks.__file__).parent.glob("*.py") if "__" not in path.stem)


@pytest.mark.parametrize("name", MODULES)
def test_module_imports(name):
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__
    assert name.startswith("_") or callable(module.main)


def test_every_benchmark_is_in_the_whole_run():
    assert sorted([*MINUTES, *STUDIES]) == [name for name in MODULES if not name.startswith("_")]
    assert sum(whole for whole, _ in MINUTES.values()) <= 30


def test_machine_names_every_peer():
    text = machine()
    for name in ("odmlib", "scikit-learn-intelex", "liblinear-multicore", "liblinear-tools", "libsvm-tools"):
        assert name in text


def test_median_time_takes_few_repeats_of_long_runs(monkeypatch):
    calls, lengths = [], iter([0.2, 5.0, 0.1, 0.3, 0.1, 10.0])
    monkeypatch.setattr(_common, "timed", lambda run: (next(lengths), run()))
    assert _common.median_time(lambda: calls.append(0) or len(calls), at_most=5) == (0.2, 1)
    assert len(calls) == 5
    assert _common.median_time(lambda: "long") == (10.0, "long")
    monkeypatch.undo()
    seconds, result = _common.timed(lambda: 7)
    assert seconds >= 0 and result == 7
    assert _common.repeats_for(10.0) == 1 < _common.repeats_for(1.0) < _common.repeats_for(0.01)


def test_bounded_returns_raises_and_ends():
    assert _common.bounded(lambda: 6 * 7, 60) == 42
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        _common.bounded(lambda: 1 // 0, 60)

    def second_comes_late():
        yield 0
        time.sleep(10_000)
        yield 1

    # the answer in time; a busy machine may need longer for it
    answers = (_common.bounded(second_comes_late, 0.5 * 4**k) for k in range(5))
    assert next(answer for answer in answers if answer is not None) == 0
    assert _common.bounded(lambda: time.sleep(10_000) or 1, 0.2) is None


def test_run_program_measures_memory_of_the_program_only(monkeypatch, tmp_path):
    ballast = bytearray(200 << 20)
    ballast[:: 1 << 12] = b"1" * len(ballast[:: 1 << 12])  # resident
    pipe, measure, measured = tmp_path / "pipe", _common.resident_bytes, []
    os.mkfifo(pipe)

    def while_it_waits(field, process):
        if not measured:
            with open(pipe, "w"):  # opens when the program does; it goes on when this is closed
                measured.append(measure(field, process))
        return max(measured[0], measure(field, process))

    monkeypatch.setattr(_common, "resident_bytes", while_it_waits)
    program = f"import time; open({str(pipe)!r}).read(); time.sleep(0.3)"
    answer = _common.run_program([sys.executable, "-c", program], 300)
    assert answer is not None
    seconds, peak = answer
    assert seconds >= 0.3
    assert 1 << 20 < peak < 100 << 20
    assert _common.run_program([sys.executable, "-c", "import time; time.sleep(10_000)"], 0.2) is None
    with pytest.raises(RuntimeError, match="some reason"):
        _common.run_program([sys.executable, "-c", "raise SystemExit('some reason')"], 60)


def test_ladder_takes_the_loosest_run_that_is_exact_enough():
    runs = [linear.Run(1.0, 110.0, "a"), linear.Run(2.0, 100.05, "b"), linear.Run(3.0, 100.0, "c")]
    assert linear.loosest(runs, 100.0, 1e-3).note == "b"
    assert linear.loosest(runs, 100.0, 1e-6).note == "c"
    assert linear.loosest(runs, 99.0, 1e-6) is None
    assert linear.excess(0.3, 0.2) == pytest.approx(0.1)  # below 1 the difference itself counts


def test_a_peer_that_was_ended_bounds_the_ratio(capsys):
    table = _common.Table("", *["x"] * 12)
    ours, theirs = linear.Run(2.0, 100.0, "newton 3"), {"peer": [linear.Run(5.0, 110.0, "0.01")]}
    assert linear.add_line(table, "odm", "a", 1.0, 1e-6, ours, theirs, 100.0, 20.0) == pytest.approx(0.1)
    text = capsys.readouterr().out
    assert "<0.1" in text and "peer > 20" in text
    failing = linear.Run(2.0, 101.0, "newton 3")
    assert linear.add_line(table, "odm", "a", 1.0, 1e-6, failing, theirs, 100.0, 20.0) == math.inf


def test_the_fastest_peer_is_compared_with(capsys):
    table = _common.Table("", *["x"] * 12)
    theirs = {"slow": [linear.Run(4.0, 100.0, "0.1")], "fast": [linear.Run(1.0, 100.0, "0.01")]}
    whole = [linear.Run(0.5, 110.0, "0.1")] * len(linear.LADDER)  # fast, and never there
    ours = linear.Run(2.0, 100.0, "newton 3")
    cell = (ours, theirs | {"never": whole}, 100.0, 20.0)
    assert linear.add_line(table, "svm", "a", 1.0, 1e-3, *cell) == pytest.approx(2.0)
    text = capsys.readouterr().out
    assert "fast 1 at 0.01" in text and "never not reached" in text
    theirs = {"never": whole}
    assert linear.add_line(table, "svm", "a", 1.0, 1e-3, ours, theirs, 100.0, 20.0) is None


def test_objectives_of_the_linear_peers():
    X, y = np.array([[1.0], [-2.0]]), np.array([1.0, -1.0])
    weights = np.array([0.5, 0.1])
    # margins 0.5 + 0.1 and -(-1 + 0.1); beyond the band of 0.2 around 1 lies the first, by 0.2
    expected = 0.5 * (0.25 + 0.01) + 3 / 0.64 * 0.2**2
    assert linear.objective("odm", X, y, weights, 3.0) == pytest.approx(expected)
    expected = 0.5 * (0.25 + 0.01) + 3 * (0.4 + 0.1)
    assert linear.objective("svm", X, y, weights, 3.0) == pytest.approx(expected)


@pytest.mark.parametrize("machine", ["odm", "svm"])
def test_linear_peers_solve_the_same_problem(machine):
    """All that are installed come to our objective, labels of either order first."""
    X, y = _common.generated_rows(300, 4)
    X, y = csr_array(X), y * y[0]
    for sign in (1, -1):
        problem = Problem.from_arrays(X, sign * y)
        ours, _ = linear.run_odmlib(problem, machine, 2.0, tol=1e-9)
        for name, prepare in linear.peers_of(machine, X, sign * y, 2.0).items():
            _, weights = prepare()(1e-7)
            value = linear.objective(machine, X, sign * y, weights, 2.0)
            accuracy = 0.05 if name == "Snap ML" else 2e-3 if machine == "svm" else 1e-6
            assert ours.objective * (1 - 1e-9) <= value <= ours.objective * (1 + accuracy), name


def test_table_lines_align():
    line = _common.table_line(["a9a", 0.123456, None, "x"], [6, 8, 5, 3])
    assert line == "a9a        0.123      -    x"


def test_verdicts(capsys):
    _common.verdict("work", [0.2, None, 0.6, 0.4], 0.5)
    _common.verdict("threads", [1.9, 1.8], 1.7, at_least=True)
    _common.verdict("nothing", [None], 1.0)
    _common.verdict("one", [3.0], None)
    assert capsys.readouterr().out.splitlines() == [
        "* work: median 0.4, worst 0.6 of 3, 2 of 3 within (target <= 0.5): not met",
        "* threads: median 1.85, worst 1.8 of 2, 2 of 2 within (target >= 1.7): met",
        "* nothing: not measured",
        "* one: 3",
    ]


def test_exponent_of_growth():
    assert scaling.exponent(4000, 16.0, 1000, 1.0) == pytest.approx(2.0)


def test_cached_bytes():
    report = {"rows": 1000, "details": {"cache_rows": 50, "float64": False}}
    assert limits.cached_bytes(report) == 200_000


def test_missing_set_is_said(capsys):
    assert _common.load_set("no such set") is None
    assert "no such set: skipped" in capsys.readouterr().out


def test_generated_file_reads_back(tmp_path):
    import odmlib

    path = tmp_path / "data"
    end_to_end.write_file(path, 1000, 1.0)
    X, y = odmlib.read_data(path)
    assert X.shape[0] == end_to_end.BLOCK_ROWS and set(y) == {-1.0, 1.0}
    lengths = np.sqrt((X.toarray() ** 2).sum(axis=1))
    assert lengths.mean() == pytest.approx(1.0, rel=0.01)


def test_libsvm_reads_the_written_expansion(tmp_path):
    svmutil = pytest.importorskip("libsvm.svmutil")
    from odmlib.data.dataset import Dataset
    from odmlib.kernels.expansion import kernel_scores
    from odmlib.kernels.formula import KernelFormula

    rng = np.random.default_rng(0)
    support, coefficients, test = rng.random((7, 3)), rng.standard_normal(7), rng.random((4, 3))
    prediction.write_libsvm_model(tmp_path / "model", support, coefficients, 0.5)
    model = svmutil.svm_load_model(str(tmp_path / "model"))
    expected = svmutil.svm_predict([0.0] * 4, test.tolist(), model, "-q")[0]
    formula = KernelFormula("rbf", gamma=0.5)
    scores = kernel_scores(formula, Dataset.from_any(support), coefficients, Dataset.from_any(test))
    assert scores == pytest.approx(expected, rel=1e-12)
