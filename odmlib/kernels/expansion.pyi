from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from odmlib._core.arrays import Floats, Places
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel

def kernel_scores(
    formula: KernelFormula,
    support: Dataset,
    coefficients: ArrayLike | Dataset,
    test: Dataset,
    threads: int = 1,
    norms: Floats | None = None,
) -> Floats: ...
def symmetric_terms(n: int) -> int: ...
def training_scores(
    kernel: Kernel,
    coefficients: ArrayLike,
    rows: Places | None = None,
    threads: int = 1,
    over: Callable[[], object] | None = None,
) -> Any: ...
