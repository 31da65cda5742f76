"""Multi-class ODM side by side with LIBLINEAR -s 4 (Crammer-Singer) on real sets.

    python -m benchmarks.mcodm [--sets letter,segment.scale] [--C 0.1,1] [--raw] [--limit 60] [--rows 4000]
    python -m benchmarks.mcodm --many [--classes 1000] [--rows 100000] [--beside]
    python -m benchmarks.mcodm --kernels [--sets iris,letter] [--C 1,1024] [--limit 60]

Speed: one thread (and our default, one per core, on the clock), bias 1, C the weight of one row's loss in
both, features divided by their largest value unless --raw. Each program is to come within 1e-3 of the
minimum of its own objective: ours by its certificate; LIBLINEAR with the largest -e of a ladder whose
objective is that close to the best one of the ladder (the median of several runs where they are short).
Every run is a process of its own, a short one the best of seven there, and both programs go on in turn for
three rounds more: processor seconds of training (other work on the machine counts less than on the
clock), memory (largest resident size less the size before), seconds per epoch (ours: coordinate ascent
over all rows; theirs: the iterations of -e 1, some rows left out). A run that takes more than --limit
seconds is ended and said to be so.

Many classes: generated rows of 128 columns; time, epochs and memory beside a matrix of rows x classes, or,
--beside, LIBLINEAR.

Kernels: rbf with gamma 1/columns and 1 on columns divided by their largest value, at most 3000 rows (drawn
at random), one thread; processor seconds, the gap reached and what the solver did. --limit is on the clock.

The paper's tables and figures: python -m benchmarks.papers
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import odmlib
from benchmarks._common import growth_of_memory, interruptible, n_threads
from odmlib.data.reading import read_data

FOLDER = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SPEED_SETS = ("segment.scale", "letter", "pendigits", "shuttle", "news20", "mnist")
KERNEL_SETS = ("iris", "wine.scale", "glass.scale", "svmguide4", "vowel.scale", "dna.scale", "segment.scale")
KERNEL_SETS += ("pendigits", "letter")
KERNEL_ROWS = 3000
NU, THETA = 0.5, 0.2
LADDER = (1.0, 0.3, 0.1, 0.05, 0.02, 0.01, 0.001)
EPOCHS = (5, 15)
SHORT_SECONDS, SHORT_RUNS = 1.0, 7  # runs below the one are made so often
MORE_ROUNDS = 3  # of both programs in turn, where both are short: the machine's speed changes meanwhile


def load(name):
    for suffix in (".libsvm", ".libsvm.xz"):
        path = FOLDER / (name + suffix)
        if path.exists():
            X, y = read_data(path)
            return X.tocsr(), np.unique(y, return_inverse=True)[1].astype(float)
    return None


def loaded(names):
    """(name, X, y) of the sets that are there; a line for each of the others."""
    for name in names:
        data = load(name)
        if data is None:
            print(f"{name}: not found in {FOLDER}, skipped")
        else:
            yield name, *data


def scaled(X):
    """Columns divided by their largest absolute value."""
    from scipy.sparse import csr_array

    X = csr_array(X)
    largest = np.zeros(X.shape[1])
    np.maximum.at(largest, X.indices, np.abs(X.data))
    largest[largest == 0] = 1
    return csr_array((X.data / largest[X.indices], X.indices, X.indptr), shape=X.shape)


def some_rows(X, y, n):
    """At most n rows, drawn at random, in their order."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:n])
    return X[chosen], y[chosen]


# ---------------------------------------------------------------- runs in processes of their own


def _child(pipe, work, arguments):
    grown, first = growth_of_memory(lambda: work(*arguments))
    pipe.send(first)
    runs = [first]
    if first[0] < SHORT_SECONDS:  # milliseconds vary by a factor on a shared machine
        runs += [work(*arguments) for _ in range(SHORT_RUNS - 1)]
    fastest = min(runs, key=lambda run: run[0])
    if work is train_liblinear:  # its runs end in different places
        fastest = (fastest[0], float(np.median([primal for _, primal, _ in runs])), fastest[2])
    pipe.send((*fastest, grown / 2**20))


