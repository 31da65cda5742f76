"""k-fold cross-validation along C: every fold goes from one C to the next, all with the same kernel rows.

A fold is trained on all rows, with weight 0 for those that are left out. Such a row has no part in the
solution, and its score comes with those of the others: prediction costs nothing. So all folds and all C
work on the same rows (linear machines) or on one cache of kernel rows, computed once for every gamma. Each
fold begins where its last C ended. One-vs-one tasks take their part of the cache, and the scores of rows of
other classes come from the whole of it.

Folds work side by side, each with one thread, where all kernel rows fit into the cache; else one after the
other, each with all threads, on a cache that they share.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.kernels.cache import RowCache, bytes_for_all
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.kernels.shift import needed_shift
from odmlib.machines.fitting import WORTHWHILE_ROWS, WORTHWHILE_VALUES, LinearData, fill_all
from odmlib.machines.kmomd import KmOmd, Memory
from odmlib.machines.machine import Begin, Effort, Machine, Task
from odmlib.machines.odm import Odm
from odmlib.machines.odml import Odml
from odmlib.machines.running import TaskRun
from odmlib.machines.svm import Svm
from odmlib.machines.training import kernel_formula
from odmlib.model.schemes import class_pairs
from odmlib.options import TrainOptions
from odmlib.solvers._working_set import add_block
from odmlib.solvers.control import CONVERGED, Control, SolverResult

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MACHINES: dict[str, type[Machine]] = {"svm": Svm, "odml": Odml, "odm": Odm, "kmomd": KmOmd}
SCORED_ROWS = 512  # kernel rows that are added up at a time


@dataclass(frozen=True)
class Rate:
    """What the validation of one setting says."""

    accuracy: float  # of all rows, 0 to 1
    unfinished: int = 0  # trainings that did not converge


Tell = Callable[[int, Rate], object]  # the place of a setting, and its rate


@dataclass
class Fold:
    """The rows left out, the classes and weights of the others, and where each task's last C ended."""

    outside: Codes
    present: Codes
    weights: Floats  # of all rows, 0 for those left out
    total_weight: float
    last: dict[int, SolverResult] = field(default_factory=dict)
    memory: dict[int, Memory] = field(default_factory=dict)  # of kmomd


