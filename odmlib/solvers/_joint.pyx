"""State and sweeps of the linear multi-class machine; joint.py holds the method's statement."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

import math

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.random cimport shuffle_blocks
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, int32_t, uint8_t, uint64_t
from odmlib._core.views cimport data_of
from odmlib._core.vectors import inner
from odmlib.losses.class_block cimport odm_class_block, odm_class_row, odm_padded_classes

cdef double CALM = 0.6            # rows with less than this part of the mean violation are left out for a while
cdef double FULL = 0.5            # part of the columns that rows have values in
cdef index_t MEASURE_ROWS = 512   # rows of one chunk of a measurement
cdef double MEASURE_WORK = 5e8    # multiplications between two looks for signals
cdef index_t BLOCK = 16           # neighbouring rows that are visited one after another, in random order
cdef index_t LOOK_AHEAD = 6       # visits, for fetching rows from memory early
cdef double START_CURVATURE = 0.05  # in units of h: classes about that close share the multipliers of a known score
cdef double TINY = 1e-300         # curvatures below are those of empty rows


def aligned_zeros(*shape):
    """Zeros of which the first starts a cache line: a vector that lies on two lines takes twice as long."""
    cdef index_t n = math.prod(shape)
    memory = np.zeros(n + 8)
    skip = (-memory.ctypes.data // 8) % 8
    return memory[skip:skip + n].reshape(shape)


cdef class JointMultipliers:
    """zeta, beta and q (or M) of all rows; `data` are Rows or a Kernel."""

    def __cinit__(self, data, labels, costs, index_t n_classes, double nu, double theta, bint frozen, *ignored):
        self.n_rows, self.n_classes = data.n_rows, n_classes
        self.padded = odm_padded_classes(n_classes)
        self.beta, self.references, self.margins, self.best_scores = np.zeros((4, self.n_rows))
        self.best_wrong = np.zeros(self.n_rows, dtype=np.int32)
        codes = np.ascontiguousarray(labels, dtype=np.int32)
        assert len(codes) == self.n_rows and n_classes >= 2
        assert self.n_rows == 0 or 0 <= codes.min() <= codes.max() < n_classes
        self.others = np.where(codes == 0, 1, 0).astype(np.int32)
        self.wanted = self.others.copy()
        with np.errstate(divide="ignore"):
            h = 0.5 / np.ascontiguousarray(costs, dtype=np.float64)
        curvatures = data.squared_norms() if hasattr(data, "squared_norms") else data.diagonal()
        curvatures[curvatures < TINY] = 0
        scratch = aligned_zeros(2, self.padded)
        changed = np.zeros(self.padded + 2, dtype=np.int32)
        self.kept = (codes, h, curvatures, scratch, changed)

        cdef double[::1] values
        cdef const double[::1] constants
        cdef int32_t[::1] numbers
        cdef double[:, ::1] matrix
        s = &self.s
        s.n_rows, s.n_classes, s.padded = self.n_rows, n_classes, self.padded
        s.nu, s.theta, s.frozen = nu, theta, frozen
        if self.n_rows:
            numbers = codes
            s.labels = &numbers[0]
            numbers = self.others
            s.others = &numbers[0]
            numbers = self.wanted
            s.wanted = &numbers[0]
            constants = h
            s.h = &constants[0]
            constants = curvatures
            s.curvatures = &constants[0]
            values = self.beta
            s.beta = &values[0]
            values = self.references
            s.references = &values[0]
        matrix = scratch
        s.scores, s.change = &matrix[0, 0], &matrix[1, 0]
        numbers = changed
        s.changed = &numbers[0]
        s.zeta.start = <index_t *>calloc(self.n_rows + 1, sizeof(index_t))
        s.zeta.count = <int32_t *>calloc(self.n_rows + 1, sizeof(int32_t))
        s.zeta.room = <int32_t *>calloc(self.n_rows + 1, sizeof(int32_t))
        if not (s.zeta.start and s.zeta.count and s.zeta.room):
            raise MemoryError

    def __dealloc__(self):
        free(self.s.zeta.start)
        free(self.s.zeta.count)
        free(self.s.zeta.room)
        free(self.s.zeta.arena)

    @property
    def n_active(self):
        """Number of positive zeta and beta."""
        cdef index_t i, total = 0
        with nogil:
            for i in range(self.n_rows):
                total += self.s.zeta.count[i] + (self.s.beta[i] > 0)
        return total

    @property
    def multiplier_bytes(self):
        """Memory of zeta: entries and their tables."""
        return self.s.zeta.size * sizeof(odm_entry) + self.n_rows * (sizeof(index_t) + 2 * sizeof(int32_t))

    def zeta(self):
        """All zeta as a (rows x classes) matrix; for small problems."""
        dense = np.zeros((self.n_rows, self.n_classes))
        cdef double[:, ::1] out = dense
        cdef index_t i, p
        cdef odm_entry entry
        for i in range(self.n_rows):
            for p in range(self.s.zeta.count[i]):
                entry = self.s.zeta.arena[self.s.zeta.start[i] + p]
                out[i, entry.label] = entry.value
        return dense

    def set_multipliers(self, const double[:, ::1] zeta, const double[::1] beta):
        """Take over multipliers (rows x classes or more, the rest padding); the weights stay."""
        assert zeta.shape[0] == self.n_rows and zeta.shape[1] >= self.n_classes and beta.shape[0] == self.n_rows
        cdef index_t i
        cdef bint stored = True
        self.beta[:] = beta
        self.s.zeta.used = 0  # entries in the order of the rows from now on
        memset(self.s.zeta.room, 0, self.n_rows * sizeof(int32_t))
        with nogil:
            for i in range(self.n_rows):
                stored = stored and odm_store_row(self.s.zeta, i, &zeta[i, 0], self.n_classes)
        if not stored:
            raise MemoryError("no memory for the multipliers")

    cdef bint begin_row(self, index_t i, double *scores) noexcept nogil:
        """q, zeta and beta that the scores of row i (which are lost) ask for; False: no memory."""
        cdef index_t l, best = self.s.others[i]
        cdef odm_class_row row
        for l in range(self.n_classes):
            if l != self.s.labels[i] and scores[l] > scores[best]:
                best = l
        self.s.others[i] = self.s.wanted[i] = <int32_t>best
        self.s.references[i] = scores[best]
        if not (self.s.curvatures[i] > 0 and 1 / self.s.h[i] > 0):
            return True
        row = odm_class_row_of(self.s, i, START_CURVATURE * self.s.h[i], True)
        odm_class_block(&row, scores, self.n_classes, self.padded, self.s.beta + i)
        return odm_store_row(self.s.zeta, i, scores, self.n_classes)

    @property
    def frozen(self):
        return bool(self.s.frozen)

    def movable(self):
        """Rows with weight and values; the others move nothing."""
        _, h, curvatures, *_ = self.kept
        return np.flatnonzero((curvatures > 0) & (h < np.inf))


cdef class JointState(JointMultipliers):
    """Multipliers and weights. In coordinate ascent w is sum_i x_i v_i' over all rows, up to rounding, which
    `rebuild` removes; joint_newton.py keeps weights of its own."""

    def __init__(self, Rows rows, labels, costs, index_t n_classes, double nu, double theta, bint frozen, seed):
        self.rows = rows
        self.n_columns = rows.n_columns
        self.weights = aligned_zeros(self.n_columns, self.padded)
        self.items = self.movable()
        self.order = np.empty(len(self.items), dtype=np.int64)
        self.blocks = np.arange((len(self.items) + BLOCK - 1) // BLOCK)
        self.pause, self.calm = np.zeros((2, self.n_rows), dtype=np.uint8)
        self.generator = seed
        self.position = self.order.shape[0]
        cdef double[:, ::1] matrix
        s = &self.s
        s.n_columns, s.bias, s.starts = rows.n_columns, rows.bias, &rows.indptr[0]
        if rows.n_nonzeros:
            s.columns, s.values = &rows.indices[0], &rows.values[0]
        if self.n_columns:
            matrix = self.weights
            s.w = &matrix[0, 0]

    def fill_rows(self):
        """Keep a second copy of the rows with all columns, which many passes over rows that have most of them pay for."""
        cdef index_t n_columns = self.n_columns
        if self.rows.n_nonzeros < FULL * self.n_rows * (n_columns - (self.s.bias != 0)):
            return
        self.dense = aligned_zeros(self.n_rows, (n_columns + 3) // 4 * 4)
        cdef double[:, ::1] matrix = self.dense
        cdef index_t i, p
        with nogil:
            for i in range(self.n_rows):
                for p in range(self.s.starts[i], self.s.starts[i + 1]):
                    matrix[i, self.s.columns[p]] = self.s.values[p]
                if self.s.bias != 0:
                    matrix[i, n_columns - 1] = self.s.bias
        if self.dense.size:
            self.s.dense, self.s.dense_stride = &matrix[0, 0], matrix.shape[1]

    def list_classes(self):
        """From now on most visits look only at the classes that were a row's best ones: label shrinking."""
        assert self.n_classes >= ODM_MOST_LOOKED_AT
        cdef int32_t[::1] lists = np.zeros(self.n_rows * ODM_LISTED, dtype=np.int32)
        cdef uint8_t[::1] narrow = np.zeros(self.n_rows, dtype=np.uint8)
        cdef uint8_t[::1] trust = np.full(self.n_rows, ODM_LEAST_TRUST, dtype=np.uint8)
        if self.n_rows:
            self.s.lists, self.s.narrow, self.s.trust = &lists[0], &narrow[0], &trust[0]
        self.listed = lists, narrow, trust

    def rebuild(self):
        """w anew from the multipliers, which removes what rounding has added."""
        cdef index_t i
        self.weights[:] = 0
        with nogil:
            for i in range(self.n_rows):
                odm_joint_add_row(&self.s, i)

    def begin(self, const double[:, ::1] weights):
        """Multipliers and q that belong to known weights (columns x classes), and w made of them."""
        assert weights.shape[0] == self.n_columns and weights.shape[1] == self.n_classes
        cdef index_t i
        cdef bint stored = True
        self.weights[:, :self.n_classes] = weights
        with nogil:
            for i in range(self.n_rows):
                odm_joint_scores(&self.s, i, self.s.w, self.s.scores)
                stored = stored and self.begin_row(i, self.s.scores)
        if not stored:
            raise MemoryError("no memory for the multipliers")
        self.rebuild()

    def clear(self):
        """No multipliers, no weights."""
        self.beta[:] = 0
        self.weights[:] = 0
        self.s.zeta.used = 0
        memset(self.s.zeta.count, 0, self.n_rows * sizeof(int32_t))
        memset(self.s.zeta.room, 0, self.n_rows * sizeof(int32_t))

    def reassign(self, bint at_once=False):
        """q_i (frozen: M_i) from the last measurement; no weight moves.

        A row with beta_i > 0 takes its new q_i when it is visited: moved all together, the beta would throw w far
        off. `at_once` is for weights that are not made of the multipliers.
        """
        if self.s.frozen:
            self.references[:] = self.best_scores
        else:
            self.wanted[:] = self.best_wrong
            now = slice(None) if at_once else self.beta == 0
            self.others[now] = self.wanted[now]
        self.visit_all()

    def visit_all(self):
        """No row pauses any more."""
        self.pause[:] = 0
        self.calm[:] = 0

    def begin_epoch(self):
        cdef index_t n = self.order.shape[0]
        if self.visits_here:
            self.mean_violation = self.violation_sum / self.visits_here
        with nogil:
            if n:
                shuffle_blocks(&self.items[0], n, &self.blocks[0], BLOCK, &self.order[0], &self.generator)
        self.position = 0
        self.visits_here = 0
        self.violation_sum = 0
        self.largest_violation = 0

    def advance(self, index_t nonzeros, bint upper=True, bint lazy=True):
        """Visit rows until about `nonzeros` values are read; whether the epoch is over.

        `upper`: False keeps every beta at 0. `lazy`: rows that were calm pause for 1, then 3, then 7 epochs.
        """
        cdef index_t i, n = self.order.shape[0]
        cdef double violation = 0, calm = CALM * self.mean_violation
        with nogil:
            while self.position < n and nonzeros > 0:
                i = self.order[self.position]
                self.position += 1
                if self.position + 2 * LOOK_AHEAD <= n:
                    odm_joint_expect(&self.s, self.order[self.position + 2 * LOOK_AHEAD - 1],
                                     self.order[self.position + LOOK_AHEAD - 1])
                if lazy and self.pause[i]:
                    self.pause[i] -= 1
                    continue
                violation = odm_joint_visit(&self.s, i, upper)
                if violation < 0:
                    break
                nonzeros -= self.s.starts[i + 1] - self.s.starts[i] + 8
                self.visits_here += 1
                self.visits += 1
                self.violation_sum += violation
                if violation > self.largest_violation:
                    self.largest_violation = violation
                if violation < calm:
                    self.calm[i] = min(self.calm[i] + 1, 3)
                    self.pause[i] = (1 << self.calm[i]) - 1
                else:
                    self.calm[i] = 0
        if violation < 0:
            raise MemoryError("no memory for the multipliers")
        return self.position >= n

    def measure(self, int threads=1, double[:, ::1] scores=None):
        """(J, relaxed primal, gap, misplaced) on all rows; fills `margins`, `best_wrong` and `best_scores`.

        `misplaced` counts the rows with loss above the band whose q_i is not the best wrong class.
        `scores` (rows x padded) takes those of all rows.
        """
        cdef index_t n_chunks = (self.n_rows + MEASURE_ROWS - 1) // MEASURE_ROWS, together
        cdef double[::1] margins = self.margins, best_scores = self.best_scores
        cdef int32_t[::1] best = self.best_wrong
        sums = np.zeros((n_chunks, 4))
        scratch = aligned_zeros(n_chunks, self.padded)
        cdef double[:, ::1] sums_view = sums, scratch_view = scratch
        cdef MeasureJob job
        if n_chunks:
            job = MeasureJob(&self.s, &scratch_view[0, 0], &sums_view[0, 0], &best[0],
                             &best_scores[0], &margins[0], NULL, 0)
            if scores is not None:
                job.kept = &scores[0, 0]
            work = (self.rows.n_nonzeros / self.n_rows + 1) * self.padded * MEASURE_ROWS  # of one chunk
            together = max(threads, int(MEASURE_WORK / work))
            while job.first < n_chunks:
                with nogil:
                    parallel_for(min(together, n_chunks - job.first), threads, measure_chunk, &job)
                PyErr_CheckSignals()
                job.first += together
        half = 0.5 * inner(self.weights, self.weights)
        total = sums.sum(axis=0)
        return half + float(total[0]), half + float(total[1]), float(total[2]), int(total[3])


