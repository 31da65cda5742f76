"""Two trainings in two Python threads against the same two one after the other.

    python -m benchmarks.gil [--rows 40000] [--repeat 3] [--quick]

Each training uses one thread of its own. A ratio near 1/2 on two idle cores says that the interpreter lock
is free while the solvers run; 1 says that it is held (or that there is one core).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import warnings

import odmlib
from benchmarks._common import generated_rows, interruptible, parse_arguments, timed

SETTINGS = {
    "newton": {"kernel": "linear", "solver": "newton", "tol": 1e-9},
    "dcd": {"kernel": "linear", "solver": "dcd", "tol": 1e-12, "max_iter": 40},
    "svrg": {"kernel": "linear", "solver": "svrg", "tol": 1e-12, "max_iter": 20},
    "working-set": {"kernel": "rbf", "solver": "working-set", "tol": 1e-3},
}
KERNEL_SHARE = 10  # a kernel machine gets this many times fewer rows


def main() -> int:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--rows", type=int, default=40_000)
        parser.add_argument("--repeat", type=int, default=3)

    args = parse_arguments(__doc__, add)
    n_rows = args.rows // 10 if args.quick else args.rows
    warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
    for name, options in SETTINGS.items():
        X, y = generated_rows(n_rows if options["kernel"] == "linear" else n_rows // KERNEL_SHARE, 50)
        X = odmlib.Dataset.from_any(X)

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
        serial = statistics.median(timed(in_turn)[0] for _ in range(args.repeat))
        parallel = statistics.median(timed(together)[0] for _ in range(args.repeat))
        print(f"{name:12} in turn {serial:6.3f} s, together {parallel:6.3f} s, ratio {parallel / serial:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