@dataclass(frozen=True)
class Job:
    """One C of one task of one fold; `output` is the number that TaskRun knows it by."""

    output: int
    place: int  # of C
    fold: Fold
    task: Task
    before: threading.Event | None  # set when the last C of this task is done
    done: threading.Event


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
        if options.machine not in MACHINES or (options.machine == "kmomd" and options.threshold == "none"):
            return False
        formula = kernel_formula(self.problem.rows, options)
        if is_linear(options, formula):
            return True
        if (
            scheme_of(self.problem, options, formula) == "ovo"
            and bytes_for_all(self.problem.rows.n_rows, True) > options.cache_bytes
        ):
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

    def rates(self, settings: Sequence[TrainOptions], control: Control, tell: Tell) -> None:
        """Validate settings that differ in C only and ascend in it; `tell` hears each as soon as it is known.

        It hears nothing of settings that the control's time limit cut short.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
            PathRun(self, settings, control, tell).run()


class PathRun:
    """One call of FoldPaths.rates."""

    side_by_side = True

    def __init__(self, paths: FoldPaths, settings: Sequence[TrainOptions], control: Control, tell: Tell):
        self.paths, self.problem, self.control, self.tell = paths, paths.problem, control, tell
        first = settings[0]
        self.formula = kernel_formula(self.problem.rows, first)
        self.scheme = scheme_of(self.problem, first, self.formula)
        self.linear = is_linear(first, self.formula)
        self.threads, self.budget = first.n_threads, first.cache_bytes
        # gamma and C are those of the whole set, whatever the rows of a fold and lambda would make them
        self.settings = [of_whole_set(options, self.problem, self.formula) for options in settings]
        self.weights = self.problem.weights
        self.folds = self.make_folds()
        shape = len(settings), self.problem.rows.n_rows
        self.predicted = np.zeros(shape, dtype=np.int64)
        for fold in self.folds:
            if len(fold.present) < 2:
                self.predicted[:, fold.outside] = fold.present[0] if len(fold.present) else 0
        self.folds = [fold for fold in self.folds if len(fold.present) >= 2]
        self.best = np.full(shape, -np.inf) if self.scheme == "ovr" else None  # the largest score so far
        votes = (*shape, len(self.problem.labels))
        self.votes = np.zeros(votes, dtype=np.int32) if self.scheme == "ovo" else None
        self.unfinished: list[set[int]] = [set() for _ in settings]

    def make_folds(self) -> list[Fold]:
        return [self._fold(number) for number in range(self.paths.n_folds)]

    def _fold(self, number: int) -> Fold:
        outside = np.flatnonzero(self.paths.places == number)
        weights = self.weights.copy()
        weights[outside] = 0.0
        codes = self.problem.codes
        present = np.unique(codes[weights > 0])
        counted = np.where(np.isin(codes, present), self.problem.sample_weights, 0.0)
        counted[outside] = 0.0
        return Fold(outside, present, weights, float(counted.sum()))

    def run(self) -> None:
        for places, cache in self._groups():
            if self.scheme == "ovo":
                self._run_pairs(places, cache)
                continue
            work = [
                (place, fold, task) for place in places for fold in self.folds for task in self._tasks(fold)
            ]
            left = {place: sum(job[0] == place for job in work) for place in places}
            for place in places:
                if not left[place]:
                    self._end(place)
            self._run(work, cache, cache, left)

    def _tasks(self, fold: Fold) -> Iterator[Task]:
        """Two classes, or one-vs-rest; a fold may lack some classes."""
        codes = self.problem.codes
        if len(fold.present) == 2:
            first, second = fold.present.tolist()
            yield Task(0, (first, second), np.where(codes == first, 1.0, -1.0), fold.weights)
            return
        for code in fold.present.tolist():
            yield Task(code, (code, None), np.where(codes == code, 1.0, -1.0), fold.weights)

    def _run_pairs(self, places: list[int], cache: RowCache | None) -> None:
        """One-vs-one: all C of a pair before the next, so that one part of the cache is made at a time."""
        assert self.votes is not None
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
            self._run(work, None if cache is None else cache.restricted(rows), cache, {})
        for place in places:
            voted = self.votes[place].any(axis=1)
            self.predicted[place, voted] = self.votes[place, voted].argmax(axis=1)
            self._end(place)

    def _groups(self) -> Iterator[tuple[list[int], RowCache | None]]:
        """Neighbouring C that can do with the same kernel rows, and these; linear machines need none."""
        places = list(range(len(self.settings)))
        first = self.settings[0]
        if self.linear:
            machine = self.machine(first, self.problem.total_weight, self._new_memory())
            self.data = LinearData(machine, self.problem, self.formula, self.scheme, None)
            yield places, None
            return
        self.kernel, _ = self.paths.kernel_for(self.formula, first)
        wide = []
        for options in self.settings:
            machine = self.machine(options, self.problem.total_weight, self._new_memory())
            wide.append(machine.wants_wide_rows(self.kernel, self.weights))
        begin = 0
        for end in range(1, len(places) + 1):
            if end < len(places) and wide[end] == wide[begin]:
                continue
            yield places[begin:end], self._filled(wide[begin])
            begin = end
            for fold in self.folds:
                for result in fold.last.values():  # their scores are too coarse to go on with
                    result.details["scores_known"] = False

    def _filled(self, wide: bool) -> RowCache:
        """A cache of kernel rows; where it can hold all of them, it does."""
        if self.paths.cache is None or self.paths.cache.wide != wide:
            self.paths.cache = None  # gone before the next one fills
            cache = RowCache(self.kernel, self.budget, wide)
            if cache.capacity == self.problem.rows.n_rows:
                fill_all(cache, self.control)
            self.paths.cache = cache
        return self.paths.cache

    def _new_memory(self) -> Memory | None:
        if self.settings[0].machine != "kmomd":
            return None
        return Memory(min(options.weights_for(1.0)[1] for options in self.settings))

    def machine(self, options: TrainOptions, total_weight: float, memory: Memory | None) -> Machine:
        if options.machine == "kmomd":
            return KmOmd(options, total_weight, memory)
        return MACHINES[options.machine](options, total_weight)

    def _run(
        self,
        work: Iterable[tuple[int, Fold, Task]],
        cache: RowCache | None,
        whole: RowCache | None,
        left: dict[int, int],
    ) -> None:
        """Train (place of C, fold, task) with the kernel rows in `cache`; `whole` has those of all rows.

        `left`: the number of trainings of each C, after which its rate is known.
        """
        latest: dict[tuple[int, int], threading.Event] = {}
        jobs = []
        for number, (place, fold, task) in enumerate(work):
            key = id(fold), task.output
            before, latest[key] = latest.get(key), threading.Event()
            jobs.append(Job(number, place, fold, task, before, latest[key]))

        def solve(job: Job, control: Control, threads: int) -> SolverResult:
            try:
                if job.before is not None:
                    job.before.wait()
                return self._solve(job, Effort(control, threads, self.budget, cache))
            finally:
                job.done.set()

        def keep(job: Job, result: SolverResult) -> None:
            if self.control.out_of_time() is not None:
                return
            self._keep(job, result, whole)
            if job.place in left:
                left[job.place] -= 1
                if not left[job.place]:
                    self._end(job.place)

        worthwhile = self.side_by_side and (
            self.problem.rows.n_nonzeros >= WORTHWHILE_VALUES
            if cache is None
            else cache.frozen and cache.n_columns >= WORTHWHILE_ROWS
        )
        TaskRun(self.control, len(jobs)).run(jobs, solve, keep, threads=self.threads, side_by_side=worthwhile)

    def _solve(self, job: Job, effort: Effort) -> SolverResult:
        fold, task = job.fold, job.task
        memory = fold.memory.get(task.output) or self._new_memory()
        if memory is not None:
            fold.memory[task.output] = memory
        machine = self.machine(self.settings[job.place], fold.total_weight, memory)
        last = fold.last.get(task.output)
        if self.linear:
            rows = self.data.rows
            if task.rows is not None:
                rows = Rows(self.data.dataset.take(task.rows), self.formula.bias)
            result = machine.solve_linear(rows, task, effort, None if last is None else last.weights)
        else:
            assert effort.cache is not None
            start = None if last is None else machine.start_from(last, task)
            if start is not None and last is not None and not last.details.get("scores_known", True):
                start = Begin(start.duals)
            result = machine.solve_kernel(effort.cache.kernel, task, effort, start)
        fold.last[task.output] = result
        return result

    def _keep(self, job: Job, result: SolverResult, whole: RowCache | None) -> None:
        """What the machine says of the rows left out."""
        place = job.place
        if result.status != CONVERGED:
            self.unfinished[place].add(id(job.fold))
        rows, scores = self.left_out(job, result, whole)
        first, second = job.task.sides
        if self.votes is not None:
            self.votes[place, rows, first] += scores > 0
            self.votes[place, rows, second] += scores <= 0
        elif second is not None:
            self.predicted[place, rows] = np.where(scores > 0, first, second)
        else:
            assert self.best is not None
            best, held = self.best[place, rows], self.predicted[place, rows]
            wins = (scores > best) | ((scores == best) & (first < held))  # the earlier class of equals
            self.best[place, rows[wins]] = scores[wins]
            self.predicted[place, rows[wins]] = first

    def left_out(self, job: Job, result: SolverResult, whole: RowCache | None) -> tuple[Codes, Floats]:
        """The rows that the machine has not seen, and their scores."""
        task, rows = job.task, job.fold.outside
        assert result.margins is not None
        if task.rows is None:
            return rows, (task.signs * result.margins)[rows]
        return rows, self.all_scores(task, result, whole)[rows]

    def all_scores(self, task: Task, result: SolverResult, whole: RowCache | None) -> Floats:
        """Scores of all rows of the data by a machine trained on some of them."""
        assert task.rows is not None
        if whole is None:
            assert result.weights is not None
            return self.data.rows.product(result.weights, self.threads) - result.offset
        assert result.duals is not None
        scores = np.full(self.problem.rows.n_rows, -result.offset)
        support = np.flatnonzero(result.duals)
        for begin in range(0, len(support), SCORED_ROWS):
            some = support[begin : begin + SCORED_ROWS]
            add_block(whole.rows(task.rows[some]), (task.signs * result.duals)[some], scores, self.threads)
        return scores

    def _end(self, place: int) -> None:
        if self.control.out_of_time() is None:
            accuracy = float(np.mean(self.predicted[place] == self.problem.codes))
            self.tell(place, Rate(accuracy, len(self.unfinished[place])))


def scheme_of(problem: Problem, options: TrainOptions, formula: KernelFormula) -> str:
    """How the classes are trained, as machines/fitting.py decides it."""
    if len(problem.labels) == 2:
        return "binary"
    return options.multiclass or MACHINES[options.machine].default_scheme(formula.name)


def is_linear(options: TrainOptions, formula: KernelFormula) -> bool:
    """Whether the machine has weights of columns rather than of rows."""
    return formula.name == "linear" and MACHINES[options.machine](options, 1.0).linear_solver


def of_whole_set(options: TrainOptions, problem: Problem, formula: KernelFormula) -> TrainOptions:
    """The options for a part of the problem, so that the part tests the machine that all rows would train."""
    options = dataclasses.replace(options, gamma=formula.gamma, probability=False)
    if options.machine == "kmomd":  # whose lambda does not depend on the number of rows
        return options
    return dataclasses.replace(options, C=options.weights_for(problem.total_weight)[0], lambda_=None)