cdef struct MeasureJob:
    odm_joint *s
    double *scratch
    double *sums
    int32_t *best
    double *best_scores
    double *margins
    double *kept
    index_t first               # chunk


cdef void measure_chunk(void *context, index_t number) noexcept nogil:
    cdef MeasureJob *job = <MeasureJob *>context
    cdef index_t chunk = job.first + number
    cdef odm_joint_sums sums = odm_joint_sums(0, 0, 0, 0)
    cdef index_t i, padded = job.s.padded
    cdef double *scores = job.scratch + chunk * padded
    cdef index_t begin = chunk * MEASURE_ROWS, end = min(begin + MEASURE_ROWS, job.s.n_rows)
    if job.kept != NULL:
        odm_joint_all_scores(job.s, begin, end, job.s.w, job.kept + begin * padded)
    for i in range(begin, end):
        if job.kept != NULL:
            memcpy(scores, job.kept + i * padded, padded * sizeof(double))  # measuring spoils them
        else:
            odm_joint_scores(job.s, i, job.s.w, scores)
            if job.s.lists != NULL:
                odm_joint_list(job.s, i, scores)
        odm_joint_measure(job.s, i, scores, &sums, job.best + i, job.best_scores + i, job.margins + i)
    job.sums[4 * chunk] = sums.objective
    job.sums[4 * chunk + 1] = sums.relaxed
    job.sums[4 * chunk + 2] = sums.gap
    job.sums[4 * chunk + 3] = <double>sums.misplaced
