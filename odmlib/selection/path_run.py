"""Validation along C: every fold goes from one C to the next, all with the same kernel rows.

A fold is trained on all rows, with weight 0 for those that are left out. Such a row has no part in the
solution, and its score comes with those of the others: prediction costs nothing. So all folds and all C
work on the same rows (linear machines) or on one cache of kernel rows, computed once for every gamma. Each
fold begins where its last C ended. One-vs-one tasks take their part of the cache, and the scores of rows of
other classes come from the whole of it.

Folds work side by side, each with one thread, where all kernel rows fit into the cache; else one after the
other, each with all threads, on a cache that they share.

Leave-one-out from one fit goes along C as well: one training on all rows per C, from which left_out.py tells
what every row would score without itself.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from odmlib._core.arrays import Codes, Floats
from odmlib._core.rows import Rows
from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.kernels.cache import RowCache, bytes_for_all
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.kernels.shift import needed_shift
from odmlib.machines.building import kernel_formula
from odmlib.machines.fitting import WORTHWHILE_ROWS, WORTHWHILE_VALUES, LinearData, fill_all
from odmlib.machines.kmomd import KmOmd, Memory
from odmlib.machines.machine import Machine, Task
from odmlib.machines.tasks import make_tasks
from odmlib.machines.training import PLAIN_MACHINES, train_problem
from odmlib.model.schemes import class_pairs
from odmlib.options import TrainOptions
from odmlib.selection.fold_training import of_whole_set
from odmlib.selection.leave_one_out import LeaveOneOut, leave_one_out_of, left_out_of_task
from odmlib.solvers.control import CONVERGED, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.distributed.low_rank import Features, LowRank
from odmlib.solvers.kernel.q_rows import add_block
from odmlib.solvers.running import TaskRun

SCORED_ROWS = 512  # kernel rows that are added up at a time
WORTH_FACTOR = 10  # trainings of a task, of one of which a factor in vain takes half the time at most


@dataclass(frozen=True)
class Rate:
    """What the validation of one setting says."""

    score: float  # the accuracy on all rows, 0 to 1; regression: the mean squared error
    unfinished: int = 0  # trainings that did not converge


RateCallback = Callable[[int, Rate], object]  # called with the place of a setting, and its rate


class Predictions:
    """The class of every row under every setting, from scores that come in any order."""

    def __init__(self, scheme: str, codes: Codes, n_settings: int, n_classes: int):
        self.codes = codes
        shape = n_settings, len(codes)
        self.predicted = np.zeros(shape, dtype=np.int64)
        self.best = np.full(shape, -np.inf) if scheme == "ovr" else None  # the largest score so far
        self.votes = np.zeros((*shape, n_classes), dtype=np.int32) if scheme == "ovo" else None

    def add(self, place: int, rows: Codes, scores: Floats, sides: tuple[int, int | None]) -> None:
        """Scores of some rows by the machine that divides these classes (None: one class from the others)."""
        first, second = sides
        if self.votes is not None:
            self.votes[place, rows, first] += scores > 0
            self.votes[place, rows, second] += scores <= 0
        elif second is not None:
            self.predicted[place, rows] = np.where(scores > 0, first, second)
        elif self.best is not None:
            best, held = self.best[place, rows], self.predicted[place, rows]
            wins = (scores > best) | ((scores == best) & (first < held))  # the earlier class of equals
            self.best[place, rows[wins]] = scores[wins]
            self.predicted[place, rows[wins]] = first

    def score(self, place: int) -> float:
        if self.votes is not None:
            voted = self.votes[place].any(axis=1)
            self.predicted[place, voted] = self.votes[place, voted].argmax(axis=1)
        return float(np.mean(self.predicted[place] == self.codes))


class TargetPredictions:
    """The same for regression: what is predicted for every row and output."""

    def __init__(self, targets: Floats, n_settings: int):
        self.targets = targets
        self.predicted = np.zeros((n_settings, *targets.shape))

    def add(self, place: int, rows: Codes, scores: Floats, sides: tuple[int, int | None]) -> None:
        self.predicted[place, rows, sides[0]] = scores

    def score(self, place: int) -> float:
        return float(np.mean(np.square(self.predicted[place] - self.targets)))


class FoldPaths:
    """Validation of any number of settings with the same folds; kernel rows stay while the kernel does."""

    def __init__(self, problem: Problem, n_folds: int, seed: int):
        self.problem = problem
        self.n_folds = min(n_folds, problem.rows.n_rows)
        self.places = stratified_folds(problem.codes, self.n_folds, seed)
        self.cache: RowCache | None = None
        self._kernel: tuple[KernelFormula, Kernel, float] | None = None

    def suits(self, options: TrainOptions) -> bool:
        """Whether these options can be validated here."""
        kind = PLAIN_MACHINES.get(options.machine)
        if kind is None or (options.machine == "kmomd" and options.threshold == "none"):
            return False
        formula, machine = kernel_formula(self.problem.rows, options), kind(options, 1.0)
        if options.approx is not None or not machine.shares_cache:
            return False
        if machine.has_weights(formula.name):
            return True
        scheme = machine.scheme(self.problem, formula.name)
        if scheme == "ovo" and bytes_for_all(self.problem.rows.n_rows, True) > options.cache_bytes:
            return False
        return self.kernel_for(formula, options)[1] == 0  # a shift would be the fold's own

    def kernel_for(self, formula: KernelFormula, options: TrainOptions) -> tuple[Kernel, float]:
        """The kernel between all rows, and what it lacks to be positive semidefinite."""
        if self._kernel is None or self._kernel[0] != formula:
            self.cache = None
            rows = self.problem.rows
            kernel = Kernel(
                formula, rows.to_dense() if formula.name == "precomputed" else rows, options.n_threads
            )
            self._kernel = formula, kernel, needed_shift(kernel, options.seed)
        return self._kernel[1:]

    def filled_cache(self, kernel: Kernel, budget: int, wide: bool, control: Control) -> RowCache:
        """A cache of kernel rows; where it can hold all of them, it does."""
        if self.cache is None or self.cache.wide != wide:
            self.cache = None  # gone before the next one fills
            cache = RowCache(kernel, budget, wide)
            if cache.capacity == self.problem.rows.n_rows:
                fill_all(cache, control)
            self.cache = cache
        return self.cache


@dataclass
class PathFold:
    """The rows left out, the classes and weights of the others, and where each task's last C ended."""

    outside: Codes
    present: Codes
    weights: Floats  # of all rows, 0 for those left out
    total_weight: float
    last: dict[int, SolverResult] = field(default_factory=dict)
    coarse: set[int] = field(default_factory=set)  # tasks whose last scores are too coarse to go on with
    memory: dict[int, Memory] = field(default_factory=dict)  # of kmomd


