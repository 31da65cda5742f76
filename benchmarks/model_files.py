"""How long loading a model takes: the text file beside the binary one, by processor time.

    python -m benchmarks.model_files [--quick]

Both hold the same model, whose text has 100 MB. One has dense vectors of numbers in full precision, one has
sparse vectors of numbers with six digits. Each file is read several times, and the shortest time counts. The
aim is a tenth of the text's time.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace

import numpy as np
from scipy.sparse import random_array

import odmlib
from benchmarks._common import generated_rows, interruptible, parse_arguments, verdict
from odmlib.data.dataset import Dataset
from odmlib.model.functions import KernelFunction
from odmlib.model.model import Model

AIM = 0.1
REPEATS = 7
TEXT_BYTES = 100e6


def with_vectors(model: Model, vectors: Dataset) -> Model:
    """The model with other vectors, and coefficients of its own."""
    coefficients = np.random.default_rng(1).normal(size=vectors.n_rows)
    function = KernelFunction(model.formula, vectors, coefficients)
    return replace(model, n_features=vectors.n_features, function=function)


def vectors_of(kind: str, text_bytes: float) -> Dataset:
    rng = np.random.default_rng(0)
    if kind == "dense":
        return Dataset.from_any(rng.normal(size=(int(text_bytes / 23 / 90), 90)))
    n = int(text_bytes / 15 / 100)
    rows = random_array((n, 40_000), density=100 / 40_000, rng=rng, format="csr")
    rows.data = np.round(rows.data, 6)
    return Dataset.from_any(rows)


def load_seconds(path: str) -> float:
    """The least processor time of some loads."""
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        odmlib.load_model(path)
        times.append(time.process_time() - started)
    return min(times)


def main() -> int:
    size = TEXT_BYTES / 100 if parse_arguments(__doc__).quick else TEXT_BYTES
    X, y = generated_rows(60, 10)
    trained = odmlib.train(X, y)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("dense", "sparse"):
            model = with_vectors(trained, vectors_of(kind, size))
            seconds = {}
            for name in ("model", "npz"):
                path = f"{folder}/{kind}.{name}"
                model.save(path)
                seconds[name] = load_seconds(path)
                print(
                    f"{kind:7} {name:6} {os.path.getsize(path) / 1e6:7.1f} MB  {1000 * seconds[name]:7.1f} ms"
                )
            ratios.append(seconds["npz"] / seconds["model"])
            print(f"{kind:7} binary / text: {ratios[-1]:.3f}")
    verdict("loading a binary model / a text model of 100 MB", ratios, AIM)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
