"""Compiled steps of the multi-class kernel machine; joint_kernel.py holds the method's statement."""

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from odmlib._core.random cimport shuffle
from odmlib._core.types cimport index_t, int32_t, uint64_t
from odmlib.kernels.cache cimport RowCache
from odmlib.solvers._joint cimport (
    JointMultipliers, odm_entry, odm_joint_measure, odm_joint_solve, odm_joint_sums, odm_row_duals, odm_store_row,
)

cdef extern from "dense.h" nogil:
    void odm_add_rows(const void **rows, bint wide, const double *factors, index_t n_rows, index_t n_columns,
                      double *sums, int n_threads) noexcept
    void odm_add_multiple(index_t n, double factor, const double *x, double *y) noexcept

cdef int MAX_SWEEPS = 30        # over one block
cdef double ENOUGH = 0.05       # of the block's largest violation: sweeps end there


cdef class JointKernel(JointMultipliers):
    """Multipliers and the scores of all rows, class after class: scores[l, i]."""

    cdef RowCache cache
    cdef readonly object scores, gaps
    cdef double[:, ::1] F
    cdef double[::1] row_gaps
    cdef int threads
    cdef uint64_t generator
    cdef readonly index_t block_rows, sweeps
    cdef readonly object block          # rows of the open block
    cdef object kernel_memory
    cdef const index_t[::1] rows
    cdef index_t[::1] order
    # of the open block: scores class after class, as a step of one row changes few classes of all the others
    cdef double[:, ::1] local_scores, moves, local_kernel
    cdef void **pointers

    def __init__(self, kernel, labels, costs, index_t n_classes, double nu, double theta, bint frozen, seed,
                 RowCache cache, index_t block_rows, int threads):
        self.cache, self.threads, self.generator = cache, threads, seed
        self.scores, self.gaps = np.zeros((n_classes, self.n_rows)), np.zeros(self.n_rows)
        self.F, self.row_gaps = self.scores, self.gaps
        self.block_rows = max(1, min(block_rows, cache.capacity))
        self.local_scores = np.zeros((self.padded, self.block_rows))
        self.moves = np.zeros((self.block_rows, self.padded))
        self.kernel_memory = np.empty(self.block_rows ** 2)
        self.pointers = <void **>malloc(self.block_rows * sizeof(void *))
        if self.pointers is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.pointers)

    def duals(self):
        """v of all rows (rows x classes)."""
        result = np.zeros((self.n_rows, self.padded))
        cdef double[:, ::1] v = result
        cdef index_t i
        for i in range(self.n_rows):
            odm_row_duals(self.s, i, &v[i, 0])
        return result[:, :self.n_classes]

    def measure(self):
        """(J, relaxed primal, gap, misplaced) on all rows; fills `margins`, `best_wrong`, `best_scores`, `gaps`."""
        cdef odm_joint_sums sums = odm_joint_sums(0, 0, 0, 0)
        cdef double[::1] margins = self.margins, best_scores = self.best_scores
        cdef int32_t[::1] best = self.best_wrong
        cdef index_t i, l
        cdef double half = 0
        cdef double *f = self.s.scores
        cdef double *v = self.s.change
        with nogil:
            for i in range(self.n_rows):
                memset(v, 0, self.padded * sizeof(double))
                odm_row_duals(self.s, i, v)
                for l in range(self.n_classes):
                    f[l] = self.F[l, i]
                    half += 0.5 * v[l] * f[l]
                self.row_gaps[i] = odm_joint_measure(&self.s, i, f, &sums, &best[i], &best_scores[i], &margins[i])
        return half + sums.objective, half + sums.relaxed, sums.gap, sums.misplaced

    def begin(self, const double[:, ::1] scores):
        """Multipliers and q that belong to known scores (rows x classes); `add` their part to the scores then."""
        assert scores.shape[0] == self.n_rows and scores.shape[1] == self.n_classes
        cdef index_t i
        cdef bint stored = True
        with nogil:
            for i in range(self.n_rows):
                memcpy(self.s.scores, &scores[i, 0], self.n_classes * sizeof(double))
                stored = stored and self.begin_row(i, self.s.scores)
        if not stored:
            raise MemoryError("no memory for the multipliers")

    def add(self, const index_t[::1] rows, const double[:, ::1] changes):
        """scores += K[:, rows] changes, at most block_rows rows."""
        cdef index_t n = rows.shape[0], l, r
        cdef double[::1] factors = np.zeros(n)
        assert n <= self.block_rows
        if n == 0:
            return
        with nogil:
            self.cache.fetch(&rows[0], n, self.pointers)
            for l in range(self.n_classes):
                for r in range(n):
                    factors[r] = changes[r, l]
                odm_add_rows(<const void **>self.pointers, self.cache.wide, &factors[0], n, self.n_rows, &self.F[l, 0],
                             self.threads)

    def solve(self, rows, bint upper):
        """Sweeps of exact steps over a block of rows, all others fixed; then all scores follow."""
        self.open_block(rows)
        if len(rows):
            first = self.sweep(upper)
            for _ in range(1, MAX_SWEEPS):
                if self.sweep(upper) <= ENOUGH * first:
                    break
        self.close_block()

    def open_block(self, rows):
        """Fetch the kernel rows of a block. Until it is closed its scores are local, and nothing else moves."""
        self.block = np.ascontiguousarray(rows, dtype=np.int64)
        self.rows = self.block
        cdef index_t n = self.rows.shape[0], r, c, l
        assert n <= self.block_rows
        self.order = np.arange(n)
        self.local_kernel = self.kernel_memory[:n * n].reshape(n, n)
        if n == 0:
            return
        with nogil:
            self.cache.fetch(&self.rows[0], n, self.pointers)
            for r in range(n):
                for c in range(n):
                    self.local_kernel[r, c] = self.value(self.pointers[r], self.rows[c])
                for l in range(self.n_classes):
                    self.local_scores[l, r] = self.F[l, self.rows[r]]
                    self.moves[r, l] = 0

    def sweep(self, bint upper):
        """An exact step of every row of the open block, in random order; the largest violation found."""
        cdef index_t n = self.rows.shape[0], r, c, n_changed
        cdef double violation = 0, largest = 0
        with nogil:
            if n:
                shuffle(&self.order[0], n, &self.generator)
            for c in range(n):
                r = self.order[c]
                self.gather(r)
                violation = odm_joint_solve(&self.s, self.rows[r], self.s.scores, self.s.curvatures[self.rows[r]],
                                            upper, &n_changed)
                if violation < 0:
                    break
                if violation > largest:
                    largest = violation
                if n_changed:
                    self.spread(r, n, n_changed)
        if violation < 0:
            raise MemoryError("no memory for the multipliers")
        self.sweeps += 1
        return largest

    def block_kernel(self):
        """The kernel matrix of the open block."""
        return np.asarray(self.local_kernel)

    def block_scores(self):
        """Rows of the open block x padded classes."""
        return np.ascontiguousarray(np.asarray(self.local_scores)[:, :len(self.block)].T)

    def block_curvatures(self):
        return self.kept[2][self.block]

    def block_multipliers(self):
        """(zeta, beta, v) of the open block, rows x padded classes."""
        cdef index_t n = self.rows.shape[0], r, p
        zetas, duals = np.zeros((2, n, self.padded))
        cdef double[:, ::1] zeta = zetas, v = duals
        cdef odm_entry entry
        for r in range(n):
            for p in range(self.s.zeta.count[self.rows[r]]):
                entry = self.s.zeta.arena[self.s.zeta.start[self.rows[r]] + p]
                zeta[r, entry.label] = entry.value
            odm_row_duals(self.s, self.rows[r], &v[r, 0])
        return zetas, self.beta[self.block], duals

    def set_block(self, const double[:, ::1] zeta, beta, changes, scores):
        """Other multipliers for the open block: v moves by `changes`, and these are its scores then."""
        cdef index_t n = self.rows.shape[0], r
        cdef bint stored = True
        self.beta[self.block] = beta
        with nogil:
            for r in range(n):
                stored = stored and odm_store_row(self.s.zeta, self.rows[r], &zeta[r, 0], self.n_classes)
        if not stored:
            raise MemoryError("no memory for the multipliers")
        np.asarray(self.moves)[:n] += changes
        np.asarray(self.local_scores)[:, :n] = scores.T

    def close_block(self):
        """The scores of all rows follow the open block."""
        cdef index_t n = self.rows.shape[0], r, c, l
        cdef double[::1] factors = np.zeros(n)
        cdef const void **used = <const void **>malloc(n * sizeof(void *) + 1)
        if used is NULL:
            raise MemoryError
        with nogil:
            for l in range(self.n_classes):
                c = 0
                for r in range(n):
                    if self.moves[r, l] != 0:
                        used[c], factors[c] = self.pointers[r], self.moves[r, l]
                        c += 1
                if c:
                    odm_add_rows(used, self.cache.wide, &factors[0], c, self.n_rows, &self.F[l, 0], self.threads)
        free(used)

    cdef double value(self, void *row, index_t column) noexcept nogil:
        if self.cache.wide:
            return (<double *>row)[column]
        return (<float *>row)[column]

    cdef void gather(self, index_t r) noexcept nogil:
        """The scores of row r of the block, as a stripe of classes."""
        cdef index_t l
        for l in range(self.padded):
            self.s.scores[l] = self.local_scores[l, r]

    cdef void spread(self, index_t r, index_t n, index_t n_changed) noexcept nogil:
        """Row r of the block has moved by s.change: the block's scores follow."""
        cdef index_t p
        cdef int32_t l
        for p in range(n_changed):
            l = self.s.changed[p]
            self.moves[r, l] += self.s.change[l]
            odm_add_multiple(n, self.s.change[l], &self.local_kernel[r, 0], &self.local_scores[l, 0])
