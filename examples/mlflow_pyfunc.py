"""An odmlib model as an MLflow pyfunc: save it, load it as MLflow's servers do, and score a table.

    python examples/mlflow_pyfunc.py FOLDER [MODEL_FILE]

FOLDER is where MLflow's model is written. MODEL_FILE is a model file of odm-train, `Model.save`, or
`odmlib-model/part-*` of a model that was saved on Spark; without it a small model is trained. Needs
`pip install mlflow-skinny pandas`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import mlflow.models
import mlflow.pyfunc
import numpy as np
import pandas as pd

import odmlib


class OdmModel(mlflow.pyfunc.PythonModel):
    """Predicts the label of every row of a table whose columns are the features, in the order of training."""

    def load_context(self, context: Any) -> None:
        self.model = odmlib.load_model(context.artifacts["model_file"])

    def predict(self, context, model_input, params=None):
        return self.model.predict(model_input.to_numpy(dtype=float))


mlflow.models.set_model(OdmModel())  # what MLflow takes from this file


def save(folder: Path, model_file: Path) -> None:
    mlflow.pyfunc.save_model(
        folder,
        python_model=__file__,  # the code itself: nothing is pickled
        artifacts={"model_file": str(model_file)},
        pip_requirements=[f"odmlib=={odmlib.__version__}", "pandas"],
    )


def main(folder: str, model_file: str | None = None) -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        if model_file is None:
            X = rng.normal(size=(300, 4))
            model = odmlib.train(X, np.where(X[:, 0] + X[:, 1] > 0, "yes", "no"), kernel="rbf")
            model_file = str(Path(place, "odm.model"))
            model.save(model_file)
        save(Path(folder), Path(model_file))
        known = odmlib.load_model(model_file)
    table = pd.DataFrame(rng.normal(size=(5, known.n_features)))
    found = mlflow.pyfunc.load_model(folder).predict(table)
    assert (found == known.predict(table.to_numpy())).all()
    print(
        f"{folder}: an MLflow model of {known.n_features} features; 5 rows are {', '.join(map(str, found))}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
