"""Multi-class ODM side by side with LIBLINEAR -s 4 (Crammer-Singer) on real sets; and the paper's Table 2.

    python -m benchmarks.mcodm [--sets letter,segment.scale] [--C 0.1,1] [--raw] [--limit 60]
    python -m benchmarks.mcodm --many [--classes 1000] [--rows 100000] [--beside]
    python -m benchmarks.mcodm --kernels [--sets iris,letter] [--C 1,1024] [--limit 60]
    python -m benchmarks.mcodm --table2 [--sets iris,wine.scale] [--repeats 10]
    python -m benchmarks.mcodm --figure2 [--sets letter]

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

Table 2: features to [0,1], stratified splits of 80/20, parameters by 5-fold cross-validation on the
training part from a coarse grid (lambda 2^{0,4,8,12,16}, nu .2 .8, theta .2 .6; C 2^{0,2,..,10} for
LIBLINEAR); accuracy in %, mean and standard deviation over the splits, without and with bias; beside it
the figures of Zhang and Zhou 2017. Without --repeats: 10, on more than 200 rows 4, on more than 600 rows 2.

Figure 2: the margins of a fifth of the rows, which training has not seen, as the number of classes grows;
C by cross-validation on the others.
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
TABLE_SETS = ("iris", "wine.scale", "glass.scale", "svmguide4", "svmguide2", "vowel.scale", "segment.scale")
# accuracy of mcODM and mcSVM in Table 2
PUBLISHED = {
    "iris": (87.3, 84.7),
    "wine.scale": (98.4, 96.5),
    "glass.scale": (68.2, 62.0),
    "vowel.scale": (65.6, 65.4),
    "segment.scale": (96.7, 95.3),
}
NU, THETA = 0.5, 0.2
LADDER = (1.0, 0.3, 0.1, 0.05, 0.02, 0.01, 0.001)
EPOCHS = (5, 15)
FIT_LIMIT = 10.0  # seconds of one fit of Table 2
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
        chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:KERNEL_ROWS])
        X, y = scaled(X)[chosen], y[chosen]
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


# ---------------------------------------------------------------- Figure 2


def text_histogram(margins, low, high, n_bins=25, width=50):
    counts, edges = np.histogram(np.clip(margins, low, high), bins=n_bins, range=(low, high))
    largest = max(1, counts.max())
    for count, edge in zip(counts, edges, strict=False):
        print(f"  {edge:6.2f} {100 * count / len(margins):5.1f}% {'#' * round(width * count / largest)}")


def figure2(names):
    from odmlib.data.folds import stratified_folds

    for name, X, y in loaded(names):
        X = scaled(X)
        n_classes = len(np.unique(y))
        steps = [k for k in (2, 3, 5, 8, 12, 18, 26) if k < n_classes] + [n_classes]
        for k in steps:
            chosen = np.flatnonzero(y < k)
            folds = stratified_folds(y[chosen].astype(np.int64), 5, 0)
            train, test = chosen[folds != 0], chosen[folds == 0]
            inner = stratified_folds(y[train].astype(np.int64), 3, 1)
            found = {}
            for C in (0.1, 1.0, 10.0):
                model = _train_quietly(X[train[inner != 0]], y[train[inner != 0]], C)
                found[C] = np.mean(model.predict(X[train[inner == 0]]) == y[train[inner == 0]])
            C = max(found, key=lambda C: found[C])
            model = _train_quietly(X[train], y[train], C)
            margins = model.margins(X[test], y[test])
            print(
                f"\n{name}, {k} classes, C = {C:g}, {len(test)} rows not seen: accuracy "
                f"{100 * np.mean(margins > 0):.1f}%, margins: mean {margins.mean():.3f}, "
                f"standard deviation {margins.std():.3f}, "
                f"quantiles 5% {np.quantile(margins, 0.05):.3f}, 50% {np.quantile(margins, 0.5):.3f}"
            )
            text_histogram(margins, -2.0, 3.0)
            sys.stdout.flush()


def _train_quietly(X, y, C):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return odmlib.train(X, y, machine="mcodm", kernel="linear", C=C, nu=NU, theta=THETA)


# ---------------------------------------------------------------- Table 2


def accuracy_of_odm(machine, scheme, bias):
    grid = [
        {"lambda_": 2.0**e, "nu": nu, "theta": theta}
        for e, nu, theta in itertools.product((0, 4, 8, 12, 16), (0.2, 0.8), (0.2, 0.6))
    ]

    def fit(X, y, setting, share):
        # lambda is divided by the rows in training: a fold has fewer
        setting = setting | {"lambda_": setting["lambda_"] * share}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return odmlib.train(
                X,
                y,
                machine=machine,
                kernel="linear",
                bias=bias,
                multiclass=scheme,
                threads=1,
                time_limit=FIT_LIMIT,
                **setting,
            ).predict

    return grid, fit


def accuracy_of_liblinear(bias):
    from liblinear.liblinearutil import predict, train

    grid = [2.0**e for e in (0, 2, 4, 6, 8, 10)]

    def fit(X, y, C, share):
        from scipy.sparse import csr_matrix

        model = train(y, csr_matrix(X), f"-s 4 -c {C!r} -B {bias} -q")
        return lambda Z: np.array(predict([], csr_matrix(Z), model, "-q")[0])

    return grid, fit


def table_line(X, y, grid, fit, repeats):
    from odmlib.data.folds import stratified_folds

    codes = y.astype(np.int64)
    found = []
    for repeat in range(repeats):
        parts = stratified_folds(codes, 5, 1000 + repeat)
        train, test = np.flatnonzero(parts != 0), np.flatnonzero(parts == 0)
        folds = stratified_folds(codes[train], 5, repeat)
        best, setting = -1.0, grid[0]
        for trial in grid:
            right = 0
            for fold in range(5):
                inside, outside = train[folds != fold], train[folds == fold]
                predict = fit(X[inside], y[inside], trial, len(inside) / len(train))
                right += int(np.sum(predict(X[outside]) == y[outside]))
            if right > best:
                best, setting = right, trial
        found.append(100 * np.mean(fit(X[train], y[train], setting, 1.0)(X[test]) == y[test]))
    return f"{np.mean(found):5.1f} +- {np.std(found, ddof=1) if repeats > 1 else 0:3.1f}"


def repeats_for(n_rows):
    return 10 if n_rows <= 200 else 4 if n_rows <= 600 else 2


def table2(names, repeats):
    heads = "set                bias  mcODM         LIBLINEAR -s 4  ODM one-vs-rest  ODM one-vs-one"
    print(heads + "  published mcODM, mcSVM")
    for name, X, y in loaded(names):
        X = np.asarray(X.todense())
        low, high = X.min(axis=0), X.max(axis=0)
        X = (X - low) / np.where(high > low, high - low, 1)
        times = repeats or repeats_for(len(y))
        for bias in (-1, 1):
            cells = [
                table_line(X, y, *method, times)
                for method in (
                    accuracy_of_odm("mcodm", None, bias),
                    accuracy_of_liblinear(bias),
                    accuracy_of_odm("odm", "ovr", bias),
                    accuracy_of_odm("odm", "ovo", bias),
                )
            ]
            published = ", ".join(map(str, PUBLISHED.get(name, ()))) if bias < 0 else ""
            word = "none" if bias < 0 else "1"
            print(
                f"{name:18} {word:5} {cells[0]}   {cells[1]}     {cells[2]}      {cells[3]}     {published}",
                flush=True,
            )


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", default=None)
    parser.add_argument("--C", default="0.1,1")
    parser.add_argument("--raw", action="store_true", help="features as they are in the files")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one run")
    parser.add_argument("--table2", action="store_true")
    parser.add_argument("--repeats", type=int, default=None)
    parser.add_argument("--figure2", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100_000)
    args = parser.parse_args(argv)
    costs = [float(text) for text in args.C.split(",")]
    if args.many:
        many(args.classes, args.rows, costs, args.limit, args.beside)
        return 0
    if args.kernels:
        kernels(args.sets.split(",") if args.sets else KERNEL_SETS, costs, args.limit)
        return 0
    if args.figure2:
        figure2(args.sets.split(",") if args.sets else ("letter",))
        return 0
    try:
        import liblinear.liblinearutil  # noqa: F401
    except ImportError:
        print("liblinear-official is not installed", file=sys.stderr)
        return 1
    train_ours(np.eye(3), np.arange(3.0), 1.0, {})  # modules are loaded once, not in every process
    names = args.sets.split(",") if args.sets else TABLE_SETS if args.table2 else SPEED_SETS
    if args.table2:
        table2(names, args.repeats)
        return 0
    for name, X, y in loaded(names):
        for C in costs:
            compare(name, X if args.raw else scaled(X), y, C, args.limit)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
