from numpy.typing import ArrayLike

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula

def kernel_scores(
    formula: KernelFormula,
    support: Dataset,
    coefficients: ArrayLike | Dataset,
    test: Dataset,
    threads: int = 1,
    norms: Floats | None = None,
) -> Floats: ...
