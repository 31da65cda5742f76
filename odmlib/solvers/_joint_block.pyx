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
    void odm_add_multiple(index_t n, double factor, const double *x, double *y) noexcept
    void odm_subtract_products(double *matrix, index_t n, const double *rows, index_t n_rows, int n_threads) noexcept

cdef extern from "inverse.h" nogil:
    const index_t ODM_STEP_WIDTH
    index_t odm_step_scratch(index_t n) noexcept
    bint odm_inverse_step(double *matrix, index_t n, index_t first, double *scratch, int n_threads) noexcept


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


cdef index_t HESSIAN_LINES = 64     # of one chunk


cdef struct Entry:              # a class in play for a row
    index_t row                 # in the block
    double bend                 # of its v alone: t and a part of the loss
    index_t couplings[2]        # that v takes part in, -1: none


cdef class NewtonSystem:
    """(K + t I + losses) w = right over the v of a block that may move, classes tied together row by row.

    A row's v_l may move where zeta_l > 0, for its own class y, and for q where beta > 0. With T and beta written in v the
    loss is h/2 v_y^2 (beta = 0) or h/(2 nu) v_q^2, its sum over the classes is 0, and where zeta and beta are both above 0
    (frozen: too) more such couplings take the place of that: <c, w> = E x  for the pull x of a coupling, E >= 0. So
    B w + C'x = right, C w = E x; B is one matrix per class, and (C B^-1 C' + E) x = C B^-1 right has a row per coupling.
    """

    cdef JointMultipliers state
    cdef int threads
    cdef index_t n_couplings
    cdef const double[:, ::1] K
    cdef index_t[::1] starts            # of the classes' entries
    cdef index_t[::1] squares           # of the classes' matrices in `inverses`
    cdef object entries, compliances    # bytes of Entry; E
    cdef double[::1] inverses
    cdef double[:, ::1] schur
    cdef readonly object couplings      # their matrix; inverse_factor is to follow when all classes are eliminated
    cdef readonly double cost           # multiplications

    def __init__(self, JointMultipliers state, const index_t[::1] rows, const double[:, ::1] K, double t,
                 const double[:, ::1] zeta, const double[::1] beta, int threads):
        cdef const odm_joint *s = &state.s
        cdef index_t n = rows.shape[0], n_classes = state.n_classes, r, l, i, y, q, c, extra
        cdef bint lower, upper, frozen = s.frozen
        cdef double h
        self.state, self.threads, self.K = state, threads, K
        counts = np.zeros(n_classes + 1, dtype=np.int64)
        cdef index_t[::1] place = counts
        cdef int[:, ::1] active = np.zeros((n, 2), dtype=np.int32)
        for r in range(n):
            i = rows[r]
            lower, upper = False, beta[r] > 0
            for l in range(n_classes):
                if zeta[r, l] > 0:
                    lower = True
                    place[l + 1] += 1
            if lower or upper:
                place[s.labels[i] + 1] += 1
            if upper and not frozen:
                place[s.others[i] + 1] += 1
            active[r, 0], active[r, 1] = lower, upper
        self.starts = np.cumsum(counts)
        sizes = counts[1:].astype(np.float64)
        self.squares = np.concatenate([[0], np.cumsum(counts[1:] ** 2)])
        counts[:] = self.starts
        self.entries = bytearray(max(1, self.starts[n_classes]) * sizeof(Entry))
        compliances = np.zeros(2 * n + 1)
        cdef double[::1] E = compliances
        cdef char[::1] memory = self.entries
        cdef Entry *out = <Entry *>&memory[0]
        c = 0
        with nogil:
            for r in range(n):
                if not (active[r, 0] or active[r, 1]):
                    continue
                i = rows[r]
                y, q, h = s.labels[i], s.others[i], s.h[i]
                lower, upper = active[r, 0], active[r, 1]
                # coupling c: the sum over all classes; extra: T
                extra = c + 1 if lower and upper else -1
                for l in range(n_classes):
                    if zeta[r, l] > 0:
                        out[place[l]] = Entry(r, t, [c, extra if frozen else -1])
                        place[l] += 1
                if upper and not frozen:
                    out[place[q]] = Entry(r, t + h / s.nu, [c, extra])
                    place[q] += 1
                if not upper:
                    out[place[y]] = Entry(r, t + h, [c, -1])
                elif not frozen:
                    out[place[y]] = Entry(r, t, [c, extra])
                elif lower:
                    out[place[y]] = Entry(r, t, [c, -1])
                else:
                    out[place[y]] = Entry(r, t + h / s.nu, [-1, -1])
                place[y] += 1
                if frozen and upper and not lower:
                    continue
                E[c] = s.nu / h if frozen and upper else 0.0
                c += 1
                if extra >= 0:
                    E[c] = 1 / h
                    c += 1
        self.n_couplings = c
        self.compliances = compliances[:c]
        self.cost = float((sizes ** 3).sum()) * 5 / 6 + float(c) ** 3 / 3

    def prepare(self):
        """Memory for the matrices."""
        self.inverses = np.empty(max(1, self.squares[self.state.n_classes]))
        self.couplings = np.diag(self.compliances)
        self.schur = self.couplings

    def eliminate(self, index_t l):
        """Invert the matrix of one class and add its part to the couplings' one; False if it is not positive definite."""
        cdef index_t n = self.starts[l + 1] - self.starts[l], a, b, x, z, first = 0, line = odm_factor_line(n)
        if n == 0:
            return True
        cdef char[::1] memory = self.entries
        cdef const Entry *e = <const Entry *>&memory[0] + self.starts[l]
        cdef double[:, ::1] S = self.schur
        cdef double[::1] scratch = np.empty(odm_step_scratch(n)), factor = np.zeros(n * line)
        cdef double *M = &self.inverses[self.squares[l]]
        cdef bint positive = True
        with nogil:
            for a in range(n):
                for b in range(a + 1):
                    M[a * n + b] = self.K[e[a].row, e[b].row]
                M[a * n + a] += e[a].bend
            while positive and first < n:
                positive = odm_inverse_step(M, n, first, &scratch[0], self.threads)
                first += ODM_STEP_WIDTH
            if positive:
                for a in range(n):
                    memcpy(&factor[a * line], M + a * n, (a + 1) * sizeof(double))
                memset(M, 0, n * n * sizeof(double))
                odm_subtract_products(M, n, &factor[0], n, self.threads)
                for a in range(n):
                    for b in range(a + 1):
                        M[a * n + b] = -M[a * n + b]
                        M[b * n + a] = M[a * n + b]
                        if e[a].couplings[0] >= 0 and e[b].couplings[0] >= 0:
                            S[e[a].couplings[0], e[b].couplings[0]] += M[a * n + b]
                        if e[a].couplings[1] >= 0 or e[b].couplings[1] >= 0:
                            for x in range(2):
                                for z in range(1 - x, 2):
                                    # of one row's two couplings only the lower triangle
                                    if (e[a].couplings[x] >= 0 and e[b].couplings[z] >= 0
                                            and e[b].couplings[z] <= e[a].couplings[x]):
                                        S[e[a].couplings[x], e[b].couplings[z]] += M[a * n + b]
        return positive

    def solve(self, const double[:, ::1] right):
        """w where it may differ from 0 (rows x padded classes)."""
        cdef index_t C = self.n_couplings, l, a, x, total = self.starts[self.state.n_classes]
        cdef char[::1] memory = self.entries
        cdef const Entry *e = <const Entry *>&memory[0]
        result = np.zeros((right.shape[0], right.shape[1]))
        cdef double[:, ::1] w = result
        cdef double[::1] given = np.zeros(max(1, total)), found = np.zeros(max(1, total))
        cdef double[::1] pulls = np.zeros(max(1, C)), turned = np.zeros(max(1, C))
        with nogil:
            for l in range(self.state.n_classes):
                for a in range(self.starts[l], self.starts[l + 1]):
                    given[a] = right[e[a].row, l]
            self.times_inverses(&given[0], &found[0])
            for a in range(total):
                for x in range(2):
                    if e[a].couplings[x] >= 0:
                        pulls[e[a].couplings[x]] += found[a]
            for a in range(C):
                for x in range(a + 1):
                    turned[a] += self.schur[a, x] * pulls[x]
            memset(&pulls[0], 0, C * sizeof(double))
            for a in range(C):
                odm_add_multiple(a + 1, turned[a], &self.schur[a, 0], &pulls[0])
            for a in range(total):
                for x in range(2):
                    if e[a].couplings[x] >= 0:
                        given[a] -= pulls[e[a].couplings[x]]
            self.times_inverses(&given[0], &found[0])
            for l in range(self.state.n_classes):
                for a in range(self.starts[l], self.starts[l + 1]):
                    w[e[a].row, l] = found[a]
        return result

    cdef void times_inverses(self, const double *x, double *out) noexcept nogil:
        cdef index_t l, a, b, n, begin
        cdef const double *M
        cdef double total
        for l in range(self.state.n_classes):
            begin, n = self.starts[l], self.starts[l + 1] - self.starts[l]
            M = &self.inverses[self.squares[l]]
            for a in range(n):
                total = 0
                for b in range(n):
                    total += M[a * n + b] * x[begin + b]
                out[begin + a] = total


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


