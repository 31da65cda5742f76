"""Compiled visits of dual coordinate descent with a kernel; dcd.py holds the method's statement."""

from odmlib._core.types cimport index_t
from odmlib.losses.loss cimport MarginLoss


def visit_rows(MarginLoss loss, const index_t[::1] rows, const double[:, ::1] kernel_rows,
               const double[::1] diagonal, const double[::1] y, const double[::1] costs,
               double[::1] duals, double[::1] scores):
    """Minimise over the dual of each row in turn; `scores` always are sum_i a_i y_i k(x_i, .), the diagonal
    included. `kernel_rows[r]` belongs to rows[r]."""
    cdef index_t r, i, j, n = scores.shape[0]
    cdef double own, dual, step
    with nogil:
        for r in range(rows.shape[0]):
            i = rows[r]
            own = diagonal[i]
            dual = loss.dual_argmin(y[i] * scores[i] - own * duals[i], own, costs[i])
            step = y[i] * (dual - duals[i])
            if step != 0:
                duals[i] = dual
                for j in range(n):
                    scores[j] += step * kernel_rows[r, j]
                scores[i] += step * (own - kernel_rows[r, i])  # a shift stands on the diagonal only
