"""ssODM, the semi-supervised optimal margin distribution machine (spec/ssodm.md).

    min over labels yhat of the unlabeled rows, and w:   1/2 |w|^2 + sum_i lam_i ell(yhat_i f(x_i))
    ell(z) = ( max(0, 1-theta-z)^2 + nu max(0, z-1-theta)^2 ) / (1-theta)^2

lam_i = lambda1 s_i / (sum of the labeled rows' s) and lambda2 s_i / (sum of the unlabeled rows' s), with row
weights s; the number of positive labels found is held between two bounds (assignments.Balance).

1. ODM on the labeled rows alone gives a first assignment.
2. The relaxation over a working set of assignments (solvers/saddle.py) gives a second one; left out
   by default where the data are large.
3. Both are polished: train on the labels, take the best labels for that machine, and so on.
4. The one with the lower objective wins, unless it contradicts the supervised machine on more than
   `max_disagree` of the unlabeled rows: then that machine is the result, and the report says why.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from odmlib.data.labels import python_label, show_labels
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.cache import RowCache, bytes_for_all
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.fitting import Fit, fit_classes
from odmlib.machines.machine import Begin, Effort, Floats, Task
from odmlib.machines.odm import Odm
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.assignments import Assignments, Balance
from odmlib.solvers.control import Control, SolverResult

if TYPE_CHECKING:
    from odmlib._core.rows import Rows
    from odmlib.kernels.kernel import Kernel
    from odmlib.solvers.saddle import KernelEngine, LinearEngine, Saddle

Labels = NDArray[np.int8]

LAMBDA1 = 100.0
KNOWN_SHARE, ESTIMATED_SHARE = 1.0, 0.1  # of lambda2 in lambda1: with the fraction given, and without
MAX_DISAGREE = 0.1  # where the fraction is estimated; given: any disagreement is allowed
MAX_CUTS = 10  # unless the user says, or the relaxation would take too long
CHEAP_VALUES = 1_000_000  # of linear data
MAX_POLISH = 30
TIE_BREAK = 1e-3  # weight of the machine's scores beside the mean label, which has many ties
STORED = ("semi_supervised", "relaxed", "disagreement", "positives_low", "positives_high")  # in the model


class Sums(NamedTuple):
    """Of the row weights, without class weights."""

    labeled: float
    unlabeled: float


def fit_ssodm(
    problem: Problem, formula: KernelFormula, options: TrainOptions, control: Control, init: Model | None
) -> Fit:
    """Train on labeled and unlabeled rows; more than two classes: one-vs-rest, with known fractions only."""
    problem.require_classes("ssodm")
    fractions = class_fractions(problem, options.balance)
    open_rows, sums = problem.codes < 0, _sums(problem)
    if sums.labeled == 0:
        raise ParameterError("every labeled row has weight 0; nothing to learn from")
    fit = fit_classes(
        partial(Ssodm, sums=sums, fractions=fractions), problem, formula, options, control, None
    )
    notes = [result.details.pop("semi_supervised") for result in fit.results]
    notes[0] = notes[0] | {"labeled": int((~open_rows).sum()), "unlabeled": int(open_rows.sum())}
    fit.notes["semi_supervised"] = notes[0] if len(notes) == 1 else {"tasks": notes}
    return fit


def ssodm_weights(problem: Problem, options: TrainOptions) -> tuple[float, float]:
    """(C, lambda2): the weight of one labeled row, which does not change with their number, and of all
    unlabeled ones."""
    known = not isinstance(options.balance, str)
    machine = Ssodm(options, problem.total_weight, _sums(problem), [] if known else None)
    return machine.C, machine.lambda2


def _sums(problem: Problem) -> Sums:
    open_rows = problem.codes < 0
    weights = problem.sample_weights
    return Sums(float(weights[~open_rows].sum()), float(weights[open_rows].sum()))


def class_fractions(problem: Problem, balance: Any) -> list[float] | None:
    """The fraction of each class among the unlabeled rows, where the user gave them."""
    labels, k = problem.labels, len(problem.labels)
    if isinstance(balance, str):
        if k > 2:
            raise ParameterError(
                f"ssodm on {k} classes ({show_labels(labels)}) needs the fraction of each among the "
                "unlabeled rows: balance (--balance) LABEL:FRACTION,...; without them train two classes"
            )
        return None
    if not isinstance(balance, dict):
        if k > 2:
            raise ParameterError(
                f"balance (--balance) {balance:g} is the fraction of one class, but there are {k} "
                f"({show_labels(labels)}); give LABEL:FRACTION,..."
            )
        return [float(balance), 1 - float(balance)]
    known = {python_label(label): float(fraction) for label, fraction in balance.items()}
    names = [python_label(label) for label in labels]
    strange = [label for label in known if label not in names]
    if strange:
        raise ParameterError(
            f"balance (--balance) names label {strange[0]}, which no labeled row has ({show_labels(labels)})"
        )
    if k == 2 and len(known) == 1:
        known |= {name: 1 - fraction for fraction in known.values() for name in names if name not in known}
    missing = [name for name in names if name not in known]
    if missing:
        raise ParameterError(
            f"balance (--balance) says nothing about label {missing[0]}; give every fraction"
        )
    if abs(sum(known.values()) - 1) > 1e-6:
        raise ParameterError(
            f"the fractions of balance (--balance) must sum to 1, found {sum(known.values()):g}"
        )
    return [known[name] for name in names]


@dataclass
class Candidate:
    """Labels for all rows, and the machine trained on them."""

    labels: Labels
    result: SolverResult
    steps: int = 0

    @property
    def scores(self) -> Floats:
        assert self.result.margins is not None
        return self.labels * self.result.margins


@dataclass
class Solver:
    """One task's rows: how to train on labels for some or all of them. Linear and kernel ones differ here."""

    machine: Ssodm
    assignments: Assignments
    costs: Floats
    effort: Effort
    iterations: int = 0
    seen: dict[bytes, Candidate] = field(default_factory=dict)  # by labels: two polishes often meet

    def supervised(self, labeled: NDArray[np.int64]) -> tuple[SolverResult, Floats]:
        """ODM on some rows, in the terms of all of them, and its scores of all rows."""
        raise NotImplementedError

    def solve(self, labels: Labels, start: Candidate | None) -> SolverResult:
        raise NotImplementedError

    def engine(self) -> LinearEngine | KernelEngine:
        raise NotImplementedError

    def relaxation_is_cheap(self) -> bool:
        """Whether the relaxation takes seconds; it seldom changes the labels (docs/ssodm.md)."""
        raise NotImplementedError

    def trained(self, labels: Labels, start: Candidate | None) -> Candidate:
        key = labels.tobytes()
        if key not in self.seen:
            result = self.solve(labels, start)
            self.iterations += result.iterations
            self.seen[key] = Candidate(labels, result)
        return self.seen[key]

    def polished(self, labels: Labels, start: Candidate | None) -> Candidate:
        """Train, relabel, train ... until nothing changes or the objective does not fall."""
        best = self.trained(labels, start)
        for step in range(1, MAX_POLISH + 1):
            if self.effort.control.out_of_time() is not None:
                break
            labels = self.relabeled(best.scores)
            if (labels == best.labels).all():
                break
            new = self.trained(labels, best)
            if not new.result.primal < best.result.primal:
                break
            best = dataclasses.replace(new, steps=step)
        return best

    def relabeled(self, scores: Floats) -> Labels:
        """The labels of least loss for these scores: a row counts by what being positive would save."""
        theta, nu = self.machine.options.theta, self.machine.options.nu

        def loss(margins: Floats) -> Floats:
            short, over = np.maximum(1 - theta - margins, 0), np.maximum(margins - 1 - theta, 0)
            return short * short + nu * over * over

        return self.assignments.best(self.costs * (loss(-scores) - loss(scores)))


