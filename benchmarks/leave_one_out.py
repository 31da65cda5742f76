"""Leave-one-out from one fit beside true refits: python -m benchmarks.leave_one_out [--sets heart ...]

One training for each of --rows random rows (100), with that row left out and the weights of the others kept;
RBF kernel with the default gamma, features in [0, 1]. Printed are the errors of the refits and of the
estimate on these rows, the estimate and the bound (odm) for all rows, and the median and largest difference
of the left-out margins. --sets: names of benchmarks/data.py.
"""

from __future__ import annotations

import argparse
import sys

SETS = ("heart-statlog", "haberman", "liverDisorders", "ionosphere")
COSTS = (1.0, 30.0)


def main() -> int:
    import numpy as np

    import odmlib
    from benchmarks import data
    from benchmarks.papers._protocol import scaled, two_classes

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--rows", type=int, default=100, help="rows that are refitted")
    arguments = parser.parse_args()
    heads = ("set", "machine", "C", "refits", "wrong", "one fit", "of all", "bound", "rows", "median")
    print("| " + " | ".join((*heads, "largest")) + " |")
    for name in arguments.sets:
        if not data.is_here(name):
            print(f"{name}: left out, not here")
            continue
        X, y = scaled(name)
        y = two_classes(y)
        some = np.random.default_rng(0).permutation(len(y))[: arguments.rows]
        gamma = 1 / (X.shape[1] * X.var())  # that of the whole set, in refits too
        for machine in ("odm", "odml"):
            for C in COSTS:
                options = {"machine": machine, "C": C, "gamma": gamma, "threads": 1}
                found = odmlib.leave_one_out(X, y, **options)
                refits = []
                for i in some:
                    rest = np.arange(len(y)) != i
                    model = odmlib.train(X[rest], y[rest], tol=1e-4, **options)
                    refits.append(model.margins(X[[i]], y[[i]])[0])
                ours = (y * found.scores * (1 if found.model.labels[0] == 1 else -1))[some]
                apart, wrong = np.abs(ours - refits), int((np.array(refits) <= 0).sum())
                bound = "" if found.bound is None else found.bound
                cells = (name, machine, f"{C:g}", len(some), wrong, int((ours <= 0).sum()), found.errors)
                cells += (bound, len(y), f"{np.median(apart):.1e}", f"{apart.max():.1e}")
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
