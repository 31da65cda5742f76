"""KM-OMD's time beside MKLpy: python -m benchmarks.kmomd [--rows N]

Training time at 2,000 rows: ours from the data, gap 0.001; MKLpy's KOMD, same objective, from a kernel
matrix at hand; the difference of the two gammas. Left out where MKLpy is not installed. The paper's table
and figures are in python -m benchmarks.papers. Features are standardised over the whole set.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from functools import partial
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def read_standardised(name: str):
    import numpy as np

    from odmlib.data.reading import read_data

    X, y = read_data(DATA / name)
    X = X.toarray()
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    return X, np.where(y == y.max(), 1, -1)


def compare_with_mklpy(n_rows: int) -> None:
    import numpy as np

    try:
        warnings.simplefilter("ignore")
        from MKLpy.algorithms import KOMD
    except ImportError:
        print("\nMKLpy: left out, it is not installed")
        return
    from odmlib.machines.kmomd import path

    X, y = read_standardised("svmguide1.libsvm")
    rows = np.random.default_rng(0).permutation(len(y))[:n_rows]
    X, y = X[rows], y[rows]
    gamma = 1.0
    squares = np.square(X).sum(axis=1)
    K = np.exp(-gamma * np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0))
    p, n = int((y > 0).sum()), int((y < 0).sum())
    print(f"\nMKLpy: {n_rows} rows of svmguide1, RBF gamma {gamma:g}, one thread; seconds")
    print(f"{'lambda':>9} {'odmlib':>9} {'MKLpy':>9} {'ratio':>8} {'gap':>9} {'differ':>9}")
    for theirs in (0.9, 0.5, 0.1):
        mu = theirs / (1 - theirs) * p * n / (p + n)  # MKLpy's lambda in our terms
        lam = mu / (1 + mu)
        ours = min(timed(partial(path, X, y, [lam], gamma=gamma, threads=1))[0] for _ in range(3))
        machine = KOMD(lam=theirs, kernel="precomputed")
        peer, fitted = timed(partial(machine.fit, K, y))
        (exact,) = path(K, y, [lam], kernel="precomputed", tol=1e-8, threads=1)
        gap = path(X, y, [lam], gamma=gamma, threads=1)[0].report["gap"]
        found = np.zeros(len(y))
        found[exact.function.serials - 1] = np.abs(exact.function.coefficients[:, 0])
        found *= exact.extras["norm"][0]
        known = np.asarray(fitted.gamma, dtype=float).ravel()
        differ = float(np.abs(found - known).max())
        print(f"{lam:9.6f} {ours:9.3f} {peer:9.2f} {peer / ours:8.0f} {gap:9.1e} {differ:9.1e}", flush=True)


def timed(run):
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000, help="rows of the comparison with MKLpy")
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # before numpy is imported
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    if not DATA.exists():
        print(f"left out, {DATA} is not here")
        return 0
    compare_with_mklpy(options.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