class LinearSolver(Solver):
    rows: Rows

    def supervised(self, labeled: NDArray[np.int64]) -> tuple[SolverResult, Floats]:
        result = self._train(
            self.rows.restricted(labeled), self.assignments.given[labeled], self.costs[labeled], None
        )
        assert result.weights is not None
        return result, self.rows.product(result.weights, self.effort.threads)

    def solve(self, labels: Labels, start: Candidate | None) -> SolverResult:
        weights = None if start is None else start.result.weights
        return self._train(self.rows, labels, self.costs, weights)

    def _train(self, rows: Rows, labels: Labels, costs: Floats, start: Floats | None) -> SolverResult:
        from odmlib.solvers.linear import solve_linear

        options = self.machine.options
        return solve_linear(
            rows,
            labels.astype(np.float64),
            costs,
            self.machine.loss(),
            self.effort.control,
            shrinking=options.shrinking,
            threads=self.effort.threads,
            seed=options.seed,
            start=start,
        )

    def relaxation_is_cheap(self) -> bool:
        return self.rows.n_nonzeros + self.rows.n_rows <= CHEAP_VALUES

    def engine(self) -> LinearEngine:
        from odmlib.solvers.saddle import LinearEngine

        return LinearEngine(self.rows, self.machine.loss(), self.costs, self.effort.threads)


