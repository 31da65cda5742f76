"""Trains on a local cluster of two executors. Arguments: where odmlib lies, and the same as an archive.

Run as a program: a cluster wants a Java process of its own. If the archive is a packed environment
(venv-pack, conda-pack: .tar.gz), its Python runs the tasks.
"""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
from pyspark import cloudpickle
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

folder, archive = sys.argv[1:]
sys.path.insert(0, folder)  # for this process only

import odmlib  # noqa: E402
from odmlib.spark import ODMClassifier, training  # noqa: E402

DATA = Path(__file__).resolve().parent.parent.parent / "data" / "wdbc.txt"


def place_of_package(_):
    return [odmlib.__file__]


def weights_of(model):
    return np.append(model.coefficients.array, model.intercept).tolist()


def lose_once(mark, block):
    """Ends the executor of the second task, Java and all, in its first attempt."""
    from pyspark import TaskContext

    if TaskContext.get().partitionId() == 1 and not os.path.exists(mark):
        Path(mark).touch()
        java = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(") ")[2].split()[1]
        os.kill(int(java), signal.SIGKILL)
    return block


def train_and_lose_an_executor(machine, data):
    """Between two rounds of a barrier stage."""
    mark, solve = str(Path("lost").resolve()), training.solve_linear

    def losing(blocks, *arguments):
        blocks.map(partial(lose_once, mark)).collect()
        return solve(blocks, *arguments)

    training.solve_linear = losing
    # what runs in the stage must travel as it is here: a module would be imported anew
    cloudpickle.register_pickle_by_value(training)
    try:
        return machine.fit(data)
    finally:
        training.solve_linear = solve
        cloudpickle.unregister_pickle_by_value(training)


def main():
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.archives": f"{archive}#odm",
    }
    # spark.pyspark.python is for spark-submit; a program that starts Spark itself is asked here
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if archive.endswith(".tar.gz"):
        os.environ["PYSPARK_PYTHON"] = "./odm/bin/python"
    else:
        settings["spark.executorEnv.PYTHONPATH"] = "odm"
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    X, y = odmlib.read_data(DATA)
    X = X.toarray()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = [(Vectors.dense(x), float(label)) for x, label in zip(X, y, strict=True)]
    data = spark.sparkContext.parallelize(rows, 7).toDF(["features", "label"])
    models = [ODMClassifier(tol=1e-4, C=0.003).fit(data) for _ in range(2)]
    weights = [weights_of(model) for model in models]
    in_stage = ODMClassifier(tol=1e-4, C=0.003, engine="barrier").fit(data)
    lost = train_and_lose_an_executor(ODMClassifier(tol=1e-4, C=0.003, engine="barrier"), data)
    rbf = {"kernel": "rbf", "gamma": 0.02, "C": 0.1}
    over_landmarks = ODMClassifier(approx="nystrom", rank=20, **rbf).fit(data)
    by_levels = ODMClassifier(partitions=2, **rbf).fit(data)
    found = {
        "kernels": [[model.gap, model.report["primal"]] for model in (over_landmarks, by_levels)],
        "places": spark.sparkContext.parallelize(range(2), 2).mapPartitions(place_of_package).collect(),
        "weights": weights[0],
        "again": weights[1],
        "in_stage": [weights_of(one) for one in (in_stage, lost)],
        "lost": Path("lost").exists(),
        "gap": models[0].gap,
        "right": models[0].transform(data).filter("prediction = label").count(),
    }
    spark.stop()
    print(json.dumps(found))


main()
