"""Inverse of the Cholesky factor of a large matrix, in place: n^3/3 multiply-adds, no second matrix.

    A = L L',   A^-1 = X' X  with  X = L^-1,   (A^-1)_ii = sum_k X_ki^2.

The loops are in inverse.h. Not numpy's, whose BLAS brings threads of its own: neither `-j` nor a busy machine
can hold those back, and one call of theirs can then take as long as all of this.
"""

from __future__ import annotations

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.solvers.linalg.dense import STEP_WIDTH, inverse_step, scratch_size


def inverse_factor(matrix: Floats, threads: int = 1) -> bool:
    """Replace a symmetric matrix, of which only the lower triangle is read, by X.

    False if it is not positive definite to the machine; its contents are lost all the same.
    """
    n = len(matrix)
    scratch = np.empty(scratch_size(n))
    for first in range(0, n, STEP_WIDTH):
        if not inverse_step(matrix, first, scratch, threads):
            return False
        matrix[first : first + STEP_WIDTH, first + STEP_WIDTH :] = 0.0
    return True


def inverse_diagonal(inverse: Floats) -> Floats:
    """Diagonal of A^-1 from X."""
    return np.einsum("ij,ij->j", inverse, inverse)


def inverse_product(inverse: Floats, right: Floats) -> Floats:
    """A^-1 right from X."""
    return np.einsum("ij,i->j", inverse, np.einsum("ij,j->i", inverse, right))


def inverse_bytes(n: int) -> int:
    """Memory for a matrix of n rows and the inverse of its factor."""
    return 8 * (n * n + scratch_size(n))