@dataclass(frozen=True)
class PathStep:
    """One C of one task of one fold; `output` is the number that TaskRun knows it by."""

    output: int
    place: int  # of C
    fold: PathFold
    task: Task
    before: threading.Event | None  # set when the last C of this task is done
    done: threading.Event


class PathRun:
    """Validates settings that differ in C only and ascend in it; `on_rate` is called with each rate.

    It is not called for settings that the control's time limit cut short.
    """

    side_by_side = True

    def __init__(
        self, paths: FoldPaths, settings: Sequence[TrainOptions], control: Control, on_rate: RateCallback
    ):
        self.paths, self.problem, self.control, self.on_rate = paths, paths.problem, control, on_rate
        first = settings[0]
        self.formula = kernel_formula(self.problem.rows, first)
        # gamma and C are those of the whole set, whatever the rows of a fold and lambda would make them
        self.settings = [of_whole_set(self.problem, options, self.formula.gamma) for options in settings]
        machine = self.machine(first, 1.0)
        self.scheme = machine.scheme(self.problem, self.formula.name)
        self.linear = machine.has_weights(self.formula.name)
        self.low_rank: LowRank | None = None
        self.threads, self.budget = first.n_threads, first.cache_bytes
        self.weights = self.problem.weights
        targets = self.problem.targets
        self.predictions: Predictions | TargetPredictions
        if targets is None:
            sizes = len(settings), len(self.problem.labels)
            self.predictions = Predictions(self.scheme, self.problem.codes, *sizes)
        else:
            self.predictions = TargetPredictions(targets, len(settings))
        self.folds = []
        for fold in self.make_folds():
            if len(fold.present) >= (2 if targets is None else 1):
                self.folds.append(fold)
            elif isinstance(self.predictions, Predictions):
                only = fold.present[0] if len(fold.present) else 0
                self.predictions.predicted[:, fold.outside] = only
        self.unfinished: list[set[int]] = [set() for _ in settings]

    def make_folds(self) -> list[PathFold]:
        return [self._fold(number) for number in range(self.paths.n_folds)]

    def _fold(self, number: int) -> PathFold:
        outside = np.flatnonzero(self.paths.places == number)
        weights = self.weights.copy()
        weights[outside] = 0.0
        codes = self.problem.codes
        present = np.unique(codes[weights > 0])
        counted = np.where(np.isin(codes, present), self.problem.sample_weights, 0.0)
        counted[outside] = 0.0
        return PathFold(outside, present, weights, float(counted.sum()))

    def run(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
            self._run_groups()

    def _run_groups(self) -> None:
        for places, cache in self._groups():
            if self.control.out_of_time() is not None:  # the cache may be half full
                return
            if self.scheme == "ovo":
                self._run_pairs(places, cache)
                continue
            work = [
                (place, fold, task) for place in places for fold in self.folds for task in self._tasks(fold)
            ]
            left = {place: sum(step[0] == place for step in work) for place in places}
            for place in places:
                if not left[place]:
                    self._end(place)
            features = None if self.low_rank is None else Features(self.low_rank)
            self._run(work, cache, cache, left, features)

    def _tasks(self, fold: PathFold) -> Iterator[Task]:
        """Two classes, or one-vs-rest; a fold may lack some classes."""
        codes = self.problem.codes
        if self.problem.targets is not None:
            for task in make_tasks(self.problem, self.scheme):
                yield dataclasses.replace(task, weights=fold.weights)
            return
        if len(fold.present) == 2:
            first, second = fold.present.tolist()
            yield Task(0, (first, second), np.where(codes == first, 1.0, -1.0), fold.weights)
            return
        for code in fold.present.tolist():
            yield Task(code, (code, None), np.where(codes == code, 1.0, -1.0), fold.weights)

    def _run_pairs(self, places: list[int], cache: RowCache | None) -> None:
        """One-vs-one: all C of a pair before the next, so that one part of the cache is made at a time."""
        codes, k = self.problem.codes, len(self.problem.labels)
        for first, second in zip(*(pair.tolist() for pair in class_pairs(k)), strict=True):
            rows = np.flatnonzero((codes == first) | (codes == second))
            signs = np.where(codes[rows] == first, 1.0, -1.0)
            work = [
                (place, fold, Task(first * k + second, (first, second), signs, fold.weights[rows], rows))
                for place in places
                for fold in self.folds
                if first in fold.present and second in fold.present
            ]
            features = None if self.low_rank is None else self.low_rank.restricted(rows)
            self._run(work, None if cache is None else cache.restricted(rows), cache, {}, features)
        for place in places:
            self._end(place)

    def _groups(self) -> Iterator[tuple[list[int], RowCache | None]]:
        """Neighbouring C that can do with the same kernel rows, and these; linear machines need none."""
        places = list(range(len(self.settings)))
        first = self.settings[0]
        if self.linear:
            machine = self.machine(first, self.problem.total_weight)
            self.data = LinearData(machine, self.problem, self.formula, self.scheme, None)
            yield places, None
            return
        self.kernel, _ = self.paths.kernel_for(self.formula, first)
        machines = [self.machine(options, self.problem.total_weight) for options in self.settings]
        wide = [machine.wants_float64(self.kernel, self.weights) for machine in machines]
        self.low_rank = self._low_rank(machines)
        if self.low_rank is not None:
            self.budget -= self.low_rank.most_bytes
        begin = 0
        for end in range(1, len(places) + 1):
            if end < len(places) and wide[end] == wide[begin]:
                continue
            cache = self.paths.filled_cache(self.kernel, self.budget, wide[begin], self.control)
            yield places[begin:end], cache
            begin = end
            for fold in self.folds:
                fold.coarse = set(fold.last)

    def _low_rank(self, machines: list[Machine]) -> LowRank | None:
        """What all trainings share where the kernel has little rank, if there are enough of them."""
        if isinstance(machines[0], KmOmd) or not machines[0].loss().smooth:
            return None
        if len(machines) * len(self.folds) < WORTH_FACTOR:
            return None
        costs = [float(machine.costs(self.weights).max()) for machine in machines]
        found = LowRank(self.kernel, (min(costs), max(costs)), self.settings[0].tol, self.budget)
        return found if found.most_rank else None

    def machine(self, options: TrainOptions, total_weight: float, memory: Memory | None = None) -> Machine:
        if options.machine != "kmomd":
            return PLAIN_MACHINES[options.machine](options, total_weight)
        least = min(setting.weights_for(1.0)[1] for setting in self.settings)
        return KmOmd(options, total_weight, memory or Memory(least))

    def _run(
        self,
        work: Iterable[tuple[int, PathFold, Task]],
        cache: RowCache | None,
        whole: RowCache | None,
        left: dict[int, int],
        features: Features | None,
    ) -> None:
        """Train (place of C, fold, task) with the kernel rows in `cache`; `whole` has those of all rows.

        `left`: the number of trainings of each C, after which its rate is known.
        """
        latest: dict[tuple[int, int], threading.Event] = {}
        waiting = deque(place for place in left if left[place])  # rates are told in this order
        steps = []
        for number, (place, fold, task) in enumerate(work):
            key = id(fold), task.output
            before, latest[key] = latest.get(key), threading.Event()
            steps.append(PathStep(number, place, fold, task, before, latest[key]))

        def solve(step: PathStep, control: Control, threads: int) -> SolverResult:
            try:
                if step.before is not None:
                    step.before.wait()
                seed = self.settings[step.place].seed
                return self._solve(step, control, Resources(threads, self.budget, cache, seed, features))
            finally:
                step.done.set()

        def keep(step: PathStep, result: SolverResult) -> None:
            if self.control.out_of_time() is not None:
                return
            if result.status != CONVERGED:
                self.unfinished[step.place].add(id(step.fold))
            self.predictions.add(step.place, *self.left_out(step, result, whole), step.task.sides)
            if step.place in left:
                left[step.place] -= 1
                while waiting and not left[waiting[0]]:
                    self._end(waiting.popleft())

        worthwhile = self.side_by_side and (
            self.problem.rows.n_nonzeros >= WORTHWHILE_VALUES
            if cache is None
            else cache.frozen and cache.n_columns >= WORTHWHILE_ROWS
        )
        TaskRun(self.control, len(steps)).run(
            steps, solve, keep, threads=self.threads, side_by_side=worthwhile
        )

    def _solve(self, step: PathStep, control: Control, resources: Resources) -> SolverResult:
        fold, task = step.fold, step.task
        machine = self.machine(self.settings[step.place], fold.total_weight, fold.memory.get(task.output))
        if isinstance(machine, KmOmd) and machine.memory is not None:
            fold.memory[task.output] = machine.memory
        last = fold.last.get(task.output)
        if self.linear:
            rows = self.data.rows
            if task.rows is not None:
                rows = Rows(self.data.dataset.take(task.rows), self.formula.bias)
            start = None if last is None else WarmStart(last.weights)
            result = machine.solve_linear(rows, task, control, resources, start)
        else:
            kernel = self.kernel if resources.cache is None else resources.cache.kernel
            start = None if last is None else machine.start_from(last, task)
            if start is not None and task.output in fold.coarse:
                start = WarmStart(duals=start.duals)
            result = machine.solve_kernel(kernel, task, control, resources, start)
        fold.last[task.output] = result
        fold.coarse.discard(task.output)
        return result

    def left_out(self, step: PathStep, result: SolverResult, whole: RowCache | None) -> tuple[Codes, Floats]:
        """The rows that the machine has not seen, and their scores."""
        task, rows = step.task, step.fold.outside
        if task.targets is not None:
            return rows, (result.margins + task.targets)[rows]
        if task.rows is None:
            return rows, (task.signs * result.margins)[rows]
        return rows, self.all_scores(task, result, whole)[rows]

    def all_scores(self, task: Task, result: SolverResult, whole: RowCache | None) -> Floats:
        """Scores of all rows of the data by a machine trained on some of them."""
        if whole is None or task.rows is None:
            return self.data.rows.product(result.weights, self.threads) - result.offset
        scores = np.full(self.problem.rows.n_rows, -result.offset)
        support = np.flatnonzero(result.duals)
        for begin in range(0, len(support), SCORED_ROWS):
            some = support[begin : begin + SCORED_ROWS]
            add_block(whole.rows(task.rows[some]), (task.signs * result.duals)[some], scores, self.threads)
        return scores

    def _end(self, place: int) -> None:
        if self.control.out_of_time() is None:
            self.on_rate(place, Rate(self.predictions.score(place), len(self.unfinished[place])))


def leave_one_out_rates(
    paths: FoldPaths, settings: Sequence[TrainOptions], control: Control, on_rate: RateCallback
) -> None:
    """As PathRun, for machines with leave-one-out from one fit."""
    if paths.suits(settings[0]):
        LeaveOneOutRun(paths, settings, control, on_rate).run()
        return
    for place, options in enumerate(settings):  # a kernel that is not positive semidefinite
        if control.out_of_time() is not None:
            return
        limit = None if control.time_limit is None else max(1e-9, control.time_limit - control.seconds())
        options = dataclasses.replace(options, probability=False, callback=control.callback, time_limit=limit)
        model = train_problem(paths.problem, options)
        if control.out_of_time() is not None:
            return
        result = leave_one_out_of(model, paths.problem, options)
        score = result.accuracy if isinstance(result, LeaveOneOut) else result.measures.mean_squared_error
        on_rate(place, Rate(score, int(model.report["status"] != CONVERGED)))


class LeaveOneOutRun(PathRun):
    """One fold from which nothing is left out; each task has all threads."""

    side_by_side = False

    def make_folds(self) -> list[PathFold]:
        return [self._fold(-1)]  # which no row belongs to

    def left_out(self, step: PathStep, result: SolverResult, whole: RowCache | None) -> tuple[Codes, Floats]:
        task = step.task
        machine = self.machine(self.settings[step.place], step.fold.total_weight)
        everyone = np.arange(self.problem.rows.n_rows)
        if task.targets is not None:
            solved = dataclasses.replace(task, targets=task.targets + result.offset)
            found = left_out_of_task(self.problem.rows, self.formula, machine, solved, result.margins)
            return everyone, found.margins + task.targets
        found = left_out_of_task(self.problem.rows, self.formula, machine, task, result.margins)
        if task.rows is None:
            return everyone, task.signs * found.margins
        scores = self.all_scores(task, result, whole)
        scores[task.rows] = task.signs * found.margins
        return everyone, scores
