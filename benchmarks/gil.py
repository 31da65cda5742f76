"""Two trainings in two Python threads against the same two one after the other.

    python -m benchmarks.gil [--rows 40000] [--repeat 3]

Each training uses one thread of its own. A ratio near 1/2 on two idle cores says that the interpreter lock
is free while the solvers run; 1 says that it is held (or that there is one core).
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import warnings

import numpy as np

import odmlib

SETTINGS = {
    "newton": {"kernel": "linear", "solver": "newton", "tol": 1e-9},
    "dcd": {"kernel": "linear", "solver": "dcd", "tol": 1e-12, "max_iter": 40},
    "svrg": {"kernel": "linear", "solver": "svrg", "tol": 1e-12, "max_iter": 20},
    "working-set": {"kernel": "rbf", "solver": "working-set", "tol": 1e-3},
}
KERNEL_SHARE = 10  # a kernel machine gets this many times fewer rows


def make_rows(n: int, d: int = 50):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + 2 * rng.standard_normal(n) > 0, 1, -1)
    return odmlib.Dataset.from_any(X), y


def timed(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
    for name, options in SETTINGS.items():
        X, y = make_rows(args.rows if options["kernel"] == "linear" else args.rows // KERNEL_SHARE)

        def train(X=X, y=y, options=options):
            odmlib.train(X, y, threads=1, **options)

        def in_turn(train=train):
            train()
            train()

        def together(train=train):
            threads = [threading.Thread(target=train) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        train()  # imports and first touches are not measured
        serial = min(timed(in_turn) for _ in range(args.repeat))
        parallel = min(timed(together) for _ in range(args.repeat))
        print(f"{name:12} in turn {serial:6.3f} s, together {parallel:6.3f} s, ratio {parallel / serial:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
