"""Compiled passes of Newton's method on a block of rows of the multi-class kernel machine; joint_block.py
holds the method's statement. Matrices are rows of the block x padded classes, K is the block's kernel matrix."""

from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.types cimport index_t, int32_t
from odmlib.losses.class_block cimport odm_class_block, odm_class_row
from odmlib.solvers._joint cimport JointMultipliers, odm_class_row_of, odm_joint

cdef extern from "dense.h" nogil:
    const index_t ODM_FACTOR_BLOCK
    index_t odm_factor_line(index_t n) noexcept
    void odm_add_rows(const void **rows, bint wide, const double *factors, index_t n_rows, index_t n_columns,
                      double *sums, int n_threads) noexcept
    index_t odm_cholesky(double *matrix, index_t n, index_t stride, double *work, int n_threads) noexcept
    void odm_cholesky_solve(const double *factor, index_t n, index_t stride, double *x) noexcept

cdef index_t HESSIAN_LINES = 64     # of one chunk


def proximal_rows(JointMultipliers state, const index_t[::1] rows, double t, const double[:, ::1] scores,
                  const double[:, ::1] centre, double[:, ::1] zeta, double[::1] beta, double[:, ::1] v):
    """Every row's argmin over its multipliers of conj + <scores, v> + t/2 |v - centre|^2: fills zeta, beta and v."""
    cdef index_t r, l, i, padded = state.padded
    cdef odm_class_row row
    cdef double total
    with nogil:
        for r in range(rows.shape[0]):
            i = rows[r]
            for l in range(padded):
                zeta[r, l] = scores[r, l] - t * centre[r, l]
            row = odm_class_row_of(state.s, i, t, True)
            total = odm_class_block(&row, &zeta[r, 0], state.n_classes, padded, &beta[r])
            for l in range(padded):
                v[r, l] = -zeta[r, l]
            v[r, state.s.labels[i]] += total - beta[r]
            if not state.s.frozen:
                v[r, state.s.others[i]] += beta[r]


def block_gap(JointMultipliers state, const index_t[::1] rows, const double[:, ::1] scores,
              const double[:, ::1] zeta, const double[::1] beta):
    """(sum of the rows' parts of the duality gap, sum of their conjugates)"""
    cdef odm_joint *s = &state.s
    cdef index_t r, l, i
    cdef double gap = 0, conjugate = 0, total, linear, top, f_y, f_q, h, below = 1 - s.theta, xi, eps, above
    with nogil:
        for r in range(rows.shape[0]):
            i = rows[r]
            h, f_y, top, total, linear = s.h[i], scores[r, s.labels[i]], -INFINITY, 0, 0
            for l in range(state.n_classes):
                if l != s.labels[i]:
                    if scores[r, l] > top:
                        top = scores[r, l]
                    if zeta[r, l] > 0:
                        total += zeta[r, l]
                        linear += zeta[r, l] * (below - f_y + scores[r, l])
            xi = max(0.0, below - f_y + top)
            gap += 0.5 * xi * xi / h + 0.5 * h * total * total - linear
            conjugate += 0.5 * h * total * total - below * total
            if s.nu > 0:
                f_q = s.references[i] if s.frozen else scores[r, s.others[i]]
                above = f_y - f_q - 1 - s.theta
                eps = max(0.0, above)
                gap += 0.5 * s.nu * eps * eps / h + 0.5 * h * beta[r] * beta[r] / s.nu - beta[r] * above
                conjugate += (0.5 * h * beta[r] * beta[r] / s.nu
                              + ((s.references[i] if s.frozen else 0.0) + 1 + s.theta) * beta[r])
    return gap, conjugate


def kernel_times(const double[:, ::1] K, const double[:, ::1] x, index_t n_classes):
    """K x; what is 0 in x costs nothing."""
    cdef index_t n = x.shape[0], l, r, n_used
    result = np.zeros((n, x.shape[1]))
    if n == 0:
        return result
    cdef double[:, ::1] out = result
    cdef double[::1] factors = np.empty(n), sums = np.empty(n)
    cdef const void **used = <const void **>malloc(n * sizeof(void *))
    if used is NULL:
        raise MemoryError
    with nogil:
        for l in range(n_classes):
            n_used = 0
            for r in range(n):
                if x[r, l] != 0:
                    used[n_used], factors[n_used] = &K[r, 0], x[r, l]
                    n_used += 1
            if n_used == 0:
                continue
            memset(&sums[0], 0, n * sizeof(double))
            odm_add_rows(used, True, &factors[0], n_used, n, &sums[0], 1)
            for r in range(n):
                out[r, l] = sums[r]
    free(used)
    return result