class KernelSolver(Solver):
    kernel: Kernel
    cache: RowCache | None = None

    def supervised(self, labeled: NDArray[np.int64]) -> tuple[SolverResult, Floats]:
        from odmlib.solvers.saddle import KernelEngine

        kernel = self.kernel.restricted(labeled)
        kernel.threads = self.effort.threads
        signs = self.assignments.given[labeled]
        budget = min(self.effort.cache_bytes, bytes_for_all(len(labeled), True))
        result = self._train(kernel, signs, self.costs[labeled], None, budget, None)
        assert result.duals is not None and result.margins is not None
        duals, margins = np.zeros(self.kernel.n_rows), np.zeros(self.kernel.n_rows)
        duals[labeled], margins[labeled] = result.duals, result.margins
        result.duals, result.margins = duals, margins
        engine = KernelEngine(self._rows(), self.machine.loss(), self.costs, self.effort.threads)
        products, _ = engine.images((self.assignments.given * duals)[:, None])
        return result, products[:, 0]

    def _rows(self) -> RowCache:
        """The kernel rows that all stages share."""
        from odmlib.solvers.working_set import float32_is_too_coarse

        if self.cache is None:
            wide = float32_is_too_coarse(self.kernel, self.costs)
            self.cache = self.effort.cache
            if self.cache is None or self.cache.wide != wide:
                self.cache = RowCache(self.kernel, self.effort.cache_bytes, wide)
        return self.cache

    def solve(self, labels: Labels, start: Candidate | None) -> SolverResult:
        duals = None
        if start is not None:
            assert start.result.duals is not None
            duals = np.where(labels == start.labels, start.result.duals, 0.0)
        return self._train(self.kernel, labels, self.costs, duals, self.effort.cache_bytes, self._rows())

    def _train(
        self,
        kernel: Kernel,
        labels: Labels,
        costs: Floats,
        start: Floats | None,
        cache_bytes: int,
        cache: RowCache | None,
    ) -> SolverResult:
        from odmlib.solvers.working_set import solve_working_set

        options = self.machine.options
        return solve_working_set(
            kernel,
            labels.astype(np.float64),
            costs,
            self.machine.loss(),
            self.effort.control,
            cache_bytes=cache_bytes,
            shrinking=options.shrinking and kernel.shift == 0,
            threads=self.effort.threads,
            seed=options.seed,
            start=start,
            cache=cache,
        )

    def relaxation_is_cheap(self) -> bool:
        return self._rows().capacity >= self.kernel.n_rows

    def engine(self) -> KernelEngine:
        from odmlib.solvers.saddle import KernelEngine

        return KernelEngine(self._rows(), self.machine.loss(), self.costs, self.effort.threads)


