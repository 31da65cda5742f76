"""Systems of Newton's method on a block of rows of the multi-class kernel machine; block.py states the method.

Matrices are rows of the block x padded classes, K is the block's kernel matrix. `state` is the machine's McodmState.
"""

from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.types cimport index_t, int32_t
from odmlib.solvers.linalg.dense cimport (
    odm_add_multiple, odm_cholesky, odm_cholesky_solve, ODM_FACTOR_BLOCK, odm_factor_line, odm_inverse_step,
    odm_step_scratch, ODM_STEP_WIDTH, odm_subtract_products,
)


cdef int require_system(const double[:, ::1] K, index_t n, index_t n_classes, const double[:, ::1] zeta,
                        const double[::1] beta) except -1:
    if K.shape[0] != n or K.shape[1] != n:
        raise ValueError(f"a kernel matrix of {K.shape[0]} x {K.shape[1]} values for {n} rows")
    if zeta.shape[0] != n or zeta.shape[1] < n_classes or beta.shape[0] != n:
        raise ValueError(f"multipliers of {zeta.shape[0]} rows and {zeta.shape[1]} classes for a block of {n} rows")
    return 0


cdef index_t HESSIAN_LINES = 64     # of one chunk


cdef class NewtonSystem:
    """(K + t I + losses) w = right over the v of a block that may move, classes tied together row by row.

    A row's v_l may move where zeta_l > 0, for its own class y, and for q where beta > 0. With T and beta written in v the
    loss is h/2 v_y^2 (beta = 0) or h/(2 nu) v_q^2, its sum over the classes is 0, and where zeta and beta are both above 0
    (frozen: too) more such couplings take the place of that: <c, w> = E x  for the pull x of a coupling, E >= 0. So
    B w + C'x = right, C w = E x; B is one matrix per class, and (C B^-1 C' + E) x = C B^-1 right has a row per coupling.
    """

    cdef int threads
    cdef index_t n_rows, n_classes
    cdef const double[:, ::1] K
    # entries are the v that may move, class after class
    cdef object places                  # their rows in the block and classes
    cdef index_t[::1] rows
    cdef double[::1] curvatures         # of v alone: t and a part of the loss
    cdef index_t[:, ::1] ties           # the couplings that v takes part in, -1: none
    cdef index_t[::1] starts            # of the classes' entries
    cdef index_t[::1] squares           # of the classes' matrices in `inverses`
    cdef object compliances             # E
    cdef double[::1] inverses
    cdef double[:, ::1] schur
    cdef readonly object couplings      # their matrix; inverse_factor is to follow when all classes are eliminated
    cdef readonly double cost           # multiplications

    def __init__(self, state, const double[:, ::1] K, double t, const double[:, ::1] zeta, const double[::1] beta,
                 int threads):
        y, q, h = (values[state.block] for values in (state.labels, state.others, state.h))
        n, n_classes, frozen, nu = len(y), state.n_classes, state.frozen, state.nu
        require_system(K, n, n_classes, zeta, beta)
        self.threads, self.K, self.n_rows, self.n_classes = threads, K, n, n_classes
        positive, upper = np.asarray(zeta)[:, :n_classes] > 0, np.asarray(beta) > 0
        lower, rows = positive.any(axis=1), np.arange(n)
        both = lower & upper
        own, curvatures = np.zeros_like(positive), np.full(positive.shape, t)
        own[rows, y] = lower | upper
        curvatures[rows[~upper], y[~upper]] += h[~upper]
        stiff = upper & ~lower if frozen else upper
        others = y if frozen else q
        own[rows[stiff], others[stiff]] = True
        curvatures[rows[stiff], others[stiff]] += h[stiff] / nu
        # a row's first coupling is the sum over all classes, its second one T
        coupled = lower if frozen else lower | upper
        n_ties = coupled.astype(np.int64) + both
        first = np.cumsum(n_ties) - n_ties
        self.compliances = np.zeros(n_ties.sum())
        self.compliances[first[both]] = nu / h[both] if frozen else 0.0
        self.compliances[first[both] + 1] = 1 / h[both]
        classes, rows = np.nonzero((positive | own).T)
        with_total = both[rows] & (positive if frozen else own)[rows, classes]
        self.ties = np.stack([np.where(coupled, first, -1)[rows], np.where(with_total, first[rows] + 1, -1)], axis=1)
        self.places, self.rows = (rows, classes), np.ascontiguousarray(rows)
        self.curvatures = curvatures[rows, classes]
        sizes = np.bincount(classes, minlength=n_classes)
        self.starts, self.squares = (np.concatenate([[0], np.cumsum(values)]) for values in (sizes, sizes ** 2))
        self.cost = float((sizes.astype(np.float64) ** 3).sum()) * 5 / 6 + float(len(self.compliances)) ** 3 / 3

    def prepare(self):
        """Memory for the matrices."""
        self.inverses = np.empty(max(1, self.squares[self.n_classes]))
        self.couplings = np.diag(self.compliances)
        self.schur = self.couplings

    def eliminate(self, index_t l):
        """Invert the matrix of one class and add its part to the couplings' one; False if it is not positive definite."""
        if self.schur is None or not 0 <= l < self.n_classes:
            raise ValueError(f"class {l} of a system that is not prepared or has {self.n_classes} classes")
        cdef index_t begin = self.starts[l], n = self.starts[l + 1] - begin, a, b, x, z, first = 0, line = odm_factor_line(n)
        if n == 0:
            return True
        cdef const index_t[::1] rows = self.rows[begin:begin + n]
        cdef const index_t[:, ::1] ties = self.ties[begin:begin + n]
        cdef double[::1] scratch = np.empty(odm_step_scratch(n)), factor = np.zeros(n * line)
        cdef double *M = &self.inverses[self.squares[l]]
        cdef bint positive = True
        with nogil:
            for a in range(n):
                for b in range(a + 1):
                    M[a * n + b] = self.K[rows[a], rows[b]]
                M[a * n + a] += self.curvatures[begin + a]
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
                        for x in range(2):
                            for z in range(2):
                                # of one row's two couplings only the lower triangle
                                if ties[b, z] >= 0 and ties[b, z] <= ties[a, x]:
                                    self.schur[ties[a, x], ties[b, z]] += M[a * n + b]
        return positive

    def solve(self, const double[:, ::1] right):
        """w where it may differ from 0 (rows x padded classes)."""
        if self.schur is None or right.shape[0] != self.n_rows or right.shape[1] < self.n_classes:
            raise ValueError("a system that is not prepared, or a right-hand side of another shape")
        cdef index_t C = len(self.compliances), a, x
        given, ties = np.asarray(right)[self.places], np.asarray(self.ties) + 1
        pulls, turned = np.bincount(ties.ravel(), np.repeat(self.times_inverses(given), 2), C + 1), np.zeros(C + 1)
        cdef double[::1] pull = pulls[1:], turn = turned  # pulls[0] is that of no coupling
        with nogil:
            for a in range(C):
                for x in range(a + 1):
                    turn[a] += self.schur[a, x] * pull[x]
        pulls[:] = 0
        with nogil:
            for a in range(C):
                odm_add_multiple(a + 1, turn[a], &self.schur[a, 0], &pull[0])
        result = np.zeros((right.shape[0], right.shape[1]))
        result[self.places] = self.times_inverses(given - pulls[ties[:, 0]] - pulls[ties[:, 1]])
        return result

    cdef times_inverses(self, const double[::1] x):
        cdef index_t l, a, b, n, begin
        cdef const double *M
        found = np.zeros(x.shape[0])
        cdef double[::1] out = found
        with nogil:
            for l in range(self.n_classes):
                begin, n = self.starts[l], self.starts[l + 1] - self.starts[l]
                M = &self.inverses[self.squares[l]]
                for a in range(n):
                    for b in range(n):
                        out[begin + a] += M[a * n + b] * x[begin + b]
        return found