def in_process(limit, work, *arguments):
    """The result of work and the MB it took, of a short run the best of several; None after `limit` seconds.

    The limit is on the clock: with one on processor time Linux counts that time in ticks of milliseconds.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, work, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(limit):
            return None
        ours.recv()
        return ours.recv()
    finally:
        process.kill()
        process.join()


def train_ours(X, y, C, options, threads=1):
    """Seconds and report; with more than one thread seconds on the clock."""
    clock = time.process_time if threads == 1 else time.perf_counter
    started = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = odmlib.train(
            X, y, machine="mcodm", kernel="linear", C=C, nu=NU, theta=THETA, threads=threads, **options
        )
    return clock() - started, model.report


def train_liblinear(X, y, C, eps):
    from liblinear.liblinear import parameter, problem
    from liblinear.liblinearutil import train
    from scipy.sparse import csr_matrix

    data = problem(y, csr_matrix(X), 1)
    options = parameter(f"-s 4 -c {C!r} -e {eps!r} -B 1")
    with tempfile.TemporaryFile() as talk:  # it prints its iterations
        kept = os.dup(1)
        os.dup2(talk.fileno(), 1)
        started = time.process_time()
        model = train(data, options)
        seconds = time.process_time() - started
        sys.stdout.flush()
        os.dup2(kept, 1)
        talk.seek(0)
        found = re.search(rb"#iter = *([0-9]+)", talk.read())
    labels = model.get_labels()
    weights = np.array(
        [[*model.get_decfun(place)[0], model.get_decfun(place)[1]] for place in range(len(labels))]
    )
    scores = X @ weights[:, :-1].T + weights[:, -1]
    rows = np.arange(len(y))
    own = np.argsort(labels)[y.astype(int)]
    score = scores[rows, own]
    scores[rows, own] = -np.inf
    primal = 0.5 * np.sum(weights**2) + C * np.maximum(0, 1 - score + scores.max(axis=1)).sum()
    return seconds, float(primal), int(found.group(1)) if found else 0


def ladder(X, y, C, limit):
    """LIBLINEAR's runs (eps, seconds, primal, iterations, MB) as far as they end within the limit."""
    runs = []
    for eps in LADDER:
        run = in_process(limit, train_liblinear, X, y, C, eps)
        if run is None:
            break
        runs.append((eps, *run))
    return runs


def compare(name, X, y, C, limit):
    ours = in_process(limit, train_ours, X, y, C, {})
    all_threads = in_process(limit, train_ours, X, y, C, {}, n_threads())
    options = {"solver": "dcd", "shrinking": False, "tol": 1e-12}
    short, longer = (in_process(limit, train_ours, X, y, C, options | {"max_iter": n}) for n in EPOCHS)
    runs = ladder(X, y, C, limit)
    seconds = math.inf if ours is None else ours[0]
    theirs = math.inf
    if runs:
        best = min(primal for _, _, primal, _, _ in runs)
        eps, theirs, primal, iterations, memory = next(run for run in runs if run[2] <= best * (1 + 1e-3))
    for _ in range(MORE_ROUNDS if max(seconds, theirs) < SHORT_SECONDS else 0):
        seconds = min(seconds, in_process(limit, train_ours, X, y, C, {})[0])
        theirs = min(theirs, in_process(limit, train_liblinear, X, y, C, eps)[0])

    k = len(np.unique(y))
    print(f"\n{name}: {X.shape[0]} x {X.shape[1]}, {X.nnz} values, {k} classes, C = {C:g}")
    epoch = (longer[0] - short[0]) / (EPOCHS[1] - EPOCHS[0]) if short and longer else float("nan")
    if ours is None:
        print(f"  odmlib          more than {limit:g} s, {epoch * 1e3:.1f} ms per epoch")
    else:
        _, report, grown = ours
        details = report["details"]
        print(
            f"  odmlib          {seconds:8.3f} s  gap {report['gap']:.1e}  {report['status']}, "
            f"{report['solver']}, {details['epochs']} epochs, {details['newton_steps']} Newton steps"
            f", {details['outer_steps']} labellings, "
            f"{epoch * 1e3:.1f} ms per epoch, {grown:.0f} MB"
        )
    if len(runs) < len(LADDER):
        print(f"  LIBLINEAR -s 4  -e {LADDER[len(runs)]:g}: more than {limit:g} s")
    if not runs:
        text = "neither ended" if ours is None else f"below {seconds / limit:.2f} end to end"
        print(f"  ratio           {text}", flush=True)
        return
    known = "" if len(runs) == len(LADDER) else " of those that ended"
    print(
        f"  LIBLINEAR -s 4  {theirs:8.3f} s  -e {eps:g}, {(primal - best) / best:.1e} above the best{known}, "
        f"{iterations} iterations, {theirs / max(1, iterations) * 1e3:.1f} ms per iteration, {memory:.0f} MB"
    )
    _, first, _, n_first, _ = runs[0]  # the shortest run leaves out the fewest rows
    per_epoch = epoch / (first / max(1, n_first))
    end = f"{seconds / theirs:8.2f}" if ours is not None else f"above {limit / theirs:.2f}"
    clock = f"{all_threads[0] / theirs:.2f}" if all_threads else "unknown"
    print(
        f"  ratio           {end} end to end ({clock} on the clock with {n_threads()} threads), "
        f"{per_epoch:.2f} per epoch",
        flush=True,
    )


