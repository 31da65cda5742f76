"""One Spark session for all tests here; without Java or pyspark they are skipped."""

import gc
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import odmlib

ROOT = Path(__file__).resolve().parent.parent.parent

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # all jobs here are short

# what pyspark and py4j themselves leave behind: sockets and pools of threads, and words about pandas
NOT_OURS = (
    "ignore:unclosed running multiprocessing pool:ResourceWarning",
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:subprocess .* is still running:ResourceWarning",
    "ignore:PySpark does not yet fully support pandas:FutureWarning",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(900))  # rounds are slow where the machine is loaded
            for rule in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(rule))


@pytest.fixture(autouse=True)
def collect_what_is_not_ours():
    """Here, where these warnings are known, and not in some later test."""
    yield
    gc.collect()


def new_session(master, **settings):
    pyspark_sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on the PATH")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers are whatever python3 the shell finds
    builder = pyspark_sql.SparkSession.builder.master(master).appName("odmlib tests")
    usual = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",  # tasks fail on purpose
        # a busy machine may keep a process waiting for longer than the usual 15 s and 120 s
        "spark.python.authenticate.socketTimeout": "600s",
        "spark.network.timeout": "1200s",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
    }
    for name, value in {**usual, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """local[2,4]: a task may fail three times, as on a cluster; plain local[2] gives up at once."""
    handler = signal.getsignal(signal.SIGINT)
    folder = tmp_path_factory.mktemp("spark")
    session = new_session(
        "local[2,4]",
        **{"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")},
    )
    yield session
    session.stop()
    signal.signal(signal.SIGINT, handler)


def fails_once(pairs):
    """A step that does the work, then dies with it: by an exception in one task, with the process in
    another."""
    from pyspark import TaskContext

    done, task = list(pairs), TaskContext.get()
    if task.attemptNumber() == 0:
        if task.partitionId() == 0:
            raise RuntimeError("this task fails at first")
        if task.partitionId() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    yield from done


def standardised():
    """(X, y) with labels -1 and +1: 569 rows of 30 features."""
    X, y = odmlib.read_data(ROOT / "data" / "wdbc.txt")
    X = X.toarray()
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def frame(session, X, y, weights=None, sparse=False, partitions=2):
    """A DataFrame of these rows, dealt to partitions in their order."""
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import DoubleType, StructType

    def vector(row):
        if not sparse:
            return Vectors.dense(row)
        used = np.flatnonzero(row)
        return Vectors.sparse(len(row), used.tolist(), row[used].tolist())

    weights = np.ones(len(y)) if weights is None else weights
    rows = [(vector(x), float(label), float(s)) for x, label, s in zip(X, y, weights, strict=True)]
    schema = StructType().add("features", VectorUDT()).add("label", DoubleType()).add("weight", DoubleType())
    return session.createDataFrame(session.sparkContext.parallelize(rows, partitions), schema)