class Ssodm(Odm):
    name = "ssodm"

    def __init__(
        self,
        options: TrainOptions,
        total_weight: float,
        sums: Sums,
        fractions: list[float] | None = None,
    ):
        self.options, self.sums, self.fractions = options, sums, fractions
        if options.C is not None:
            self.lambda1 = float(options.C) * sums.labeled
        else:
            self.lambda1 = LAMBDA1 if options.lambda1 is None else float(options.lambda1)
        self.C, self.lambda_ = self.lambda1 / sums.labeled, self.lambda1
        share = ESTIMATED_SHARE if fractions is None else KNOWN_SHARE
        self.lambda2 = share * self.lambda1 if options.lambda2 is None else float(options.lambda2)
        given = options.max_disagree
        self.max_disagree = (MAX_DISAGREE if fractions is None else 1.0) if given is None else float(given)

    @property
    def relaxation_solver(self) -> str:
        return "master" if self.options.solver == "auto" else self.options.solver

    @property
    def shares_cache(self) -> bool:
        return True

    @staticmethod
    def default_scheme(kernel: str) -> str:
        return "ovr"

    def parameters(self) -> dict[str, Any]:
        return {
            "C": self.C,
            "lambda1": self.lambda1,
            "lambda2": self.lambda2,
            "nu": float(self.options.nu),
            "theta": float(self.options.theta),
            "balance": self.options.balance if self.fractions is None else "fraction",
            "max_disagree": self.max_disagree,
        }

    def extras(self, results: list[SolverResult]) -> dict[str, tuple[float, ...]]:
        notes = [result.details["semi_supervised"] for result in results]
        columns = {
            "semi_supervised": tuple(float(note["branch"] == "semi-supervised") for note in notes),
            "relaxed": tuple(note["J"] for note in notes),
            "disagreement": tuple(note["disagreement"] for note in notes),
            "positives_low": tuple(note["positives"][0] for note in notes),
            "positives_high": tuple(note["positives"][1] for note in notes),
        }
        return {key: values for key, values in columns.items() if None not in values}

    def row_costs(self, signs: Floats, weights: Floats) -> Floats:
        """What each row's loss weighs, divided by (1-theta)^2."""
        per_row = np.where(signs != 0, self.C, self._unlabeled_weight())
        return per_row * weights / (1 - self.options.theta) ** 2

    def _unlabeled_weight(self) -> float:
        return self.lambda2 / self.sums.unlabeled if self.sums.unlabeled > 0 else 0.0

    def costs(self, weights: Floats) -> Floats:
        """A bound for every row, labeled or not."""
        return max(self.C, self._unlabeled_weight()) * weights / (1 - self.options.theta) ** 2

    def solve_linear(self, rows: Rows, task: Task, effort: Effort, start: Floats | None) -> SolverResult:
        solver = self._solver(LinearSolver, task, effort)
        solver.rows = rows
        return self._solve(solver, task)

    def solve_kernel(self, kernel: Kernel, task: Task, effort: Effort, start: Begin | None) -> SolverResult:
        solver = self._solver(KernelSolver, task, effort)
        solver.kernel = kernel
        return self._solve(solver, task)

    def _solver(self, kind: type, task: Task, effort: Effort) -> Any:
        given = task.signs.astype(np.int8)
        wish = str(self.options.balance) if self.fractions is None else self.fractions[task.sides[0]]
        n_open = int((given == 0).sum())
        balance = Balance.of(wish, int((given > 0).sum()), len(given) - n_open, n_open)
        return kind(self, Assignments(given, balance), self.row_costs(task.signs, task.weights), effort)

    def _solve(self, solver: Solver, task: Task) -> SolverResult:
        given, balance = solver.assignments.given, solver.assignments.balance
        labeled, open_rows = np.flatnonzero(given), np.flatnonzero(given == 0)
        first, scores = solver.supervised(labeled)
        solver.iterations += first.iterations
        predicted = np.where(given != 0, given, np.where(scores > 0, 1, -1)).astype(np.int8)
        note: dict[str, Any] = {
            "branch": "supervised",
            "reason": None,
            "J": None,
            "gap": None,
            "P": None,
            "P_supervised": first.primal,
            "disagreement": 0.0,
            "cuts": 0,
            "members": 0,
            "sweeps": 0,
            "relaxation_status": None,
            "polish_steps": 0,
            "positives": [balance.low, balance.high],
            "assigned_positive": int((predicted[open_rows] > 0).sum()),
        }
        if len(open_rows) == 0 or self._unlabeled_weight() == 0:
            note["reason"] = (
                "there are no unlabeled rows" if len(open_rows) == 0 else "the unlabeled rows have no weight"
            )
            return self._finished(solver, first, predicted, scores, note)
        best, saddle = self._search(solver, solver.assignments.best(scores))
        disagreement = float(np.mean(best.labels[open_rows] != predicted[open_rows]))
        note |= {"P": best.result.primal, "disagreement": disagreement, "polish_steps": best.steps}
        if saddle is not None:
            note |= {
                "J": saddle.upper,
                "gap": saddle.gap,
                "cuts": saddle.cuts,
                "members": len(saddle.shares),
                "sweeps": saddle.sweeps,
                "relaxation_status": saddle.status,
            }
            solver.iterations += saddle.sweeps
        if disagreement > self.max_disagree:
            note["reason"] = (
                f"the labels found differ from the supervised machine's on {100 * disagreement:.3g}% of the "
                f"unlabeled rows, more than max_disagree ({100 * self.max_disagree:.3g}%)"
            )
            return self._finished(solver, first, predicted, scores, note)
        note |= {
            "branch": "semi-supervised",
            "assigned_positive": int((best.labels[open_rows] > 0).sum()),
        }
        return self._finished(solver, best.result, best.labels, best.scores, note)

    def _search(self, solver: Solver, first: Labels) -> tuple[Candidate, Saddle | None]:
        """Labels and machine of the lowest objective found."""
        best, saddle = solver.polished(first, None), None
        max_cuts = self.options.max_cuts
        if max_cuts is None:
            max_cuts = MAX_CUTS if solver.relaxation_is_cheap() else 0
        if max_cuts > 0 and solver.effort.control.out_of_time() is None:
            from odmlib.solvers.dcd import duals_from_margins
            from odmlib.solvers.saddle import relax

            engine = solver.engine()
            margins = solver.trained(first, None).result.margins
            assert margins is not None
            saddle = relax(
                engine,
                solver.assignments,
                first,
                solver.effort.control,
                solver=self.relaxation_solver,
                max_cuts=int(max_cuts),
                seed=self.options.seed,
                duals=duals_from_margins(margins, solver.costs, self.loss(), solver.effort.threads),
            )
            mean = saddle.mean_labels
            products, _ = engine.images((saddle.duals * mean)[:, None])
            machine = products[:, 0] / max(float(np.abs(products).max()), 1e-300)
            recovered = solver.assignments.best(mean + TIE_BREAK * machine)
            if (recovered != first).any():
                other = solver.polished(recovered, best)
                if other.result.primal < best.result.primal:
                    best = other
        return best, saddle

    def _finished(
        self, solver: Solver, result: SolverResult, labels: Labels, scores: Floats, note: dict[str, Any]
    ) -> SolverResult:
        """The result for all rows, whatever rows it was trained on."""
        made = result.solver if note["J"] is None else f"{self.relaxation_solver}+{result.solver}"
        return dataclasses.replace(
            result,
            solver=made,
            iterations=solver.iterations,
            margins=labels * scores,
            signs=labels.astype(np.float64),
            details=result.details | {"semi_supervised": note},
        )


def fallback_message(report: dict[str, Any]) -> str | None:
    """Why the supervised machine was returned, where it was."""
    notes = report.get("semi_supervised")
    if notes is None:
        return None
    tasks = notes.get("tasks", [notes])
    failed = [task for task in tasks if task["branch"] == "supervised"]
    if not failed:
        return None
    where = "" if len(tasks) == 1 else f"in {len(failed)} of {len(tasks)} tasks "
    return f"{where}the supervised machine is returned: {failed[0]['reason']}"
