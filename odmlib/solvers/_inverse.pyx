"""One step of inverse.h at a time, so that Python can look at Ctrl-C in between."""

from odmlib._core.types cimport index_t

import numpy as np

cdef extern from "inverse.h" nogil:
    const index_t ODM_STEP_WIDTH
    index_t odm_step_scratch(index_t n) noexcept
    bint odm_inverse_step(double *matrix, index_t n, index_t first, double *scratch, int n_threads) noexcept

STEP_WIDTH = ODM_STEP_WIDTH


def scratch_size(index_t n):
    """Doubles that `inverse_step` works in for a matrix of n rows."""
    return odm_step_scratch(n)


def inverse_step(double[:, ::1] matrix, index_t first, double[::1] scratch, int threads):
    """Take the STEP_WIDTH columns from `first` on; False if the matrix is not positive definite to the machine."""
    cdef index_t n = matrix.shape[0]
    cdef bint positive
    assert matrix.shape[1] == n and 0 <= first < n and scratch.shape[0] >= odm_step_scratch(n)
    with nogil:
        positive = odm_inverse_step(&matrix[0, 0], n, first, &scratch[0], threads)
    return positive
