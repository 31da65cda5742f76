"""Linear training side by side with LIBLINEAR on real sets.

    python -m benchmarks.linear [--sets a9a,ijcnn1] [--C 0.03125,1,32] [--solvers auto,newton,dcd]

nu = 1, so that LIBLINEAR's -s 11 (Newton) and -s 12 (dual coordinate descent) solve the very same problem:
-p theta -c C/(1-theta)^2. Every program gets the data in memory; only training is timed, on one thread
unless --threads says otherwise. Printed per run: seconds, seconds as a multiple of the faster LIBLINEAR,
and how far the objective lies above the best that any of them found (relative). LIBLINEAR runs with its
own default -e, which promises less than a duality gap; its objective shows what that is worth.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import odmlib
from odmlib.data.reading import read_data

FOLDER = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
# name: label (or list of labels) of the first class, for sets of more than two classes
SETS = {
    "a9a": None,
    "ijcnn1": None,
    "phishing": None,
    "news20": 1,
    "reuters_moneyfx": None,
    "rcv1_small": None,
    "covtype.binary.5k": None,
    "splice": None,
    "mnist": 3,
    "skin_nonskin": None,
}
THETA = 0.2


def load(name):
    for suffix in (".libsvm", ".libsvm.xz"):
        path = FOLDER / (name + suffix)
        if path.exists():
            X, y = read_data(path)
            first = SETS.get(name)
            first = y.max() if first is None else first
            return X, np.where(y == first, 1.0, -1.0)
    return None


def objective(X, y, weights, C):
    """P with the constant feature 1; nu = 1."""
    z = y * (X @ weights[:-1] + weights[-1])
    beyond = np.maximum(0, np.abs(1 - z) - THETA)
    return 0.5 * weights @ weights + C / (1 - THETA) ** 2 * beyond @ beyond


def run_odmlib(X, y, C, args, solver):
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
        model = odmlib.train(
            X,
            y,
            kernel="linear",
            C=C,
            nu=1.0,
            theta=THETA,
            tol=args.tol,
            solver=solver,
            threads=args.threads,
            time_limit=args.time_limit,
        )
    seconds = time.perf_counter() - started
    weights = np.zeros(X.shape[1] + 1)
    weights[model.function.columns] = model.function.weights[:, 0]
    weights[-1] = model.function.bias_weights[0]
    report = model.report
    sign = 1 if model.labels[0] == 1 else -1
    note = f"{report['status']}, {report['solver']}, {report['iterations']} it., gap {report['gap']:.1e}"
    if report["details"].get("cg_steps"):
        note += f", {report['details']['cg_steps']} CG steps"
    return seconds, sign * weights, note


def run_liblinear(X, y, C, machine):
    from liblinear.liblinear import parameter, problem
    from liblinear.liblinearutil import train
    from scipy.sparse import csr_matrix

    data = problem(y, csr_matrix(X), 1)
    options = parameter(f"-s {machine} -p {THETA} -c {C / (1 - THETA) ** 2!r} -B 1 -q")
    started = time.perf_counter()
    model = train(data, options)
    seconds = time.perf_counter() - started
    weights, intercept = model.get_decfun()
    return seconds, np.array([*weights, intercept]), ""


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--C", default="0.03125,1,32")
    parser.add_argument("--solvers", default="auto,newton,dcd")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for one run of odmlib")
    args = parser.parse_args(argv)
    try:
        import liblinear.liblinearutil  # noqa: F401
    except ImportError:
        print("liblinear-official is not installed", file=sys.stderr)
        return 1
    for name in args.sets.split(","):
        data = load(name)
        if data is None:
            print(f"{name}: not found in {FOLDER}, skipped")
            continue
        X, y = data
        for C in map(float, args.C.split(",")):
            print(f"\n{name}: {X.shape[0]} x {X.shape[1]}, {X.nnz} values, C = {C:g}, tol = {args.tol:g}")
            runs = {
                f"odmlib {solver}": run_odmlib(X, y, C, args, solver) for solver in args.solvers.split(",")
            }
            peers = {f"LIBLINEAR -s {machine}": run_liblinear(X, y, C, machine) for machine in (11, 12)}
            fastest = min(seconds for seconds, _, _ in peers.values())
            values = {run: objective(X, y, w, C) for run, (_, w, _) in (runs | peers).items()}
            best = min(values.values())
            for run, (seconds, _, note) in (runs | peers).items():
                above = (values[run] - best) / max(1.0, best)
                print(
                    f"  {run:16} {seconds:8.3f} s {seconds / fastest:7.2f} x  P {above:+.1e}  {note}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
