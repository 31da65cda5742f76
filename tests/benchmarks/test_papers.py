"""The studies of the papers: how results are kept, compared and shown; one cell of each kind is run."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from benchmarks import data
from benchmarks.papers import _study
from benchmarks.papers.__main__ import main
from benchmarks.papers.studies import STUDIES


def numbers(name, repeat, method, quick):
    return {"accuracy": {"A": 0.7, "B": 0.8, "C": 0.7}[method] + 0.01 * np.sin(repeat + len(method))}


TABLE = _study.Study("some.table1", "a table", ("iris", "nowhere"), ("A", "B", "C"), numbers, 6, 3, 1.0,
                     against="A", paper={"iris": {"B": 0.9}})  # fmt: skip


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(data, "is_here", lambda name: name != "nowhere")


def test_a_run_goes_on_where_it_stopped(tmp_path, here):
    calls = []

    def run(*cell):
        calls.append(cell)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return numbers(*cell)

    study, said = dataclasses.replace(TABLE, run=run), []
    with pytest.raises(KeyboardInterrupt):
        _study.run_study(study, tmp_path, False, said.append)
    with (tmp_path / "some.table1.csv").open("a") as out:
        out.write("iris,1,B,accu")  # killed while writing
    results = _study.run_study(study, tmp_path, False, said.append)
    assert len(calls) == 19 and len(results) == 18  # only the cell that did not end is run twice
    assert calls[4] == calls[5]
    assert any(line.startswith("nowhere: left out") for line in said)
    assert results == _study.run_study(study, tmp_path, False, said.append)
    assert len(calls) == 19
    quick = _study.run_study(study, tmp_path, True, said.append)
    assert len(quick) == 9  # in a file of its own


def test_t_tests_and_counts(tmp_path, here):
    results = _study.run_study(TABLE, tmp_path, False, lambda line: None)
    text = _study.page(TABLE, results, False, tmp_path)
    line = next(line for line in text.splitlines() if line.startswith("| iris"))
    assert " • [0.9]" in line and line.count("•") == 1 and "∘" not in line
    assert "| win/tie/loss against A |  | 1/0/0 | 0/1/0 |" in text
    assert "Not run: nowhere." in text
    worse = dataclasses.replace(TABLE, smaller_is_better=True)
    assert "0/0/1" in _study.page(worse, results, False, tmp_path)


def test_paired_t_test():
    from scipy.stats import ttest_1samp

    random = np.random.default_rng(0)
    seen = set()
    for shift in (0.0, 0.3, -0.3, 1.0):
        ours, theirs = random.normal(shift, 1, 20), random.normal(0, 1, 20)
        found = _study.compared(dict(enumerate(ours)), dict(enumerate(theirs)))
        pvalue = ttest_1samp(ours - theirs, 0).pvalue
        assert found == (np.sign((ours - theirs).mean()) if pvalue < 0.05 else 0)
        seen.add(found)
    assert len(seen) > 1
    assert _study.compared({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}) == 0
    three = {0: 2.0, 1: 3.0, 2: 5.0}
    assert _study.compared(three, {0: 1.0, 1: 2.0, 2: 4.0}) == 1  # the same difference each time
    assert _study.compared(three, {0: 1.0, 1: 2.0}) == 0


def test_a_figure_has_a_picture(tmp_path, here):
    def curve(name, repeat, method, quick):
        return {str(x): float(x + repeat) for x in (1, 2, 3)}

    study = _study.Study("some.figure1", "a figure", ("iris",), ("A", "B"), curve, 2, 1, 1.0, axes=("x", "y"))
    results = _study.run_study(study, tmp_path, False, lambda line: None)
    text = _study.page(study, results, False, tmp_path)
    assert "| 2 | 2.5 | 2.5 |" in text
    assert (tmp_path / "some.figure1.svg").read_text().startswith("<?xml")
    assert "![a figure](some.figure1.svg)" in text


def test_list_and_mistakes(capsys, tmp_path):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in STUDIES)
    (tmp_path / "a file").touch()
    for words, fault in (
        (["odm.tabel3"], "no study 'odm.tabel3'; did you mean odm.table3?"),
        (["nonsense"], "no study 'nonsense'; without a name all are listed"),
        (["sodm.figure2.spark", "--out", str(tmp_path)], "needs a Spark master"),
        (["odm.table2", "--sets", "nowhere"], "no set 'nowhere' in odm.table2"),
        (["odm.table2", "--sets", "huose"], "no set 'huose' in odm.table2; did you mean house?"),
        (["--sets", "house"], "which study?"),
        (["--quick"], "which study?"),
        (["odm.table2", "--repeats", "0"], "--repeats must be at least 1, found 0"),
        (["odm.figure1", "--out", str(tmp_path / "a file")], "is not a folder"),
        (["odm.figure1", "--bogus"], "unrecognized arguments: --bogus"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        err = capsys.readouterr().err
        assert ended.value.code == 2 and fault in err and err.count("\n") == 1


def test_a_study_of_which_nothing_is_here(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "is_here", lambda name: False)
    assert main(["kmomd.figure2", "--out", str(tmp_path)]) == 1
    assert "kmomd.figure2: none of its sets is here" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.md"))
    assert main(["--all", "--quick", "--sets", "colic", "--out", str(tmp_path)]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "none of its sets" in line]
    assert len(said) == 2  # colic belongs to Tables 2 and 3 of ODM; the other studies are not asked for


def test_ctrl_c_says_that_the_run_goes_on(capsys, tmp_path, here, monkeypatch):
    def run(*cell):
        raise KeyboardInterrupt

    monkeypatch.setitem(STUDIES, "some.table1", dataclasses.replace(TABLE, run=run))
    assert main(["some.table1", "--out", str(tmp_path)]) == 130
    assert "the same command goes on from here" in capsys.readouterr().err


def test_studies_are_sound():
    for name, study in STUDIES.items():
        assert study.name == name and study.hours > 0
        assert study.against is None or study.against in study.methods
        assert set(study.paper) <= set(study.sets)
        assert set(study.quick_sets or ()) <= set(study.sets)
        assert len(list(study.cells(True))) <= len(list(study.cells(False)))


def test_grids_of_the_odm_paper():
    from benchmarks.papers.odm import points

    assert [len(points(method, False)) for method in ("SVM", "ODM^L", "ODM")] == [3, 147, 726]
    point = next(p for p in points("ODM", False) if p["theta"] == 0.5 and p["nu"] == 1024)
    assert point["lambda_"] / 0.5**2 == 1.0  # C1 = 2^0, C2 = 2^10


@pytest.mark.parametrize("n_classes, columns", [(2, 1), (3, 3), (7, 63), (8, 63), (26, 63)])
def test_codes_divide_the_classes_in_two(n_classes, columns):
    from benchmarks.papers.mcodm import code_table

    table = code_table(n_classes)
    assert table.shape == (n_classes, columns) and set(np.unique(table)) == {-1, 1}
    assert not (table == table[0]).all(axis=0).any()  # each column has both sides
    assert len({tuple(column * column[-1]) for column in table.T}) == columns  # and is another division
    assert len({tuple(row) for row in table}) == n_classes


def test_a_point_is_chosen_by_the_best_rate():
    """With paths along lambda, and one by one where the machine has none."""
    import odmlib
    from benchmarks.papers._protocol import chosen

    X = np.random.default_rng(0).normal(size=(120, 2))
    y = np.sign(X[:, 0] * X[:, 1])
    points = [{"lambda_": value, "gamma": gamma} for gamma in (1e-4, 1.0) for value in (100.0, 1e-6, 1.0)]
    for fixed in ({}, {"machine": "sodm"}):
        rates = [odmlib.cross_validate(X, y, 3, **fixed, **point).accuracy for point in points]
        best = chosen(X, y, points, fixed, folds=3)
        assert best["gamma"] == 1 and rates[points.index(best)] >= max(rates) - 0.02 > min(rates) + 0.2


def test_the_speedup_is_that_of_two_threads(monkeypatch):
    """benchmarks.papers sets OMP_NUM_THREADS to 1 for numpy; odmlib is given its threads."""
    from benchmarks.papers import sodm

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sodm, "CORES", (1, 2))
    monkeypatch.setattr(sodm, "parts_of", lambda *cell: None)
    monkeypatch.setattr(sodm, "measured", lambda rows, options: (0.9, 1.5 / options["threads"]))
    assert sodm.speedup_curve("svmguide1", 0, "rbf", True) == {"1": 1.0, "2": 2.0}


def test_a_part_of_a_protocol(tmp_path, here):
    study = dataclasses.replace(TABLE, sets=("iris", "wine"))
    first = _study.run_study(study, tmp_path, False, lambda line: None, most_repeats=2, sets=("wine",))
    assert set(first) == {("wine", repeat, method) for repeat in (0, 1) for method in "ABC"}
    assert "(2 of 6 repeats on 1 set)" in _study.page(study, first, False, tmp_path)
    both = _study.run_study(study, tmp_path, False, lambda line: None, most_repeats=1)
    assert len(both) == 9  # what was there before counts
    assert "(1 to 2 of 6 repeats on 2 sets)" in _study.page(study, both, False, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in STUDIES if name not in ("mcodm.figure1", "sodm.figure2.spark")]
)
def test_one_cell_of_each_study(name):
    """On the smallest set that is here."""
    study = STUDIES[name]
    if "mcSVM" in study.methods:
        pytest.importorskip("liblinear.liblinearutil")
    sets = [one for one in study.quick_sets or study.sets if data.is_here(one)]
    if not sets:
        pytest.skip(f"shared/data/{study.sets[0]} is not here")
    smallest = min(sets, key=lambda one: data.load(one)[0].shape[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as run_study does: machines are stopped early
        found = study.run(smallest, 0, study.methods[-1], True)
    assert found and all(np.isfinite(value) for value in found.values())
    assert study.axes is not None or study.measure in found