cdef struct Unknown:            # a multiplier that is not 0: v of its row moves by e_plus - e_minus times it
    index_t row                 # in the block
    int32_t plus, minus         # plus = -1: none
    bint lower                  # zeta, not beta


cdef struct HessianJob:
    const odm_joint *s
    const index_t *rows
    const double *K
    index_t K_line
    const Unknown *unknowns
    index_t n
    double t
    double *H


cdef void hessian_chunk(void *context, index_t chunk) noexcept nogil:
    """Lines of  P'(K + t I)P  plus the losses' own part, up to the diagonal."""
    cdef HessianJob *job = <HessianJob *>context
    cdef index_t p, o
    cdef Unknown a, b
    cdef const double *line
    cdef double *out
    cdef int together
    cdef double h
    for p in range(chunk * HESSIAN_LINES, min((chunk + 1) * HESSIAN_LINES, job.n)):
        a = job.unknowns[p]
        line = job.K + a.row * job.K_line
        out = job.H + p * job.n
        h = job.s.h[job.rows[a.row]]
        for o in range(p + 1):
            b = job.unknowns[o]
            together = ((a.plus == b.plus) & (a.plus >= 0)) - (a.plus == b.minus) - (a.minus == b.plus) + (
                a.minus == b.minus)
            if b.row == a.row:
                out[o] = together * (line[b.row] + job.t)
                if a.lower and b.lower:
                    out[o] += h
                elif o == p:
                    out[o] += h / job.s.nu
            else:
                out[o] = together * line[b.row] if together else 0.0


def count_unknowns(const double[:, ::1] zeta, const double[::1] beta):
    """Number of multipliers that are not 0."""
    return int(np.count_nonzero(zeta)) + int(np.count_nonzero(beta))


def newton_direction(JointMultipliers state, const index_t[::1] rows, const double[:, ::1] K, double t,
                     const double[:, ::1] zeta, const double[::1] beta, const double[:, ::1] residual,
                     const double[:, ::1] image, int threads):
    """d with (I + J K) d = residual for the rows' derivatives -J; `image` is K residual. None: no such d in sight."""
    cdef index_t N = count_unknowns(zeta, beta), r, l, i, p = 0
    direction = np.array(residual)
    if N == 0:
        return direction
    cdef double[:, ::1] d = direction
    cdef double[:, ::1] H = np.empty((N, N))
    cdef double[::1] x = np.empty(N), work = np.empty(odm_factor_line(N) * ODM_FACTOR_BLOCK)
    cdef Unknown *unknowns = <Unknown *>malloc(N * sizeof(Unknown))
    cdef HessianJob job
    cdef index_t bad
    if unknowns is NULL:
        raise MemoryError
    with nogil:
        for r in range(rows.shape[0]):
            i = rows[r]
            for l in range(state.n_classes):
                if zeta[r, l] > 0:
                    unknowns[p] = Unknown(r, state.s.labels[i], <int32_t>l, True)
                    p += 1
            if beta[r] > 0:
                unknowns[p] = Unknown(r, -1 if state.s.frozen else state.s.others[i], state.s.labels[i], False)
                p += 1
        for p in range(N):
            r = unknowns[p].row
            x[p] = -image[r, unknowns[p].minus]
            if unknowns[p].plus >= 0:
                x[p] += image[r, unknowns[p].plus]
        job = HessianJob(&state.s, &rows[0], &K[0, 0], K.strides[0] // <index_t>sizeof(double), unknowns, N, t,
                         &H[0, 0])
        parallel_for((N + HESSIAN_LINES - 1) // HESSIAN_LINES, threads, hessian_chunk, &job)
        bad = odm_cholesky(&H[0, 0], N, N, &work[0], threads)
        if bad == 0:
            odm_cholesky_solve(&H[0, 0], N, N, &x[0])
            for p in range(N):
                r = unknowns[p].row
                d[r, unknowns[p].minus] += x[p]
                if unknowns[p].plus >= 0:
                    d[r, unknowns[p].plus] -= x[p]
    free(unknowns)
    return direction if bad == 0 and np.isfinite(direction).all() else None
