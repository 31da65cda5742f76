"""ssODM, the semi-supervised optimal margin distribution machine (docs/internals/mathematics.md).

    min over labels yhat of the unlabeled rows, and w:   1/2 |w|^2 + sum_i lam_i ell(yhat_i f(x_i))
    ell(z) = ( max(0, 1-theta-z)^2 + nu max(0, z-1-theta)^2 ) / (1-theta)^2

lam_i = lambda1 s_i / (sum of the labeled rows' s) and lambda2 s_i / (sum of the unlabeled rows' s), with row
weights s; the number of positive labels found is held between two bounds (assignments.Balance).

solvers/semi/search.py finds the labels. Where they contradict the supervised machine on more than
`max_disagree` of the unlabeled rows, that machine is the result, and the report says why.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from odmlib._core.rows import Rows
from odmlib.data.labels import python_label, show_labels
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.machines.fitting import Fit, fit_classes
from odmlib.machines.machine import Floats, Task
from odmlib.machines.odm import Odm
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED, Control, Resources, SolverResult
from odmlib.solvers.semi.assignments import Assignments, Balance
from odmlib.solvers.semi.outcome import NO_OPEN_ROWS, NO_WEIGHT, LabelSearch, SemiResult

LAMBDA1 = 100.0
KNOWN_SHARE, ESTIMATED_SHARE = 1.0, 0.1  # of lambda2 in lambda1: with the fraction given, and without
MAX_DISAGREE = 0.1  # where the fraction is estimated; given: any disagreement is allowed
REASONS = {
    None: None,
    NO_OPEN_ROWS: "there are no unlabeled rows",
    NO_WEIGHT: "the unlabeled rows have no weight",
}


def fit(
    problem: Problem, formula: KernelFormula, options: TrainOptions, control: Control, init: Model | None
) -> Fit:
    """Train on labeled and unlabeled rows; more than two classes: one-vs-rest, with known fractions only."""
    fractions = class_fractions(problem, options.balance)
    make_machine = partial(Ssodm, problem=problem, fractions=fractions)
    return fit_classes(make_machine, problem, formula, options, control, None)


def ssodm_weights(problem: Problem, options: TrainOptions) -> tuple[float, float]:
    """(C, lambda2): the weight of one labeled row, which does not change with their number, and of all
    unlabeled ones."""
    known = not isinstance(options.balance, str)
    machine = Ssodm(options, problem.total_weight, problem, [] if known else None)
    return machine.C, machine.lambda2


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


class Ssodm(Odm):
    def __init__(
        self, options: TrainOptions, total_weight: float, problem: Problem, fractions: list[float] | None
    ):
        self.options, self.problem, self.fractions = options, problem, fractions
        weights, open_rows = problem.sample_weights, problem.codes < 0
        labeled, unlabeled = float(weights[~open_rows].sum()), float(weights[open_rows].sum())
        if labeled == 0:
            raise ParameterError("every labeled row has weight 0; nothing to learn from")
        self.balance = options.balance if fractions is None else "fraction"  # as reports and files have it
        if options.C is not None:
            self.lambda1 = float(options.C) * labeled
        else:
            self.lambda1 = LAMBDA1 if options.lambda1 is None else float(options.lambda1)
        self.C, self.lambda_ = self.lambda1 / labeled, self.lambda1
        share = ESTIMATED_SHARE if fractions is None else KNOWN_SHARE
        self.lambda2 = share * self.lambda1 if options.lambda2 is None else float(options.lambda2)
        self.unlabeled_weight = self.lambda2 / unlabeled if unlabeled > 0 else 0.0  # of one row
        given = options.max_disagree
        safe = fractions is None and not options.raw  # the published algorithm has no safeguard
        self.max_disagree = (MAX_DISAGREE if safe else 1.0) if given is None else float(given)

    def extras(self, results: list[SolverResult]) -> dict[str, tuple[float, ...]]:
        searches = _searches(results)
        relaxed = tuple(search.relaxation.objective for search in searches if search.relaxation is not None)
        columns: dict[str, tuple[float, ...]] = {
            "semi_supervised": tuple(float(search.fallback is None) for search in searches),
            "relaxed": relaxed,
            "disagreement": tuple(search.disagreement for search in searches),
            "positives_low": tuple(search.balance.low for search in searches),
            "positives_high": tuple(search.balance.high for search in searches),
        }
        return {name: values for name, values in columns.items() if len(values) == len(searches)}

    def notes(self, results: list[SolverResult]) -> dict[str, Any]:
        notes = [self._note(search) for search in _searches(results)]
        n_open = self.problem.n_unlabeled
        notes[0] |= {"labeled": self.problem.rows.n_rows - n_open, "unlabeled": n_open}
        return {"semi_supervised": notes[0] if len(notes) == 1 else {"tasks": notes}}

    def _note(self, search: LabelSearch) -> dict[str, Any]:
        """The report of one task."""
        relaxation = search.relaxation
        return {
            "branch": "semi-supervised" if search.fallback is None else "supervised",
            "reason": self._reason(search),
            "J": None if relaxation is None else relaxation.objective,
            "gap": None if relaxation is None else relaxation.gap,
            "P": search.primal,
            "P_supervised": search.supervised_primal,
            "disagreement": search.disagreement,
            "cuts": 0 if relaxation is None else relaxation.cuts,
            "members": 0 if relaxation is None else relaxation.members,
            "sweeps": 0 if relaxation is None else relaxation.sweeps,
            "raw": bool(self.options.raw),
            "relaxation_status": None if relaxation is None else relaxation.status,
            "polish_steps": search.polish_steps,
            "positives": [search.balance.low, search.balance.high],
            "assigned_positive": search.assigned_positive,
        }

    def _reason(self, search: LabelSearch) -> str | None:
        """Why the supervised machine is the result, where it is."""
        if search.fallback in REASONS:
            return REASONS[search.fallback]
        found, most = (f"{100 * part:.3g}%" for part in (search.disagreement, self.max_disagree))
        return (
            f"the labels found differ from the supervised machine's on {found} of the unlabeled rows, "
            f"more than max_disagree ({most})"
        )

    def costs(self, weights: Floats) -> Floats:
        """A bound for every row, labeled or not."""
        return max(self.C, self.unlabeled_weight) * weights / (1 - self.options.theta) ** 2

    def _solve(
        self, data: Rows | Kernel, task: Task, control: Control, resources: Resources, start: object
    ) -> SolverResult:
        from odmlib.solvers.semi.search import SemiProblem, solve_semi

        options, given = self.options, task.signs.astype(np.int8)
        wish = str(options.balance) if self.fractions is None else self.fractions[task.sides[0]]
        n_open = int((given == 0).sum())
        balance = Balance.of(wish, int((given > 0).sum()), len(given) - n_open, n_open)
        per_row = np.where(task.signs != 0, self.C, self.unlabeled_weight)
        costs = per_row * task.weights / (1 - options.theta) ** 2
        return solve_semi(
            SemiProblem(data, Assignments(given, balance), costs, self.loss()),
            control,
            resources,
            solver="master" if options.solver == "auto" else options.solver,
            max_cuts=options.max_cuts,
            max_disagree=self.max_disagree,
            raw=options.raw,
            shrinking=self.may_shrink(data) if isinstance(data, Kernel) else options.shrinking,
        )

    # the names of the first arguments are others
    solve_linear = solve_kernel = _solve  # type: ignore[assignment]


def _searches(results: list[SolverResult]) -> list[LabelSearch]:
    found = [result.search for result in results if isinstance(result, SemiResult)]
    return [search for search in found if search is not None]


def raw_message(report: dict[str, Any]) -> str | None:
    """What the published algorithm did not reach."""
    notes = report.get("semi_supervised") or {}
    tasks = [task for task in notes.get("tasks", [notes]) if task.get("raw") and task["gap"] is not None]
    missed = [task for task in tasks if task["relaxation_status"] != CONVERGED]
    if not missed:
        return None
    worst = max(missed, key=lambda task: task["gap"])
    return (
        f"the published algorithm (--raw) ended after {worst['sweeps']} steps with a relative gap of at "
        f"most {worst['gap']:.3g}: its labels are no solution of the relaxation; leave --raw out for one"
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
