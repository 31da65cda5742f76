"""The search for the labels of ssODM's open rows, and the machine trained on them.

    min over labels yhat of the open rows, and w:   1/2 |w|^2 + sum_i loss_i(yhat_i f(x_i))

1. ODM on the labeled rows alone gives a first assignment.
2. The relaxation over a working set of assignments (saddle.py) gives a second one; it is left out by default
   where the data are large.
3. Both are polished: train on the labels, take the best labels for that machine, and so on.
4. The one with the lower objective wins, unless it contradicts the supervised machine on more than
   `max_disagree` of the open rows: then the supervised machine is the result.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats, Labels
from odmlib.losses.sums import slopes_and_curvatures, values
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.semi.engine import Engine, Saddle, SemiProblem, make_engine
from odmlib.solvers.semi.outcome import (
    DISAGREEMENT,
    NO_OPEN_ROWS,
    NO_WEIGHT,
    LabelSearch,
    Relaxation,
    SemiResult,
)
from odmlib.solvers.semi.published import solve_published
from odmlib.solvers.semi.saddle import TUNING as SADDLE
from odmlib.solvers.semi.saddle import SaddleTuning, relax


@dataclass(frozen=True)
class SearchTuning:
    cheap_values: int = 1_000_000  # of linear data: up to here the relaxation takes seconds
    max_polish: int = 30
    tie_break: float = 1e-3  # weight of the machine's scores beside the mean label, which has many ties
    saddle: SaddleTuning = SADDLE


TUNING = SearchTuning()


def solve_semi(
    problem: SemiProblem,
    control: Control,
    resources: Resources,
    tuning: SearchTuning = TUNING,
    *,
    solver: str = "master",
    max_cuts: int | None = None,
    max_disagree: float = 1.0,
    shrinking: bool = True,
    raw: bool = False,
) -> SemiResult:
    """Find labels and machine; `solver` and `max_cuts` are those of the relaxation (None: by the data).

    `raw`: the published algorithm (published.py) finds the labels, and ODM is trained on them once.
    """
    engine = make_engine(problem, resources, shrinking)
    given, open_rows = problem.assignments.given, problem.assignments.open_rows
    first, scores = engine.supervised(control)
    predicted = np.where(given != 0, given, np.where(scores > 0, 1, -1)).astype(np.int8)
    n_positive = int((predicted[open_rows] > 0).sum())
    search = LabelSearch(problem.assignments.balance, first.primal, n_positive)
    if not problem.costs[open_rows].any():
        search = dataclasses.replace(search, fallback=NO_WEIGHT if len(open_rows) else NO_OPEN_ROWS)
        return _finished(first, predicted, scores, search, first.iterations, first.solver)
    if max_cuts is None and not engine.relaxation_is_cheap(tuning.cheap_values):
        max_cuts = 0
    if max_cuts is not None:
        tuning = dataclasses.replace(tuning, saddle=dataclasses.replace(tuning.saddle, max_cuts=max_cuts))
    trainer = _Trainer(engine, control, tuning)
    saddle: Saddle | None = None
    if raw:
        published = solve_published(engine, control)
        signs = np.where(published.mean_labels > 0, 1, -1)
        best = trainer.trained(np.where(given != 0, given, signs).astype(np.int8), None)
        relaxation = Relaxation(
            published.upper, published.gap, 0, published.members, published.steps, published.status
        )
        search = dataclasses.replace(search, relaxation=relaxation)
    else:
        best, saddle = trainer.best_found(problem.assignments.best(scores), solver)
    disagreement = float(np.mean(best.labels[open_rows] != predicted[open_rows]))
    search = dataclasses.replace(
        search, primal=best.result.primal, disagreement=disagreement, polish_steps=best.steps
    )
    iterations, prefix = first.iterations + trainer.iterations, "smp+" if raw else ""
    if saddle is not None:
        iterations, prefix = iterations + saddle.sweeps, f"{solver}+"
        numbers = saddle.upper, saddle.gap, saddle.cuts, len(saddle.shares), saddle.sweeps, saddle.status
        search = dataclasses.replace(search, relaxation=Relaxation(*numbers))
    if disagreement > max_disagree:
        search = dataclasses.replace(search, fallback=DISAGREEMENT)
        return _finished(first, predicted, scores, search, iterations, prefix + first.solver)
    search = dataclasses.replace(search, assigned_positive=int((best.labels[open_rows] > 0).sum()))
    return _finished(best.result, best.labels, best.scores, search, iterations, prefix + best.result.solver)


def _finished(
    result: SolverResult, labels: Labels, scores: Floats, search: LabelSearch, iterations: int, solver: str
) -> SemiResult:
    """The result for all rows, whatever rows it was trained on."""
    found = vars(result) | {"margins": labels * scores, "signs": labels.astype(np.float64)}
    return SemiResult(**found | {"iterations": iterations, "solver": solver}, search=search)


@dataclass
class _Candidate:
    """Labels for all rows, and the machine trained on them."""

    labels: Labels
    result: SolverResult
    steps: int = 0

    @property
    def scores(self) -> Floats:
        return self.labels * self.result.margins


class _Trainer:
    """Trains on labels, and remembers what it has found: two polishes often meet."""

    def __init__(self, engine: Engine, control: Control, tuning: SearchTuning):
        self.engine, self.control, self.tuning = engine, control, tuning
        self.iterations = 0
        self.known: dict[bytes, _Candidate] = {}

    def best_found(self, first: Labels, solver: str) -> tuple[_Candidate, Saddle | None]:
        """Labels and machine of the lowest objective found, and the relaxation where it was made."""
        best = self.polished(first, None)
        if self.tuning.saddle.max_cuts <= 0 or self.control.out_of_time() is not None:
            return best, None
        engine = self.engine
        margins = self.trained(first, None).result.margins
        slopes = slopes_and_curvatures(engine.loss, margins, engine.costs, engine.resources.threads)[1]
        start = WarmStart(duals=-slopes)
        saddle = relax(engine, first, self.control, start, self.tuning.saddle, solver=solver)
        mean = saddle.mean_labels
        products, _ = engine.images((saddle.duals * mean)[:, None])
        machine = products[:, 0] / max(float(np.abs(products).max()), 1e-300)
        recovered = engine.assignments.best(mean + self.tuning.tie_break * machine)
        if (recovered != first).any():
            other = self.polished(recovered, best)
            if other.result.primal < best.result.primal:
                best = other
        return best, saddle

    def polished(self, labels: Labels, start: _Candidate | None) -> _Candidate:
        """Train, relabel, train ... until nothing changes or the objective does not fall."""
        best = self.trained(labels, start)
        for step in range(1, self.tuning.max_polish + 1):
            if self.control.out_of_time() is not None:
                break
            labels = self.relabeled(best.scores)
            if (labels == best.labels).all():
                break
            new = self.trained(labels, best)
            if not new.result.primal < best.result.primal:
                break
            best = dataclasses.replace(new, steps=step)
        return best

    def trained(self, labels: Labels, start: _Candidate | None) -> _Candidate:
        key = labels.tobytes()
        if key not in self.known:
            before = None if start is None else (start.labels, start.result)
            result = self.engine.solve(labels, self.control, before)
            self.iterations += result.iterations
            self.known[key] = _Candidate(labels, result)
        return self.known[key]

    def relabeled(self, scores: Floats) -> Labels:
        """The labels of least loss for these scores: a row counts by what being positive would save."""
        loss, costs = self.engine.loss, self.engine.costs
        return self.engine.assignments.best(values(loss, -scores, costs) - values(loss, scores, costs))
