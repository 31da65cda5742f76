import numpy as np
from numpy.typing import ArrayLike, NDArray

from odmlib._core.rows import Rows

def aligned_zeros(*shape: int) -> NDArray[np.float64]: ...

class JointMultipliers:
    n_rows: int
    n_classes: int
    padded: int
    beta: NDArray[np.float64]
    others: NDArray[np.int32]
    wanted: NDArray[np.int32]
    references: NDArray[np.float64]
    margins: NDArray[np.float64]
    best_wrong: NDArray[np.int32]
    best_scores: NDArray[np.float64]
    @property
    def frozen(self) -> bool: ...
    @property
    def n_active(self) -> int: ...
    @property
    def multiplier_bytes(self) -> int: ...
    def zeta(self) -> NDArray[np.float64]: ...
    def set_multipliers(self, zeta: NDArray[np.float64], beta: NDArray[np.float64]) -> None: ...
    def movable(self) -> NDArray[np.int64]: ...

class JointState(JointMultipliers):
    n_columns: int
    weights: NDArray[np.float64]
    largest_violation: float
    visits: int
    def __init__(
        self,
        rows: Rows,
        labels: ArrayLike,
        costs: ArrayLike,
        n_classes: int,
        nu: float,
        theta: float,
        frozen: bool,
        seed: int,
    ) -> None: ...
    def fill_rows(self) -> None: ...
    def rebuild(self) -> None: ...
    def begin(self, weights: NDArray[np.float64]) -> None: ...
    def reassign(self, at_once: bool = False) -> None: ...
    def visit_all(self) -> None: ...
    def begin_epoch(self) -> None: ...
    def advance(self, nonzeros: int, upper: bool = True, lazy: bool = True) -> bool: ...
    def measure(
        self, threads: int = 1, scores: NDArray[np.float64] | None = None
    ) -> tuple[float, float, float, int]: ...
