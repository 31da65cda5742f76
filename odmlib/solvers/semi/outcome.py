"""What the search for labels (search.py) returns beside a machine."""

from __future__ import annotations

from dataclasses import dataclass

from odmlib.solvers.control import SolverResult
from odmlib.solvers.semi.assignments import Balance

# why the supervised machine is the result
NO_OPEN_ROWS, NO_WEIGHT, DISAGREEMENT = "no open rows", "no weight", "disagreement"


@dataclass(frozen=True)
class Relaxation:
    """How the relaxation ended (saddle.py)."""

    objective: float
    gap: float
    cuts: int
    members: int
    sweeps: int
    status: str | None


@dataclass(frozen=True)
class LabelSearch:
    """How the labels of the open rows were found."""

    balance: Balance
    supervised_primal: float
    assigned_positive: int  # open rows
    fallback: str | None = None  # why the supervised machine is the result, where it is
    primal: float | None = None  # of the labels found
    disagreement: float = 0.0  # part of the open rows labeled against the supervised machine
    polish_steps: int = 0
    relaxation: Relaxation | None = None


@dataclass
class SemiResult(SolverResult):
    """With signs for all rows."""

    search: LabelSearch | None = None
