"""ODMClassifier() against scikit-learn's SVC(), both with their default parameters, on real sets.

    python examples/compare_with_svc.py                        the small sets that come with odmlib
    python examples/compare_with_svc.py letter.xz letter.t.xz  files in LIBSVM format: training set, test set
    python examples/compare_with_svc.py FOLDER                 its pairs NAME.libsvm[.xz], NAME.t.libsvm[.xz]

Prints accuracy on rows that training did not see, and the time of fit and predict together; both machines
run one after the other in the same process, and the least of `--repeat` runs counts. Both take one-vs-one
for more than two classes. odmlib uses all cores of this process unless `--jobs` says otherwise, SVC one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import odmlib
from odmlib.sklearn import ODMClassifier

DATA = Path(__file__).resolve().parent.parent / "data"
OWN_SETS = ("digits", "wdbc", "wine")
SUFFIXES = (".libsvm", ".libsvm.xz")
COLUMNS = ("SVC %", "ODM %", "SVC s", "ODM s", "ratio")


def read_pair(training: Path, test: Path) -> tuple:
    X, y = odmlib.read_data(training)
    X_test, y_test = odmlib.read_data(test)
    width = max(X.shape[1], X_test.shape[1])
    X.resize(X.shape[0], width)
    X_test.resize(X_test.shape[0], width)
    return X, X_test, y, y_test


def split(path: Path) -> tuple:
    """A third of the rows for the test."""
    X, y = odmlib.read_data(path)
    return tuple(train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y))


def sets_of(paths: list[Path], names: list[str] | None) -> Iterator[tuple[str, tuple]]:
    if not paths:
        for name in OWN_SETS:
            yield name, split(DATA / f"{name}.txt")
    elif paths[0].is_dir():
        for test in sorted(file for suffix in SUFFIXES for file in paths[0].glob(f"*.t{suffix}")):
            name = test.name.split(".t.libsvm")[0]
            training = (paths[0] / (name + suffix) for suffix in SUFFIXES)
            found = next((path for path in training if path.exists()), None)
            if found is not None and (names is None or name in names):
                yield name, read_pair(found, test)
    elif len(paths) == 1:
        yield paths[0].name, split(paths[0])
    else:
        yield paths[0].name, read_pair(paths[0], paths[1])


def run(estimator: object, data: tuple, repeat: int, clock: Callable[[], float]) -> tuple[float, float]:
    """(accuracy in percent, least seconds of fit and predict)"""
    X, X_test, y, y_test = data
    seconds = []
    for _ in range(repeat):
        started = clock()
        predicted = estimator.fit(X, y).predict(X_test)
        seconds.append(clock() - started)
    return 100 * float(np.mean(predicted == y_test)), min(seconds)


def main(argv: list[str] | None = None) -> list[tuple[str, float, float, float]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--names", nargs="*", help="only these sets of the folder")
    parser.add_argument("--rows", type=int, default=20_000, help="take at most so many rows (default 20000)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=None, help="threads of odmlib (default: all cores)")
    parser.add_argument("--processor", action="store_true", help="processor time, for busy machines")
    arguments = parser.parse_args(argv)
    clock = time.process_time if arguments.processor else time.perf_counter
    print(f"{'set':17} {'rows':>6} {'columns':>7}", *(f"{each:>8}" for each in COLUMNS))
    found = []
    for name, (X, X_test, y, y_test) in sets_of(arguments.paths, arguments.names):
        kept = np.random.default_rng(0).permutation(len(y))[: arguments.rows]
        tested = np.random.default_rng(1).permutation(len(y_test))[: arguments.rows]
        data = X[kept], X_test[tested], y[kept], y_test[tested]
        # SVC works faster on dense arrays: it gets what suits it
        dense = data[0].nnz > 0.1 * np.prod(data[0].shape)
        if dense:
            data = data[0].toarray(), data[1].toarray(), *data[2:]
        ours = run(ODMClassifier(n_jobs=arguments.jobs), data, arguments.repeat, clock)
        theirs = run(SVC(), data, arguments.repeat, clock)
        ratio = ours[1] / theirs[1]
        print(
            f"{name:17} {len(kept):6} {X.shape[1]:7} {theirs[0]:8.2f} {ours[0]:8.2f} "
            f"{theirs[1]:8.3f} {ours[1]:8.3f} {ratio:8.2f}",
            flush=True,
        )
        found.append((name, theirs[0], ours[0], ratio))
    return found


if __name__ == "__main__":
    main()
