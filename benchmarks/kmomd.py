"""KM-OMD: the paper's Table 1, and time beside MKLpy: python -m benchmarks.kmomd [--only SETS] [--splits N]

table    test error on random splits; kernel width and lambda by 5-fold cross-validation on the first five
         splits (medians), each threshold by itself. `known`: mean and deviation of an independent run on
         splits of its own; `within`: our mean is at most a standard deviation (the larger of the two) above;
         `paper`: the paper's.
MKLpy    training time at 2,000 rows: ours from the data, gap 0.001; MKLpy's KOMD, same objective, from a
         kernel matrix at hand; the difference of the two gammas. Left out where MKLpy is not installed.

Real sets are read from ../shared/data; features are standardised over the whole set.
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
# name: file, training rows, the independent run's mean and deviation with the midpoint, with kkt; the paper's
SETS = {
    "banana": ("banana.libsvm", 400, (0.1056, 0.0041), (0.1023, 0.0035), 0.1066),
    "heart": ("heart.libsvm", 170, (0.1655, 0.025), (0.1615, 0.038), 0.1585),
    "titanic": ("titanic.libsvm", 150, (0.2480, 0.026), (0.2297, 0.021), 0.2457),
    "diabetes": ("diabetes_scale.libsvm", 468, (0.2353, 0.018), (0.2327, 0.016), 0.2488),
    "german": ("german.numer.libsvm", 700, (0.2603, 0.032), (0.2413, 0.020), 0.2497),
    "ringnorm": ("ringnorm.libsvm.xz", 400, (0.0136, 0.0014), (0.0159, 0.0018), 0.0154),
    "twonorm": ("twonorm.libsvm.xz", 400, (0.0229, 0.0017), (0.0229, 0.0017), 0.0255),
    "image": ("ida_image.libsvm.xz", 1300, (0.0300, 0.0067), (0.0300, 0.0051), 0.0320),
}
LAMBDAS = (1, 0.97, 0.9, 0.8, 0.65, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003)
WIDTHS = (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 8, 32)  # gamma x features
THRESHOLDS = ("midpoint", "kkt")


def read_standardised(name: str):
    import numpy as np

    from odmlib.data.reading import read_data

    X, y = read_data(DATA / name)
    X = X.toarray()
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    return X, np.where(y == y.max(), 1, -1)


def wrong(model, X, y, threshold: str) -> float:
    """Share of rows with the wrong label; kkt does not exist for lambda = 1."""
    from odmlib.machines.kmomd import with_threshold

    if f"theta_{threshold}" not in model.extras:
        return 1.0
    return float((with_threshold(model, threshold).predict(X, threads=1) != y).mean())


def validation_errors(X, y, gamma: float, seed: int):
    """Error of 5-fold cross-validation for every lambda (rows) and threshold (columns); warm paths."""
    import numpy as np

    from odmlib.data.folds import stratified_folds
    from odmlib.machines.kmomd import path

    folds = stratified_folds((y < 0).astype(np.int64), 5, seed)
    errors = np.zeros((len(LAMBDAS), len(THRESHOLDS)))
    for fold in range(5):
        inside, outside = folds != fold, folds == fold
        models = path(X[inside], y[inside], LAMBDAS, gamma=gamma, threads=1)
        for place, model in enumerate(models):
            for column, threshold in enumerate(THRESHOLDS):
                errors[place, column] += wrong(model, X[outside], y[outside], threshold) * outside.sum()
    return errors / len(y)


def table_row(name: str, n_splits: int) -> None:
    import numpy as np

    import odmlib

    started = time.perf_counter()
    file, n_train, *independent, paper = SETS[name]
    X, y = read_standardised(file)
    gammas = np.array(WIDTHS) / X.shape[1]
    rng = np.random.default_rng(0)
    splits = [rng.permutation(len(y)) for _ in range(n_splits)]
    chosen: dict[str, list] = {threshold: [] for threshold in THRESHOLDS}
    for number, split in enumerate(splits[:5]):
        rows = split[:n_train]
        errors = np.array([validation_errors(X[rows], y[rows], float(g), number) for g in gammas])
        for column, threshold in enumerate(THRESHOLDS):
            # the least error is shared by many on small sets: the median of those
            widths, places = np.nonzero(errors[:, :, column] <= errors[:, :, column].min() + 1e-9)
            chosen[threshold].append((np.median(gammas[widths]), np.median(np.array(LAMBDAS)[places])))
    for column, threshold in enumerate(THRESHOLDS):
        gamma, lam = (float(value) for value in np.median(chosen[threshold], axis=0))
        errors = []
        for split in splits:
            inside, outside = split[:n_train], split[n_train:]
            model = odmlib.train(
                X[inside],
                y[inside],
                machine="kmomd",
                lambda_=lam,
                gamma=gamma,
                threshold=threshold,
                threads=1,
            )
            errors.append(float((model.predict(X[outside], threads=1) != y[outside]).mean()))
        mean, deviation = float(np.mean(errors)), float(np.std(errors))
        known, known_deviation = independent[column]
        near = mean - known <= max(deviation, known_deviation)
        print(
            f"{name:>9} {threshold:>9} {mean:8.4f} +- {deviation:.4f}   {known:8.4f} +- {known_deviation:.4f}"
            f" {'yes' if near else 'NO':>7} {paper if column == 0 else '':>8} {gamma * X.shape[1]:8.3g}"
            f" {lam:8.3g} {time.perf_counter() - started:7.1f}",
            flush=True,
        )


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
    parser.add_argument("--only", default=",".join((*SETS, "MKLpy")), help="some of the sets, or MKLpy")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2000, help="rows of the comparison with MKLpy")
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # before numpy is imported
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    if not DATA.exists():
        print(f"left out, {DATA} is not here")
        return 0
    wanted = options.only.split(",")
    if any(name in SETS for name in wanted):
        print(
            f"table: {options.splits} splits; 'width' is gamma x features, 'seconds' since the set was begun"
        )
        print(
            f"{'set':>9} {'threshold':>9} {'error':>8} {'':>9}   {'known':>8} {'':>9} {'within':>7}"
            f" {'paper':>8} {'width':>8} {'lambda':>8} {'seconds':>7}"
        )
    for name in wanted:
        if name in SETS:
            table_row(name, options.splits)
        elif name != "MKLpy":
            parser.error(f"no set '{name}'; there are {', '.join(SETS)} and MKLpy")
    if "MKLpy" in wanted:
        compare_with_mklpy(options.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