def solve_directly(JointMultipliers state, const index_t[::1] rows, const double[:, ::1] K, double t,
                   const double[:, ::1] zeta, const double[::1] beta, const double[:, ::1] right, int threads):
    """What NewtonSystem solves, as one system over the multipliers that are not 0. None: not positive definite."""
    cdef index_t N = np.count_nonzero(zeta) + np.count_nonzero(beta), r, l, i, p = 0
    result = np.zeros((right.shape[0], right.shape[1]))
    if N == 0:
        return result
    cdef double[:, ::1] w = result
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
            x[p] = -right[r, unknowns[p].minus]
            if unknowns[p].plus >= 0:
                x[p] += right[r, unknowns[p].plus]
        job = HessianJob(&state.s, &rows[0], &K[0, 0], K.strides[0] // <index_t>sizeof(double), unknowns, N, t,
                         &H[0, 0])
        parallel_for((N + HESSIAN_LINES - 1) // HESSIAN_LINES, threads, hessian_chunk, &job)
        bad = odm_cholesky(&H[0, 0], N, N, &work[0], threads)
        if bad == 0:
            odm_cholesky_solve(&H[0, 0], N, N, &x[0])
            for p in range(N):
                r = unknowns[p].row
                w[r, unknowns[p].minus] -= x[p]
                if unknowns[p].plus >= 0:
                    w[r, unknowns[p].plus] += x[p]
    free(unknowns)
    return result if bad == 0 else None
