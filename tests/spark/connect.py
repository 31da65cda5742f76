"""Trains on a Spark Connect server that it starts, and leaves the files rows and m where it runs."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.types import DoubleType, StructType

import odmlib
from odmlib.spark import ODMClassificationModel, ODMClassifier

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DATA = Path(__file__).resolve().parent.parent.parent / "data" / "wdbc.txt"


def main():
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # a server of pyspark's own tests has a free port; else it is 15002, which another suite may have taken
    os.environ["SPARK_TESTING"] = "1"
    spark = (
        SparkSession.builder.remote("local[2]").config("spark.driver.extraJavaOptions", QUICK).getOrCreate()
    )
    X, y = odmlib.read_data(DATA)
    X = X.toarray()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    schema = StructType().add("features", VectorUDT()).add("label", DoubleType())
    rows = [(Vectors.dense(x), float(label)) for x, label in zip(X, y, strict=True)]
    data = spark.createDataFrame(rows, schema)
    model = ODMClassifier(tol=1e-4, C=0.003).fit(data)
    in_stage = ODMClassifier(tol=1e-4, C=0.003, engine="barrier").fit(data)
    folder = str(Path("model").resolve())
    for _ in range(2):
        model.write().overwrite().save(folder)
    again = ODMClassificationModel.load(folder)
    options = {"kernel": "rbf", "gamma": 0.02, "C": 0.1, "approx": "nystrom", "rank": 20}
    kernel = ODMClassifier(**options).fit(data)
    odmlib.write_data("rows", X, y)
    port = DefaultChannelBuilder.default_port()
    words = f"-q -s 6 -t linear -c 0.003 --spark sc://localhost:{port} rows m".split()
    program = "import sys; from odmlib.cli.train import main; sys.exit(main())"
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_TESTING", "PYSPARK_PYTHON")
    }
    subprocess.run([sys.executable, "-c", program, *words], check=True, env=clean, timeout=300)
    try:
        fitted = ODMClassifier(tol=0.1).fit(data.replace(-1.0, 0.0, ["label"]))
        java = str(fitted.toLinearSVC())
    except odmlib.ParameterError as error:
        java = str(error)
    print(
        json.dumps(
            {
                "java": java,
                "weights": weights_of(model),
                "in_stage": weights_of(in_stage),
                "loaded": weights_of(again),
                "gap": model.gap,
                "right": right(again.transform(data)),
                "kernel": kernel.report["primal"],
                "kernel_right": right(kernel.transform(data)),
            }
        )
    )


def weights_of(model):
    return np.append(model.coefficients.array, model.intercept).tolist()


def right(found):
    return found.filter("prediction = label").count()


main()
