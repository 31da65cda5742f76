import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.kernels.cache import RowCache
from odmlib.losses.loss import MarginLoss

Floats = NDArray[np.float64]
Labels = NDArray[np.int8]
Places = NDArray[np.int64]

BLOCK_ROWS: int

class Members:
    n_rows: int
    n_members: int
    duals: Floats
    labels: Labels
    shares: Floats
    mean_labels: Floats
    mix: Floats
    delta: Floats
    def reweigh(self, shares: Floats) -> None: ...
    def squares(self) -> Floats: ...
    def margins(self) -> Floats: ...

class LinearMembers(Members):
    def __init__(
        self,
        rows: Rows,
        loss: MarginLoss,
        costs: Floats,
        duals: Floats,
        labels: Labels,
        shares: Floats,
        seed: int,
        threads: int,
    ) -> None: ...
    def rebuild(self) -> None: ...
    def begin_sweep(self) -> None: ...
    def advance(self, nonzeros: int) -> bool: ...

class KernelMembers(Members):
    block_rows: int
    def __init__(
        self,
        cache: RowCache,
        loss: MarginLoss,
        costs: Floats,
        duals: Floats,
        labels: Labels,
        shares: Floats,
        seed: int,
        threads: int,
    ) -> None: ...
    def clear(self) -> None: ...
    def add_rows(self, rows: Places) -> None: ...
    def block_order(self) -> Places: ...
    def solve(self, rows: Places) -> None: ...

def add_products(cache: RowCache, rows: Places, factors: Floats, sums: Floats, threads: int) -> None: ...
