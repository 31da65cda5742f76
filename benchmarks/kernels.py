"""Kernel parts side by side with their peers: python benchmarks/kernels.py [--threads N] [--quick]

blocks   kernel rows of 256 rows against all: odmlib, and numpy (float32 matrix product, then the exponential)
scores   kernel expansion of test rows: odmlib (float64), and scikit-learn SVC.decision_function (LIBSVM)
solver   kernel ODM with nu = 1 by the working set, and LIBSVM's eps-SVR and C-SVC through scikit-learn at the
         same kernel, C and (SVR) epsilon = theta; nu = 1 has SVR's two-sided band with a squared loss

Times are the best of several runs (solver: one), in seconds; a ratio above 1 means that odmlib is faster. The
peers' BLAS gets as many threads as odmlib. Real sets are read from ../shared/data where that is present.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def best_time(run: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def table_row(first: str, *cells: object) -> str:
    shown = [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells]
    return " ".join([f"{first:>34}", *(f"{cell:>10}" for cell in shown)])


def random_dense(m: int, d: int, density: float, seed: int = 0):
    import numpy as np

    rng = np.random.default_rng(seed)
    return rng.random((m, d)) * (rng.random((m, d)) < density)


def compare_blocks(threads: int, m: int) -> None:
    import numpy as np

    from odmlib.data.dataset import Dataset
    from odmlib.kernels.formula import KernelFormula
    from odmlib.kernels.kernel import Kernel

    print(f"\nblocks: 256 x {m} RBF values, {threads} thread(s)")
    print(table_row("data", "float32", "GFlop/s", "float64", "numpy", "sgemm only", "ratio"))
    out = np.empty((256, m), dtype=np.float32)
    for d, density in ((22, 1.0), (123, 1.0), (123, 0.11), (780, 1.0), (780, 0.2)):
        X = random_dense(m, d, density)
        data, rows = Dataset.from_any(X), np.arange(256) * (m // 256)
        # far from the switch to float64 products, and beyond it
        kernel = Kernel(KernelFormula("rbf", gamma=1.0 / d), data, threads)
        precise = Kernel(KernelFormula("rbf", gamma=100.0), data, threads)
        assert (kernel.precise, precise.precise) == (False, True)
        ours, ours_precise = (best_time(partial(k.block, rows, out)) for k in (kernel, precise))
        single = X.astype(np.float32)
        theirs = best_time(partial(rbf_by_numpy, single, np.square(single).sum(axis=1), rows, 1.0 / d, out))
        product = best_time(partial(np.dot, single[rows], single.T, out))
        gflops = 2e-9 * 256 * data.n_nonzeros / ours
        print(
            table_row(
                f"d = {d}, {density:.0%}", ours, f"{gflops:.1f}", ours_precise, theirs, product, theirs / ours
            )
        )


def rbf_by_numpy(X, norms, rows, gamma: float, out) -> None:
    import numpy as np

    np.dot(X[rows], X.T, out=out)
    out *= 2
    out -= norms
    out -= norms[rows][:, None]
    out *= gamma
    np.exp(out, out=out)


def compare_scores(threads: int, quick: bool) -> None:
    import numpy as np
    from sklearn.svm import SVC

    from odmlib.data.dataset import Dataset
    from odmlib.kernels.expansion import kernel_scores
    from odmlib.kernels.formula import KernelFormula

    n_test = 2000 if quick else 8000
    print(f"\nscores: {n_test} test rows, {threads} thread(s); 'differ': largest difference / largest score")
    print(table_row("data", "support", "odmlib", "sklearn", "ratio", "differ"))
    for d, density in ((22, 1.0), (123, 0.11), (780, 0.2)):
        X, T = random_dense(2000, d, density), random_dense(n_test, d, density, seed=1)
        y = np.where(X[:, : d // 2].sum(axis=1) > X[:, d // 2 :].sum(axis=1), 1, -1)
        machine = SVC(gamma=1.0 / d).fit(X, y)
        support, test = Dataset.from_any(machine.support_vectors_), Dataset.from_any(T)
        score = partial(
            kernel_scores, KernelFormula("rbf", gamma=1.0 / d), support, machine.dual_coef_[0], test, threads
        )
        ours, theirs = best_time(score, 3), best_time(partial(machine.decision_function, T), 1)
        expected = machine.decision_function(T)
        difference = np.abs(score() + machine.intercept_[0] - expected).max() / np.abs(expected).max()
        label = f"d = {d}, {density:.0%}"
        print(table_row(label, support.n_rows, ours, theirs, theirs / ours, float(difference)))


def read_scaled(name: str, rows: int):
    """A set of ../shared/data scaled to [0, 1] per feature, and labels +-1; at most `rows` random rows."""
    import io
    import lzma

    import numpy as np
    from sklearn.datasets import load_svmlight_file

    path = DATA / name
    content = path.read_bytes()
    if name.endswith(".xz"):
        content = lzma.decompress(content)
    X, y = load_svmlight_file(io.BytesIO(content))
    X = X.toarray()
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1)
    chosen = np.random.default_rng(0).permutation(len(y))[:rows]
    return X[chosen], np.where(y[chosen] == y.max(), 1.0, -1.0)


def compare_solvers(threads: int, quick: bool) -> None:
    import numpy as np
    from sklearn.svm import SVC, SVR

    from odmlib.data.dataset import Dataset
    from odmlib.kernels.formula import KernelFormula
    from odmlib.kernels.kernel import Kernel
    from odmlib.losses.loss import BandLoss
    from odmlib.solvers.control import Control
    from odmlib.solvers.working_set import solve_working_set

    if not DATA.exists():
        print(f"\nsolver: left out, {DATA} is not here")
        return
    theta = 0.2
    print(
        f"\nsolver: working set to a gap of 1e-3, {threads} thread(s), 200 MB; LIBSVM on one thread, 200 MB"
    )
    print(table_row("problem", "rows", "odmlib", "iterations", "SVR", "ratio", "C-SVC", "ratio"))
    problems = [("svmguide1.libsvm", 16.0, 1.3, 5000), ("german.numer.libsvm", 0.3, 1.0, 5000)]
    problems += [("splice.libsvm.xz", 0.02, 1.0, 5000), ("covtype.binary.5k.libsvm.xz", 2.0, 1.0, 5000)]
    problems += [("covtype.binary.5k.libsvm.xz", 2.0, 100.0, 5000)]
    if not quick:
        problems += [("ijcnn1.libsvm.xz", 2.0, 1.0, 20000), ("a9a.libsvm.xz", 0.05, 1.0, 20000)]
    for name, gamma, C, rows in problems:
        X, y = read_scaled(name, rows)
        started = time.perf_counter()
        result = solve_working_set(
            Kernel(KernelFormula("rbf", gamma=gamma), Dataset.from_any(X), threads),
            y,
            np.full(len(y), C / (1 - theta) ** 2),
            BandLoss(theta, 1.0),
            Control(tol=1e-3),
            cache_bytes=200 << 20,
            threads=threads,
        )
        ours = time.perf_counter() - started
        svr = SVR(kernel="rbf", gamma=gamma, C=C, epsilon=theta, cache_size=200)
        svc = SVC(kernel="rbf", gamma=gamma, C=C, cache_size=200)
        regression, classification = (best_time(partial(peer.fit, X, y), 1) for peer in (svr, svc))
        label = f"{name.split('.libsvm')[0]}, gamma {gamma:g}, C {C:g}"
        times = ours, result.iterations, regression, regression / ours, classification, classification / ours
        end = "" if result.status == "converged" else f" ({result.status}, gap {result.gap:.1e})"
        print(table_row(label, len(y), *times) + end, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="smaller problems, about half a minute")
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # before numpy is imported
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    compare_blocks(options.threads, 5000 if options.quick else 20000)
    compare_scores(options.threads, options.quick)
    compare_solvers(options.threads, options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
