"""One barrier stage instead of a job per round: the same bits, also after a task was lost."""

import os
import signal

import numpy as np
import pytest

import odmlib

from ..real_data import real_path
from .conftest import frame, standardised

pytest.importorskip("pyspark", reason="pyspark is not installed")

from odmlib.options import TrainOptions
from odmlib.spark import ODMClassifier
from odmlib.spark.barrier import together
from odmlib.spark.blocks import blocks_of_batches
from odmlib.spark.engine import Spread, tree_sum
from odmlib.spark.files import Grammar, file_blocks
from odmlib.spark.training import train_blocks

X, Y = standardised()
OPTIONS = {"tol": 1e-4, "C": 0.003}


def fitted(data, **options):
    return ODMClassifier(**(OPTIONS | options)).fit(data)


def weights_of(model):
    return np.append(model.coefficients.array, model.intercept).tobytes()


@pytest.fixture(scope="module")
def by_jobs(spark):
    """Machines on two partitions and on five, which are more than tasks can run."""
    return {n: fitted(frame(spark, X, Y, partitions=n)) for n in (2, 5)}


@pytest.mark.parametrize("partitions", [2, 5])
def test_the_bits_of_jobs(spark, by_jobs, partitions):
    model = fitted(frame(spark, X, Y, partitions=partitions), engine="barrier")
    assert weights_of(model) == weights_of(by_jobs[partitions])
    for name in ("primal", "gap", "iterations", "margin", "details", "status"):
        assert model.report[name] == by_jobs[partitions].report[name]
    assert model.summary.objectiveHistory == by_jobs[partitions].summary.objectiveHistory
    assert model.getEngine() == "barrier"


@pytest.mark.parametrize(
    "options",
    [
        {"maxBlockSizeInMB": 0.01, "standardization": True},
        {"kernel": "rbf", "gamma": 0.02, "C": 0.1, "approx": "nystrom", "rank": 20},
    ],
)
def test_other_machines_have_the_bits_of_jobs(spark, options):
    data = frame(spark, X, Y, sparse=True)
    one, other = (fitted(data, engine=engine, **options) for engine in ("jobs", "barrier"))
    assert other.report["primal"] == one.report["primal"] and other.gap == one.gap
    assert other.odm.decision_function(X).tobytes() == one.odm.decision_function(X).tobytes()


def two_of(task):
    for k in (2 * task, 2 * task + 1):
        yield k << 20, (np.array([0.1 * k, 1.0]), k)


def dies_once(folder, victim, one):
    """With its process, in the first attempt at the stage."""
    from pyspark import TaskContext

    mark = os.path.join(folder, "died")
    if TaskContext.get().partitionId() == victim and not os.path.exists(mark):
        with open(mark, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return one


def sums_of(folder, victim, blocks):
    kept = blocks.kept()
    total = tree_sum(kept.objects, [k << 20 for k in range(8)], 3)
    if folder is not None:
        kept.objects.map(lambda one: dies_once(folder, victim, one)).collect()
    again = tree_sum(kept.objects.map(lambda one: 2 * one), [k << 20 for k in range(8)], 1)
    return [note for _, note in kept.notes()], total, again


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_is_killed_starts_the_stage_again(spark, tmp_path, victim):
    parts = Spread.of_tasks(spark, 4, two_of)
    calm, restarted = (
        together(parts, lambda blocks, folder=folder: sums_of(folder, victim, blocks))
        for folder in (None, str(tmp_path))
    )
    assert (tmp_path / "died").exists()
    assert calm[0] == restarted[0] == list(range(8))
    assert [total.tolist() for total in calm[1:]] == [total.tolist() for total in restarted[1:]]


def refuse(blocks):
    raise odmlib.ParameterError("this cannot be")


def divide(one):
    raise ZeroDivisionError("of a task")


def fail_in_the_first(blocks):
    raise MemoryError("of the first")


def test_faults_are_one_line(spark):
    parts = Spread.of_tasks(spark, 2, two_of)
    with pytest.raises(odmlib.ParameterError, match="this cannot be"):
        together(parts, refuse)
    with pytest.raises(odmlib.OdmError, match=r'engine "barrier": .*of a task') as caught:
        together(parts, lambda blocks: blocks.map(divide).collect())
    assert "\n" not in str(caught.value)
    with pytest.raises(odmlib.OdmError, match=r'engine "barrier": .*of the first'):
        together(parts, fail_in_the_first)
    with pytest.raises(odmlib.ParameterError, match="all rows have the same label"):
        fitted(frame(spark, X[:4], [1, 1, 1, 1]), engine="barrier")


def test_limits_hold_and_progress_is_told_afterwards(spark):
    told = []
    data = frame(spark, X, Y)
    options = ODMClassifier(C=10.0, maxIter=2, tol=1e-9, engine="barrier")
    with pytest.warns(odmlib.ConvergenceWarning, match="limit of 2 iterations"):
        model = options.fit(data)
    assert model.summary.totalIterations == 2 and len(model.summary.gapHistory) == 3
    blocks = Spread(options._records(data), blocks_of_batches)
    limited = options.train_options().but(time_limit=1e-9, callback=told.append)
    found = train_blocks(blocks, limited, engine="barrier")
    assert found.report["status"] == "time_limit" and len(told) >= 1


def test_what_the_engine_is_not_for():
    with pytest.raises(odmlib.ParameterError, match='"barrier" is for kernel linear and for approx nystrom'):
        ODMClassifier(kernel="rbf", engine="barrier").train_options()
    with pytest.raises(odmlib.ParameterError, match="engine must be one of jobs, barrier, found x"):
        ODMClassifier(engine="x").train_options()


@pytest.mark.parametrize("options", [{}, {"partitions": 3, "partition": "stratified", "seed": 4}])
def test_dsvrg_visits_strata(spark, options):
    """Algorithm 2 of the SODM paper: the objective of Newton's method, whatever the number of nodes."""
    data = frame(spark, X, Y, partitions=3)
    model = fitted(data, engine="barrier", solver="dsvrg", tol=1e-3, **options)
    reference = odmlib.train(X, Y, kernel="linear", C=OPTIONS["C"], tol=1e-6)
    assert model.report["solver"] == "dsvrg" and model.report["status"] == "converged"
    assert model.report["details"]["blocks"] == options.get("partitions", 2)
    assert model.report["primal"] <= (1 + 1e-3) * reference.report["primal"]
    again = fitted(data, engine="barrier", solver="dsvrg", tol=1e-3, **options)
    assert weights_of(again) == weights_of(model)


def test_dsvrg_needs_the_stage():
    with pytest.raises(odmlib.ParameterError, match="solver dsvrg needs engine barrier"):
        ODMClassifier(solver="dsvrg").train_options()


LARGE = {"a9a": 1e-2, "ijcnn1": 1e-2, "skin_nonskin": 1e-4}  # sets of shared/data, and C


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", LARGE)
def test_dsvrg_on_large_sets(spark, name):
    path = str(real_path(name))
    rows, labels = odmlib.read_data(path)
    reference = odmlib.train(rows, labels, kernel="linear", C=LARGE[name], tol=1e-6)
    options = TrainOptions(machine="sodm", kernel="linear", C=LARGE[name], solver="dsvrg")
    model = train_blocks(file_blocks(spark, path, Grammar()), options, files=True, engine="barrier")
    assert model.report["gap"] <= 1e-3
    assert model.report["primal"] <= (1 + 1e-3) * reference.report["primal"]
