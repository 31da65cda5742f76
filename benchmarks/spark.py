"""ODMClassifier against Spark's own LinearSVC on local[2]: rows to Python, training and scoring.

    python -m benchmarks.spark [--quick] [--rows 1000000] [--repeats 3]
    python -m benchmarks.spark --nystrom skin_nonskin      Nystrom by jobs and in a barrier stage
    python -m benchmarks.spark --dsvrg                     the SODM paper's Algorithm 2 beside Newton's method
    python -m benchmarks.spark --growth 100000,1000000     time, driver memory and bytes moved by rows

Data are drawn by Spark and cached. "cpu" is the processor time of Java, the Python workers and this process
together, which other work on the machine hardly changes; ratios are of medians, within one run. "rows to
Python, RDD" is how rows reached Python before Spark's Arrow batches were used.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks._common import VERDICT, interruptible, parse_arguments

COLUMNS = 20
HANDED_OVER = 0.3  # of the rows
LINEAR_SETS = {"a9a": 1e-2, "ijcnn1": 1e-2, "skin_nonskin": 1e-4}  # of shared/data, and C
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    arguments = parse_arguments(
        __doc__,
        lambda parser: (
            parser.add_argument("--rows", type=int, default=1_000_000),
            parser.add_argument("--repeats", type=int, default=3),
            parser.add_argument("--growth", metavar="ROWS,..."),
            parser.add_argument("--columns", default="20,100", metavar="COLUMNS,...", help="of --growth"),
            parser.add_argument("--dsvrg", action="store_true"),
            parser.add_argument("--nystrom", metavar="SET", help="of shared/data"),
        ),
    )
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        print("pyspark is not installed")
        return 0
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    try:
        if arguments.growth or arguments.nystrom or arguments.dsvrg:
            if arguments.growth:
                sizes = [
                    (int(n), int(d))
                    for d in arguments.columns.split(",")
                    for n in arguments.growth.split(",")
                ]
                growth(spark, [(2000, 20)] if arguments.quick else sizes)
            if arguments.dsvrg:
                dsvrg(spark, ("a9a",) if arguments.quick else LINEAR_SETS)
            if arguments.nystrom:
                nystrom(spark, arguments.nystrom, arguments.repeats)
            return 0
        measure(spark, 20_000 if arguments.quick else arguments.rows, arguments.repeats)
    finally:
        spark.stop()
    return 0


def measure(spark, n, repeats):
    from pyspark.ml.classification import LinearSVC

    from odmlib.spark import ODMClassifier

    print(f"{n} rows of {COLUMNS} features, load {os.getloadavg()[0]:.0f}\n")
    print("| work | seconds | cpu | ratio | cpu ratio |\n|---|---|---|---|---|")
    few = int(HANDED_OVER * n)
    for name, density in (("dense", 1.0), ("sparse", 0.1)):
        some = data(spark, few, density)
        lines(
            f"{few} {name} rows to Python",
            {"RDD": partial(by_rdd, some), "blocks": partial(by_blocks, some)},
            repeats,
            "at most 0.2",
        )
        some.unpersist()
    cost, dense = 1e-3, data(spark, n, 1.0)
    peer, ours = LinearSVC(regParam=1 / (cost * n)), ODMClassifier(C=cost)
    stage = ODMClassifier(C=cost, engine="barrier")
    ways = {"LinearSVC": peer, "ODM, barrier": stage, "ODM": ours}
    models = lines(
        "fit", {name: partial(way.fit, dense) for name, way in ways.items()}, repeats, "at most 1.5"
    )
    rounds(ODMClassifier(C=cost, tol=1e-12, maxIter=8, engine="barrier").fit(dense))
    del models["ODM, barrier"]
    right = {
        name: model.transform(dense).filter("prediction = label").count() for name, model in models.items()
    }
    for name, count in right.items():
        print(f"{name}: {100 * count / n:.3f} % of the training rows")
    odm = models["ODM"]
    print(f"ODM: {odm.report['iterations']} rounds, gap {odm.gap:.1e}\n")
    lines(
        "transform",
        {name: partial(score, model, dense) for name, model in models.items()},
        repeats,
        "at most 2",
    )


def rounds(model):
    """How long a round of a barrier stage took, with its computing."""
    seconds = [point["seconds"] for point in model.report["trace"]]
    found = [1000 * (b - a) for a, b in pairwise(seconds)]
    print(f"{VERDICT}a round of the barrier stage: {min(found):.0f} to {max(found):.0f} ms (target 50)\n")


def path_of(name):
    (path,) = Path("../shared/data").resolve().glob(f"{name}.libsvm*")
    return path


def dsvrg(spark, names):
    """DSVRG and Newton's method to a gap of 0.001 in a barrier stage, beside the objective at 1e-6."""
    import odmlib
    from odmlib.options import TrainOptions
    from odmlib.spark.files import Grammar, file_blocks
    from odmlib.spark.training import train_blocks

    print("| set | C | solver | rounds or stages | seconds | cpu | gap | objective / least - 1 |")
    print("|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for name in names:
        path, C = path_of(name), LINEAR_SETS[name]
        X, y = odmlib.read_data(path)
        least = odmlib.train(X, y, kernel="linear", C=C, tol=1e-6).report["dual"]
        for solver in ("newton", "dsvrg"):
            wall, cpu = time.perf_counter(), tree_seconds()
            options = TrainOptions(machine="sodm", kernel="linear", C=C, solver=solver)
            blocks = file_blocks(spark, str(path), Grammar())
            found = train_blocks(blocks, options, files=True, engine="barrier").report
            wall, cpu = time.perf_counter() - wall, tree_seconds() - cpu
            above = found["primal"] / least - 1
            told = f"{found['iterations']} | {wall:.1f} | {cpu:.1f} | {found['gap']:.1e} | {above:.1e}"
            print(f"| {name} | {C:g} | {solver} | {told} |", flush=True)
            worst = max(worst, above)
    met = "met" if worst <= 1e-3 else "missed"
    print(f"\n{VERDICT}objective above the least, at most: {worst:.1e} (target 0.001): {met}\n", flush=True)


def nystrom(spark, name, repeats):
    """100 landmarks, gamma 10, C 10, and odmlib without Spark for the objective."""
    import odmlib
    from odmlib.options import TrainOptions
    from odmlib.spark.files import Grammar, file_blocks
    from odmlib.spark.training import train_blocks

    path = path_of(name)
    wishes = {"gamma": 10.0, "C": 10.0, "approx": "nystrom", "rank": 100, "seed": 0}
    options = TrainOptions(machine="sodm", kernel="rbf", **wishes)

    def train(engine):
        return train_blocks(file_blocks(spark, str(path), Grammar()), options, files=True, engine=engine)

    print("| work | seconds | cpu | ratio | cpu ratio |\n|---|---|---|---|---|")
    ways = {"by jobs": partial(train, "jobs"), "barrier": partial(train, "barrier")}
    found = lines(f"{name}, Nystrom", ways, repeats, "at most 0.5")
    alone = odmlib.train(*odmlib.read_data(path), machine="sodm", kernel="rbf", **wishes).report
    for way, model in (*((way, model.report) for way, model in found.items()), ("without Spark", alone)):
        print(f"{way}: objective {model['primal']:.8g}, gap {model['gap']:.1e}, {model['iterations']} rounds")


def growth(spark, sizes):
    """What grows with the rows, and what does not."""
    from odmlib.spark import ODMClassifier

    print(f"load {os.getloadavg()[0]:.0f}\n")
    print("| rows | columns | engine | seconds | cpu | rounds | driver, MB | to the driver, kB |")
    print("|---|---|---|---|---|---|---|---|")
    for n, columns in sizes:
        rows = data(spark, n, 1.0, columns)
        for engine in ("jobs", "barrier"):
            wall, cpu = time.perf_counter(), tree_seconds()
            with bytes_to_driver() as sizes:
                model = ODMClassifier(C=1e-3, tol=1e-4, engine=engine).fit(rows)
            wall, cpu = time.perf_counter() - wall, tree_seconds() - cpu
            told = sum(sizes) / 1e3
            memory, iterations = peak_megabytes(), model.report["iterations"]
            found = f"{wall:.1f} | {cpu:.1f} | {iterations} | {memory:.0f} | {told:.0f}"
            print(f"| {n} | {columns} | {engine} | {found} |", flush=True)
        rows.unpersist()


@contextmanager
def bytes_to_driver():
    """A list that the sizes of all that the driver collects are added to."""
    from odmlib.spark import barrier, engine

    sizes, assembled = [], engine.assembled

    def counted(rows):
        rows = list(rows)
        sizes.extend(len(row.data) for row in rows)
        return assembled(rows)

    engine.assembled = barrier.assembled = counted
    try:
        yield sizes
    finally:
        engine.assembled = barrier.assembled = assembled


def peak_megabytes():
    """Of this process: the Python part of the driver."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def data(spark, n, density, columns=COLUMNS):
    """Vectors as VectorAssembler makes them: sparse ones where that is smaller."""
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import functions as F

    names = [f"x{k}" for k in range(columns)]
    rows = spark.range(0, n, 1, 2)
    for k, name in enumerate(names):
        value = F.when(F.rand(100 + k) < density, F.randn(k)).otherwise(0.0)
        rows = rows.withColumn(name, value)
    score = sum((F.col(name) * (1 + k % 3) for k, name in enumerate(names)), F.randn(99) * 3)
    rows = rows.withColumn("label", (score > 0).cast("double"))
    rows = VectorAssembler(inputCols=names, outputCol="features").transform(rows)
    rows = rows.select("features", "label").cache()
    rows.count()
    return rows


def by_rdd(rows):
    return rows.rdd.mapPartitions(lambda some: [sum(len(row[0].values) for row in some)]).sum()


def by_blocks(rows):
    from odmlib.spark.blocks import blocks_of_batches
    from odmlib.spark.engine import Spread
    from odmlib.spark.vectors import vector_struct

    columns = vector_struct(rows, "features").alias("features"), rows.label, rows.label.alias("weight")
    kept = Spread(rows.select(*columns), blocks_of_batches).kept()
    found = sum(summary.moments[0] for _, summary in kept.notes())
    kept.release()
    return found


def score(model, rows):
    model.transform(rows).write.format("noop").mode("overwrite").save()


def lines(work: str, ways: dict[str, Callable], repeats: int, target: str) -> dict:
    """Run all ways in turns after one run that is not counted; a table, and what the last runs gave."""
    found, walls, cpus = {}, {name: [] for name in ways}, {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, way in ways.items():
            wall, cpu = time.perf_counter(), tree_seconds()
            found[name] = way()
            if turn:
                walls[name].append(time.perf_counter() - wall)
                cpus[name].append(tree_seconds() - cpu)
    wall, cpu = ({name: statistics.median(some) for name, some in of.items()} for of in (walls, cpus))
    first = next(iter(ways))
    for name in ways:
        ratios = f"{wall[name] / wall[first]:.2f} | {cpu[name] / cpu[first]:.2f}"
        print(f"| {work}: {name} | {wall[name]:.1f} | {cpu[name]:.1f} | {ratios} |", flush=True)
    ratio = cpu[name] / cpu[first]
    met = "met" if ratio <= float(target.split()[-1]) else "missed"
    print(
        f"\n{VERDICT}{work}: {ratio:.2f} of {first}'s processor time (target {target}): {met}\n", flush=True
    )
    return found


def tree_seconds() -> float:
    """Processor time of this process and all that it started."""
    times, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        times[pid] = sum(int(field) for field in fields[11:15]) / TICKS
    known = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in known} - known:
        known |= more
    return sum(times[pid] for pid in known)


if __name__ == "__main__":
    raise SystemExit(interruptible(main))