# ---------------------------------------------------------------- many classes


def generated_classes(n_classes, n_rows, n_columns=128, seed=0):
    """Rows like colour histograms of objects: no negative values, many zeros, length 1."""
    random = np.random.default_rng(seed)
    centres = random.gamma(0.3, 1.0, (n_classes, n_columns)) * (random.random((n_classes, n_columns)) < 0.5)
    y = np.arange(n_rows) % n_classes
    X = np.maximum(0, centres[y] * (1 + 0.3 * random.standard_normal((n_rows, n_columns))))
    X += 0.5 * random.random((n_rows, n_columns)) * (random.random((n_rows, n_columns)) < 0.1)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y.astype(float)


def many(n_classes, n_rows, Cs, limit, beside):
    from scipy.sparse import csr_array

    X, y = generated_classes(n_classes, n_rows)
    X = csr_array(X)
    data = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    matrix = 8 * n_rows * n_classes / 2**20
    print(f"{n_rows} x {X.shape[1]}, {X.nnz} values ({data:.0f} MB), {n_classes} classes; a matrix of")
    print(f"rows x classes: {matrix:.0f} MB; weights of all classes: {8 * n_classes * 129 / 2**20:.1f} MB")
    for C in Cs:
        if beside:
            compare("generated", X, y, C, limit)
            continue
        found = in_process(limit, train_ours, X, y, C, {})
        if found is None:
            print(f"  C = {C:g}: more than {limit:g} s", flush=True)
            continue
        seconds, report, memory = found
        details = report["details"]
        print(
            f"  C = {C:g}: {seconds:.1f} s, gap {report['gap']:.1e} {report['status']}, "
            f"{details['epochs']} epochs ({details['row_visits'] / n_rows:.1f} visits of a row), "
            f"{details['active_multipliers'] / n_rows:.2f} active multipliers per row in "
            f"{details['multiplier_bytes'] / 2**20:.0f} MB; in all {memory:.0f} MB",
            flush=True,
        )


# ---------------------------------------------------------------- kernels


def kernels(names, Cs, limit):
    print("set              rows gamma      C  seconds      gap status      blocks Newton steps   J")
    for name, X, y in loaded(names):
        X, y = some_rows(scaled(X), y, KERNEL_ROWS)
        for gamma, C in itertools.product((1 / X.shape[1], 1.0), Cs):
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                report = odmlib.train(
                    X, y, machine="mcodm", kernel="rbf", gamma=gamma, C=C, nu=NU, theta=THETA, threads=1,
                    time_limit=limit,
                ).report  # fmt: skip
            details = report["details"]
            print(
                f"{name:15} {len(y):5} {gamma:5.3f} {C:6g} {time.process_time() - started:8.2f} "
                f"{report['gap']:8.1e} {report['status']:10} {report['iterations']:7} "
                f"{details.get('newton_steps', 0):12}   {details['objective']:.6g}",
                flush=True,
            )


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", default=None)
    parser.add_argument("--C", default="0.1,1")
    parser.add_argument("--raw", action="store_true", help="features as they are in the files")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one run")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rows", type=int, help="of each set, drawn at random; default: all, --many: 100000")
    args = parser.parse_args(argv)
    costs = [float(text) for text in args.C.split(",")]
    if args.many:
        many(args.classes, args.rows or 100_000, costs, args.limit, args.beside)
        return 0
    if args.kernels:
        kernels(args.sets.split(",") if args.sets else KERNEL_SETS, costs, args.limit)
        return 0
    try:
        import liblinear.liblinearutil  # noqa: F401
    except ImportError:
        print("liblinear-multicore is not installed", file=sys.stderr)
        return 1
    train_ours(np.eye(3), np.arange(3.0), 1.0, {})  # modules are loaded once, not in every process
    names = args.sets.split(",") if args.sets else SPEED_SETS
    for name, X, y in loaded(names):
        X, y = some_rows(X if args.raw else scaled(X), y, args.rows or len(y))
        for C in costs:
            compare(name, X, y, C, args.limit)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
