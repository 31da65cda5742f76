"""How long odm-predict takes on ten rows, beside `python -c "import numpy"`.

    python benchmarks/startup.py [repeats]

Both are run in turn and their medians compared, so that a busy machine slows both. The aim is a ratio of
at most 1.5 (shared/cli.md: in shell loops start-up is all that is felt).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function, KernelFunction, LinearFunction
from odmlib.model.model import Model

AIM = 1.5


def small_model(kernel: str) -> Model:
    random = np.random.default_rng(0)
    formula = KernelFormula(kernel, gamma=0.5)
    function: Function = LinearFunction(np.arange(10, dtype=np.int32), random.normal(size=10), 0.0, 0.0)
    if kernel != "linear":
        vectors = Dataset.from_any(random.normal(size=(50, 10)))
        function = KernelFunction(formula, vectors, random.normal(size=50))
    used = {name: getattr(formula, name) for name in formula.parameter_names}
    parameters = {"C": 1.0, "lambda": 50.0, "nu": 0.5, "theta": 0.2, "bias": 0.0, "tol": 1e-3} | used
    report = {"rows": 50, "nonzeros": 500, "status": "converged", "solver": "-", "iterations": 1, "primal": 1.0}
    report |= {"dual": 1.0, "gap": 0.0, "seed": 0, "margin": {"mean": 1.0, "variance": 0.0, "min": 1.0}}
    return Model("odm", formula, np.array([1.0, -1.0]), 10, function, parameters, report)


def seconds(words: list[str]) -> float:
    env = {**os.environ, "PYTHONPATH": str(Path(odmlib.__file__).parent.parent)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code
    started = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, env=env)
    return time.perf_counter() - started


def main(repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = Dataset.from_any(np.random.default_rng(1).normal(size=(10, 10)))
        odmlib.write_data(f"{folder}/test", rows)
        predict = [sys.executable, "-m", "odmlib.cli.predict", f"{folder}/test"]
        commands = {"import numpy": [sys.executable, "-c", "import numpy"]}
        for kernel in ("linear", "rbf"):
            small_model(kernel).save(f"{folder}/{kernel}")
            commands[f"odm-predict, {kernel}"] = [*predict, f"{folder}/{kernel}", f"{folder}/out"]
        commands["odm-predict --help"] = [sys.executable, "-m", "odmlib.cli.predict", "--help"]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, words in commands.items():
                times[name].append(seconds(words))
    base = statistics.median(times["import numpy"])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:22} {1000 * median:7.1f} ms  {median / base:5.2f} x  (aim: {AIM} x)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
