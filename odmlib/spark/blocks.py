"""Linear machines on rows that are spread over a Spark cluster: solvers/distributed.py with blocks in an RDD.

The rows of a partition become one block in compressed sparse form (a few, where they are very many), which is
cached where it was made. A round of L-BFGS broadcasts the weights, has every block compute its part of the
objective and of the gradient, and adds the parts up. The driver holds a few vectors of the width of the rows,
never rows.

What a block does depends on its arguments only, and parts are added in the order of their blocks' numbers,
whatever order tasks end in: a task that fails and runs again changes not a bit of the model, and nor does
another run on the same partitions. Other partitions give another order of addition and another start, hence a
model that agrees within the certificate: |w - w*|^2 <= 2 (P(w) - P*) <= 2 tol max(1, P).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._version import __version__
from odmlib.data.dataset import MAX_FEATURES, Dataset
from odmlib.data.labels import python_label, show_labels
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.sodm import Sodm
from odmlib.model.functions import LinearFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control
from odmlib.solvers.distributed import Block, solve_lbfgs

if TYPE_CHECKING:
    from pyspark import RDD

Floats = NDArray[np.float64]

BLOCK_VALUES = 1 << 24  # stored values of a block, about: 200 MB
MANY_LABELS = 10  # more are not counted


# ---------------------------------------------------------------------------------------- making blocks


@dataclass(frozen=True)
class RowBlock:
    """Rows as they are cached: signs are +1 for label 1, -1 for label 0 or -1."""

    number: int
    rows: Dataset
    signs: Floats
    weights: Floats
    labels: NDArray[np.float64]  # the different ones, a few

    @property
    def summary(self) -> Summary:
        positive = self.signs > 0
        return Summary(
            self.number,
            self.rows.n_rows,
            self.rows.n_nonzeros,
            self.rows.n_features,
            (float(self.weights[positive].sum()), float(self.weights[~positive].sum())),
            tuple(self.labels.tolist()),
        )


@dataclass(frozen=True)
class Summary:
    """What the driver learns of a block; `fault`: what is wrong with the rows in its place."""

    number: int
    n_rows: int = 0
    n_nonzeros: int = 0
    n_features: int = 0
    class_weights: tuple[float, float] = (0.0, 0.0)  # of the rows with label 1 and of the others
    labels: tuple[float, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class Fault:
    """In the place of a block whose rows cannot be used. An exception in a task would run four times and
    end as a page of Java."""

    number: int
    message: str

    @property
    def summary(self) -> Summary:
        return Summary(self.number, fault=self.message)


def make_block(number: int, rows: Dataset, labels: Floats, weights: Floats) -> RowBlock:
    """ParameterError says what is wrong with labels or weights."""
    wrong = labels[~np.isfinite(labels)]
    if len(wrong):
        raise ParameterError(f"a label is {_shown(wrong[0])}; every label must be 0 or 1, or -1 or +1")
    wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
    if len(wrong):
        raise ParameterError(f"a row weight is {_shown(wrong[0])}; weights must be finite and at least 0")
    known = np.unique(labels)[:MANY_LABELS]
    return RowBlock(number, rows, np.where(labels > 0, 1.0, -1.0), weights, known)


def _shown(value: float) -> str:
    return "missing or not a number" if math.isnan(value) else f"{value:g}"


def blocks_of_rows(partition: int, n_partitions: int, records: Iterable[Any]) -> Iterator[RowBlock | Fault]:
    """Blocks of (vector, label, weight) records; vectors are those of pyspark.ml.linalg."""
    vectors: list[Any] = []
    numbers: list[tuple[float, float]] = []
    n_values, number = 0, partition

    def block() -> RowBlock:
        label_and_weight = np.array(numbers, dtype=np.float64)
        return make_block(number, dataset_of(vectors), label_and_weight[:, 0], label_and_weight[:, 1])

    try:
        for vector, label, weight in records:
            if vector is None:
                raise ParameterError("a row has no features (null)")
            vectors.append(vector)
            numbers.append((math.nan if label is None else label, math.nan if weight is None else weight))
            n_values += len(vector.values)
            if n_values >= BLOCK_VALUES:
                yield block()
                vectors, numbers, n_values, number = [], [], 0, number + n_partitions
        if vectors:
            yield block()
    except ParameterError as error:
        yield Fault(number, str(error))


def dataset_of(vectors: list[Any]) -> Dataset:
    """Dense and sparse vectors of pyspark.ml.linalg, at least one, as rows."""
    width = len(vectors[0])
    for vector in vectors:
        if len(vector) != width:
            raise ParameterError(f"rows have different numbers of features: {width} and {len(vector)}")
    if width > MAX_FEATURES:
        raise ParameterError(f"rows have {width} features; at most {MAX_FEATURES} are possible")
    if not any(hasattr(vector, "indices") for vector in vectors):
        return Dataset.from_any(np.array([vector.array for vector in vectors]), "features")
    columns, values = [], []
    for vector in vectors:
        sparse = hasattr(vector, "indices")
        columns.append(vector.indices if sparse else np.arange(width, dtype=np.int32))
        values.append(vector.values if sparse else vector.array)
    indptr = np.zeros(len(vectors) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in values], out=indptr[1:])
    stored = np.concatenate(values)
    if not np.isfinite(stored).all():
        raise ParameterError("features holds NaN or infinity; every value must be finite")
    return Dataset(indptr, np.concatenate(columns).astype(np.int32), stored, width)


# ---------------------------------------------------------------------------------------- sums over blocks


def tree_sum(parts: RDD, n_partitions: int, depth: int) -> Floats:
    """The sum of (number, vector) records, always in the same order: a tree of `depth` levels in which every
    node adds its parts by ascending number. Spark's treeAggregate adds them as they arrive."""
    fan_in = max(2, math.ceil(n_partitions ** (1 / depth)))
    parts = parts.mapPartitionsWithIndex(lambda index, some: [(index, added(some))])
    while n_partitions > fan_in + math.ceil(n_partitions / fan_in):
        n_partitions = math.ceil(n_partitions / fan_in)
        parts = (
            parts.map(lambda part: (part[0] // fan_in, part)).groupByKey(n_partitions, int).mapValues(added)
        )
    total = added(parts.collect())
    assert total is not None
    return total


def added(parts: Iterable[tuple[int, Floats | None]]) -> Floats | None:
    """None: no parts."""
    total = None
    for _, part in sorted(parts, key=lambda part: part[0]):
        if part is not None:
            total = part if total is None else total + part
    return total


class SparkBlocks:
    """`Blocks` of solvers/distributed.py; `blocks` is a cached RDD of RowBlock."""

    def __init__(self, blocks: RDD, machine: Sodm, n_features: int, total_weight: float, depth: int):
        self.blocks, self.machine, self.depth = blocks, machine, depth
        self.bias = machine.options.bias_value
        self.n_columns = n_features + (self.bias > 0)
        self.total_cost = float(machine.costs(np.array([total_weight]))[0])
        self.n_partitions = blocks.getNumPartitions()

    def sums(self, w: Floats) -> tuple[float, Floats]:
        total = self._run(_losses_and_gradient, w, self._tree_sum)
        return float(total[-1]), total[:-1]

    def one_shot(self) -> Floats:
        return self._run(_one_shot, np.zeros(0), self._tree_sum)

    def margins(self, w: Floats) -> dict[str, float]:
        """Mean, variance and least of the margins; rows count by their weights."""
        found = [part for _, part in sorted(self._run(_margin_sums, w, lambda parts: parts.collect()))]
        costs, means, squares, least = (np.array(column) for column in zip(*found, strict=True))
        mean = float(costs @ means / costs.sum())
        variance = float((squares.sum() + costs @ np.square(means - mean)) / costs.sum())
        return {"mean": mean, "variance": variance, "min": float(least.min())}

    def _tree_sum(self, parts: RDD) -> Floats:
        return tree_sum(parts, self.n_partitions, self.depth)

    def _run(self, of_block: OfBlock, w: Floats, gather: Callable[[RDD], Any]) -> Any:
        """`gather` gets an RDD of (number, what `of_block` makes of the block)."""
        sent = self.blocks.context.broadcast(w)
        machine, bias, total_cost = self.machine, self.bias, self.total_cost

        def part(block: RowBlock) -> tuple[int, Any]:
            costs = machine.costs(block.weights)
            share = float(costs.sum() / total_cost)
            return block.number, of_block(
                Block(block.rows, bias, block.signs, costs, share, block.number), sent.value, machine
            )

        try:
            return gather(self.blocks.map(part))
        finally:
            sent.unpersist()


OfBlock = Callable[[Block, Floats, Sodm], Any]


def _losses_and_gradient(block: Block, w: Floats, machine: Sodm) -> Floats:
    losses, gradient = block.sums(w, machine.loss(), task_threads())
    return np.append(gradient, losses)


def _one_shot(block: Block, w: Floats, machine: Sodm) -> Floats:
    return block.one_shot(machine.loss(), machine.options.seed)


def _margin_sums(block: Block, w: Floats, machine: Sodm) -> tuple[float, float, float, float]:
    """Weight, mean, sum of squares about it, and least of the margins of rows that have weight."""
    with_weight = block.costs > 0
    margins = (block.y * block.data.product(w, task_threads()))[with_weight]
    costs = block.costs[with_weight]
    if not len(costs):
        return 0.0, 0.0, 0.0, math.inf
    mean = float(np.average(margins, weights=costs))
    return float(costs.sum()), mean, float(costs @ np.square(margins - mean)), float(margins.min())


def task_threads() -> int:
    """The cores of a task; sums do not depend on their number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else max(1, int(context.cpus()))


# ---------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class Whole:
    """All blocks together."""

    n_rows: int
    n_nonzeros: int
    n_features: int
    n_blocks: int
    total_weight: float
    labels: NDArray[np.float64]  # that of sign +1 first


def train_blocks(blocks: RDD, options: TrainOptions, depth: int = 2) -> Model:
    """Train on an RDD of RowBlock and Fault; `depth`: of the tree of sums."""
    from pyspark import StorageLevel

    started = time.perf_counter()
    control = Control(options.tol, options.max_iter, options.time_limit, options.callback)
    blocks = blocks.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        whole = joined(blocks.map(lambda block: block.summary).collect())
        machine = Sodm(options, whole.total_weight)
        spread = SparkBlocks(blocks, machine, whole.n_features, whole.total_weight, depth)
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
            result = solve_lbfgs(spread, control)
        if not math.isfinite(result.primal):
            raise ParameterError("training diverges; scale the features or lower C")
        assert result.weights is not None
        margin = spread.margins(result.weights)
    finally:
        blocks.unpersist()
    weights, bias = result.weights[: whole.n_features], options.bias_value
    used = np.flatnonzero(weights).astype(np.int32)
    model = Model(
        options.machine,
        KernelFormula("linear", bias=bias),
        whole.labels,
        whole.n_features,
        LinearFunction(used, weights[used], bias, result.weights[-1] if bias > 0 else 0.0),
        machine.parameters() | {"bias": bias, "tol": float(options.tol)},
        {},
    )
    model.report.update(
        {
            "version": __version__,
            "machine": model.machine,
            "kernel": model.formula.name,
            "parameters": dict(model.parameters),
            "rows": whole.n_rows,
            "features": whole.n_features,
            "nonzeros": whole.n_nonzeros,
            "scheme": model.scheme,
            "labels": [python_label(label) for label in whole.labels],
            "status": result.status,
            "solver": result.solver,
            "iterations": result.iterations,
            "primal": result.primal,
            "dual": result.dual,
            "gap": result.gap,
            "seconds": {"read": None, "train": time.perf_counter() - started, "write": None},
            "threads": None,
            "seed": options.seed,
            "support_vectors": None,
            "margin": margin,
            "details": {"blocks": whole.n_blocks, "partitions": spread.n_partitions},
        }
    )
    return model


def joined(summaries: list[Summary]) -> Whole:
    """ParameterError says why the rows are not a problem of two classes."""
    summaries = sorted(summaries, key=lambda summary: summary.number)
    for summary in summaries:
        if summary.fault:
            raise ParameterError(summary.fault)
    n_rows = sum(summary.n_rows for summary in summaries)
    if n_rows == 0:
        raise ParameterError("the data have no rows; at least two, of different classes, are needed")
    widths = sorted({summary.n_features for summary in summaries})
    if len(widths) > 1:
        raise ParameterError(f"rows have different numbers of features: {widths[0]} and {widths[-1]}")
    if widths[-1] == 0:
        raise ParameterError("rows have no features")
    labels = sorted({label for summary in summaries for label in summary.labels})
    if len(labels) == 1 and labels[0] in (-1, 0, 1):
        raise ParameterError(
            f"all rows have the same label ({labels[0]:g}); two classes are needed, 0 and 1 or -1 and +1"
        )
    if labels not in ([0, 1], [-1, 1]):
        raise ParameterError(
            f"labels must be 0 and 1, or -1 and +1, found {show_labels(np.array(labels), MANY_LABELS)}; "
            "more classes: pyspark.ml.classification.OneVsRest"
        )
    weights = [math.fsum(summary.class_weights[side] for summary in summaries) for side in (0, 1)]
    for label, weight in zip(reversed(labels), weights, strict=True):
        if weight == 0:
            raise ParameterError(
                f"no weight is left for label {label:g}; rows of both classes must have weight"
            )
    return Whole(
        n_rows,
        sum(summary.n_nonzeros for summary in summaries),
        widths[-1],
        len(summaries),
        math.fsum(weights),
        np.array(labels[::-1], dtype=np.float64),
    )
