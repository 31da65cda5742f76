"""Trains on a local cluster of two executors. Arguments: where odmlib lies, and the same as an archive.

Run as a program: a cluster wants a Java process of its own. If the archive is a packed environment
(venv-pack, conda-pack: .tar.gz), its Python runs the tasks.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

folder, archive = sys.argv[1:]
sys.path.insert(0, folder)  # for this process only

import odmlib  # noqa: E402
from odmlib.spark import ODMClassifier  # noqa: E402

DATA = Path(__file__).resolve().parent.parent.parent / "data" / "wdbc.txt"


def place_of_package(_):
    return [odmlib.__file__]


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
    weights = [np.append(model.coefficients.array, model.intercept).tolist() for model in models]
    rbf = {"kernel": "rbf", "gamma": 0.02, "C": 0.1}
    over_landmarks = ODMClassifier(approx="nystrom", rank=20, **rbf).fit(data)
    by_levels = ODMClassifier(partitions=2, **rbf).fit(data)
    found = {
        "kernels": [[model.gap, model.report["primal"]] for model in (over_landmarks, by_levels)],
        "places": spark.sparkContext.parallelize(range(2), 2).mapPartitions(place_of_package).collect(),
        "weights": weights[0],
        "again": weights[1],
        "gap": models[0].gap,
        "right": models[0].transform(data).filter("prediction = label").count(),
    }
    spark.stop()
    print(json.dumps(found))


main()