cdef struct Unknown:            # a multiplier that is not 0: v of its row moves by e_plus - e_minus times it
    index_t row                 # in the block
    int32_t plus, minus         # plus = -1: none
    bint lower                  # zeta, not beta


cdef struct HessianJob:
    const double *h             # of the block's rows
    const double *K
    index_t K_line
    const Unknown *unknowns
    index_t n
    double t, nu
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
        h = job.h[a.row]
        for o in range(p + 1):
            b = job.unknowns[o]
            together = ((a.plus == b.plus) & (a.plus >= 0)) - (a.plus == b.minus) - (a.minus == b.plus) + (
                a.minus == b.minus)
            if b.row == a.row:
                out[o] = together * (line[b.row] + job.t)
                if a.lower and b.lower:
                    out[o] += h
                elif o == p:
                    out[o] += h / job.nu
            else:
                out[o] = together * line[b.row] if together else 0.0


def solve_directly(state, const double[:, ::1] K, double t, const double[:, ::1] zeta, const double[::1] beta,
                   const double[:, ::1] right, int threads):
    """What NewtonSystem solves, as one system over the multipliers that are not 0. None: not positive definite."""
    cdef const int32_t[::1] labels = state.labels[state.block], others = state.others[state.block]
    cdef const double[::1] h = state.h[state.block]
    cdef index_t n_classes = state.n_classes, n = labels.shape[0], N, r, l, p, bad
    cdef bint frozen = state.frozen
    require_system(K, n, n_classes, zeta, beta)
    require_system(K, n, n_classes, right, beta)
    result = np.zeros((right.shape[0], right.shape[1]))
    cdef double[:, ::1] w = result
    cdef vector[Unknown] unknowns
    for r in range(n):
        for l in range(n_classes):
            if zeta[r, l] > 0:
                unknowns.push_back(Unknown(r, labels[r], <int32_t>l, True))
        if beta[r] > 0:
            unknowns.push_back(Unknown(r, -1 if frozen else others[r], labels[r], False))
    N = unknowns.size()
    if N == 0:
        return result
    cdef double[:, ::1] H = np.empty((N, N))
    cdef double[::1] x = np.empty(N), work = np.empty(odm_factor_line(N) * ODM_FACTOR_BLOCK)
    cdef HessianJob job = HessianJob(&h[0], &K[0, 0], K.shape[1], unknowns.data(), N, t, state.nu, &H[0, 0])
    with nogil:
        for p in range(N):
            r = unknowns[p].row
            x[p] = -right[r, unknowns[p].minus]
            if unknowns[p].plus >= 0:
                x[p] += right[r, unknowns[p].plus]
        parallel_for((N + HESSIAN_LINES - 1) // HESSIAN_LINES, threads, hessian_chunk, &job)
        bad = odm_cholesky(&H[0, 0], N, N, &work[0], threads)
        if bad == 0:
            odm_cholesky_solve(&H[0, 0], N, N, &x[0])
            for p in range(N):
                r = unknowns[p].row
                w[r, unknowns[p].minus] -= x[p]
                if unknowns[p].plus >= 0:
                    w[r, unknowns[p].plus] += x[p]
    return result if bad == 0 else None
