"""Compiled state and passes of the multi-class machine; linear.py, newton.py, kernel.py and block.py state the methods."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

import math

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.random cimport shuffle, shuffle_blocks
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, int32_t, uint8_t, uint64_t
from odmlib._core.views cimport data_of
from odmlib._core.vectors import inner
from odmlib.kernels.cache cimport RowCache
from odmlib.losses.class_block cimport odm_class_block, odm_class_row, odm_padded_classes
from odmlib.solvers.linalg.dense cimport odm_add_multiple, odm_add_rows

cdef extern from "mcodm.h" nogil:
    ctypedef struct odm_entry:
        double value
        int32_t label

    ctypedef struct odm_entries:
        index_t *start
        int32_t *count
        int32_t *room
        odm_entry *arena
        index_t used, size

    ctypedef struct odm_mcodm:
        index_t n_rows, n_columns, n_classes, padded, dense_stride
        const index_t *starts
        const int32_t *columns
        const double *values
        const double *dense
        const int32_t *labels
        const double *h
        const double *curvatures
        double bias, nu, theta
        int frozen
        double *w
        const double *class_scores
        const double *errors
        odm_entries zeta
        double *beta
        double *references
        int32_t *others
        int32_t *wanted
        int32_t *lists
        uint8_t *list_visits
        uint8_t *list_trust
        double *scores
        double *change
        int32_t *changed

    ctypedef struct odm_mcodm_sums:
        double objective, relaxed, gap, conjugate
        index_t misplaced
        double raised, widened, length

    ctypedef struct odm_mcodm_best:
        int32_t label
        double score, margin

    ctypedef struct odm_class_subset:
        pass

    const index_t ODM_LISTED, ODM_MOST_IN_SUBSET
    const uint8_t ODM_LEAST_TRUST
    odm_class_row odm_class_row_of(const odm_mcodm &s, index_t i, double curvature, bint upper) noexcept
    odm_class_subset odm_all_classes(const odm_mcodm &s, index_t i) noexcept
    bint odm_store_row(odm_entries &zeta, index_t i, const double *stripe, index_t n_classes) noexcept
    double odm_row_duals(const odm_mcodm &s, index_t i, double *v) noexcept
    void odm_mcodm_prefetch(const odm_mcodm &s, index_t far, index_t near) noexcept
    void odm_mcodm_known_scores(const odm_mcodm &s, index_t begin, index_t end, double *out) noexcept
    # loops of mcodm_loops.h
    double mcodm_visit "ODM_CHOOSE(mcodm_visit)"(odm_mcodm &s, index_t i, bint upper) noexcept
    double mcodm_solve "ODM_CHOOSE(mcodm_solve)"(odm_mcodm &s, index_t i, odm_class_subset at, double *f, double curvature,
                                                 bint upper, index_t *n_changed) noexcept
    double mcodm_measure "ODM_CHOOSE(mcodm_measure)"(
        const odm_mcodm &s, index_t i, double *scores, const odm_entry *entries, int32_t n_entries, double beta,
        odm_mcodm_sums *sums, odm_mcodm_best *best) noexcept
    void mcodm_scores "ODM_CHOOSE(mcodm_scores)"(const odm_mcodm &s, index_t i, const double *w, double *out) noexcept
    void all_scores "ODM_CHOOSE(all_scores)"(const odm_mcodm &s, index_t begin, index_t end, const double *w,
                                             double *out) noexcept
    void mcodm_add "ODM_CHOOSE(mcodm_add)"(const odm_mcodm &s, index_t i, const double *v, double *w) noexcept
    void mcodm_add_row "ODM_CHOOSE(mcodm_add_row)"(odm_mcodm &s, index_t i) noexcept
    void list_classes "ODM_CHOOSE(list_classes)"(const odm_mcodm &s, index_t i, const double *scores) noexcept

cdef extern from "proximal.h" nogil:
    ctypedef struct odm_jacobian:
        pass
    ctypedef struct odm_pair_term:
        int32_t pair
        int32_t row
        double factor
    const index_t SOME_ROWS "ODM_SOME_ROWS"
    bint odm_jacobian_of(const odm_mcodm &s, index_t i, double t, index_t n_active, double beta,
                         odm_jacobian *jacobian) noexcept
    void odm_jacobian_product(const odm_jacobian &b, const double *zeta, double *d, index_t n_classes,
                              index_t padded) noexcept
    void odm_prox_base(const odm_mcodm &s, index_t i, double t, double *scores) noexcept
    bint odm_row_pair_terms(const odm_mcodm &s, index_t i, double t, index_t n_active, double beta, const double *zeta,
                            int32_t *classes, vector[odm_pair_term] *terms) noexcept
    index_t odm_quad_lines(index_t d) noexcept
    bint odm_add_outer_products(const odm_mcodm &s, const int32_t *rows, const double *factors, index_t n,
                                double *P) noexcept
    void odm_unfold_pairs(const odm_mcodm &s, const double *blocks, double *H) noexcept
    # loops of proximal_loops.h
    double prox_row "ODM_CHOOSE(prox_row)"(const odm_mcodm &s, index_t i, double t, const double *base, const double *change,
                                           double length, double *zeta, double *beta, int32_t *n_active) noexcept
    void dense_duals "ODM_CHOOSE(dense_duals)"(const odm_mcodm &s, index_t i, const double *zeta, double beta,
                                               double *v) noexcept
    void add_duals "ODM_CHOOSE(add_duals)"(const odm_mcodm &s, const index_t *rows, index_t n, const double *v,
                                           double *w) noexcept
    void outer_products_times "ODM_CHOOSE(outer_products_times)"(
        const odm_mcodm &s, const int32_t *rows, const double *factors, index_t n, const double *u, double *out) noexcept

cdef double CALM = 0.6              # rows with less than this part of the mean violation are left out for a while
cdef double FULL = 0.5              # part of the columns that rows have values in
cdef index_t MEASURED_ROWS = 512    # rows of one chunk of a measurement
cdef index_t SCORED_ROWS = 8        # rows whose scores are there at a time
cdef double MEASURE_WORK = 5e8      # multiplications between two looks for signals
cdef index_t BLOCK = 16             # neighbouring rows that are visited one after another, in random order
cdef index_t LOOK_AHEAD = 6         # visits, for fetching rows from memory early
cdef double START_CURVATURE = 0.05  # in units of h: classes about that close share the multipliers of a known score
cdef double UNIT = 2.0 ** -53
cdef double TINY = 1e-300           # curvatures below are those of empty rows
cdef int MAX_SWEEPS = 30            # over one block
cdef double ENOUGH = 0.05           # of the block's largest violation: sweeps end there
cdef index_t SEGMENT = 4096         # rows of one pair of classes that a thread multiplies at a time
cdef index_t MOST_PAIR_VALUES = 4000000  # of the sums that segments keep


def aligned_zeros(*shape):
    """Zeros of which the first starts a cache line: a vector that lies on two lines takes twice as long."""
    cdef index_t n = math.prod(shape)
    memory = np.zeros(n + 8)
    skip = (-memory.ctypes.data // 8) % 8
    return memory[skip:skip + n].reshape(shape)


cdef int require_shape(const double[:, ::1] matrix, index_t n_rows, index_t n_columns) except -1:
    if matrix.shape[0] != n_rows or matrix.shape[1] != n_columns:
        raise ValueError(f"a matrix of {matrix.shape[0]} x {matrix.shape[1]} values instead of {n_rows} x {n_columns}")
    return 0


cdef int require_length(const double[::1] values, index_t n) except -1:
    if values.shape[0] != n:
        raise ValueError(f"{values.shape[0]} values instead of {n}")
    return 0


cdef int32_t *integers_of(int32_t[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL


cdef int require(bint stored) except -1:
    if not stored:
        raise MemoryError("no memory for the multipliers")
    return 0


# ---------------------------------------------------------------- multipliers


cdef class McodmState:
    """zeta, beta and q (or M) of all rows, and what a measurement finds; subclasses know where scores come from."""

    cdef odm_mcodm s
    cdef readonly index_t n_rows, n_classes, padded
    # beta, q, the next q, M, and of the last measurement: margins, best wrong classes, their scores, parts of the gap
    cdef readonly object beta, others, wanted, references, margins, best_wrong, best_scores, gaps
    cdef readonly object labels, h, curvatures
    cdef readonly double nu
    cdef readonly bint frozen
    cdef readonly object rounding       # see measure()
    cdef index_t[::1] entry_starts
    cdef object entry_counts, entry_rooms
    cdef object scratch         # arrays that only the struct points to
    cdef readonly double values_per_row  # that a row's scores are made of

    def __cinit__(self, problem, *args):
        self.n_rows, self.n_classes = problem.data.n_rows, problem.n_classes
        self.nu, self.frozen = problem.nu, problem.frozen
        self.padded = odm_padded_classes(self.n_classes)
        self.beta, self.references, self.margins, self.best_scores, self.gaps = np.zeros((5, self.n_rows))
        self.best_wrong = np.zeros(self.n_rows, dtype=np.int32)
        self.labels = np.ascontiguousarray(problem.labels, dtype=np.int32)
        costs = np.ascontiguousarray(problem.costs, dtype=np.float64)
        if self.labels.shape != (self.n_rows,) or costs.shape != (self.n_rows,):
            raise ValueError(f"{self.labels.shape} labels and {costs.shape} costs of {self.n_rows} rows")
        if self.n_classes < 2 or (self.n_rows and not 0 <= self.labels.min() <= self.labels.max() < self.n_classes):
            raise ValueError(f"labels are 0 to {self.n_classes - 1}, of two classes or more")
        self.others = np.where(self.labels == 0, 1, 0).astype(np.int32)
        self.wanted = self.others.copy()
        with np.errstate(divide="ignore"):
            self.h = 0.5 / costs
        self.curvatures = problem.curvatures()
        self.curvatures[self.curvatures < TINY] = 0
        stripes = aligned_zeros(2, self.padded)
        changed = np.zeros(self.padded + 2, dtype=np.int32)
        self.entry_starts = np.zeros(self.n_rows + 1, dtype=np.int64)
        self.entry_counts, self.entry_rooms = np.zeros((2, self.n_rows + 1), dtype=np.int32)
        self.scratch = stripes, changed

        s = &self.s
        s.n_rows, s.n_classes, s.padded = self.n_rows, self.n_classes, self.padded
        s.nu, s.theta, s.frozen = self.nu, problem.theta, self.frozen
        s.scores, s.change, s.changed = data_of(stripes[0]), data_of(stripes[1]), integers_of(changed)
        s.h, s.curvatures = data_of(self.h), data_of(self.curvatures)
        s.beta, s.references = data_of(self.beta), data_of(self.references)
        s.labels, s.others, s.wanted = integers_of(self.labels), integers_of(self.others), integers_of(self.wanted)
        s.zeta.start = &self.entry_starts[0]
        s.zeta.count, s.zeta.room = integers_of(self.entry_counts), integers_of(self.entry_rooms)

    def __dealloc__(self):
        free(self.s.zeta.arena)

    @property
    def n_active(self):
        """Number of positive zeta and beta."""
        return int(self.entry_counts.sum()) + np.count_nonzero(self.beta > 0)

    @property
    def multiplier_bytes(self):
        """Memory of zeta: entries and their tables."""
        return self.s.zeta.size * sizeof(odm_entry) + self.n_rows * (sizeof(index_t) + 2 * sizeof(int32_t))

    def movable(self):
        """Rows with weight and values; the others move nothing."""
        return np.flatnonzero((self.curvatures > 0) & (self.h < np.inf))

    def multipliers(self, rows=None):
        """(zeta, beta, v) of some rows or all, zeta and v as matrices of rows x padded classes."""
        cdef const index_t[::1] some = np.arange(self.n_rows) if rows is None else rows
        cdef index_t n = some.shape[0], r, i, p
        zetas, duals = np.zeros((2, n, self.padded))
        cdef double[:, ::1] zeta = zetas, v = duals
        cdef odm_entry entry
        for r in range(n):
            i = some[r]
            if not 0 <= i < self.n_rows:
                raise ValueError(f"row {i} of {self.n_rows}")
            for p in range(self.s.zeta.count[i]):
                entry = self.s.zeta.arena[self.s.zeta.start[i] + p]
                zeta[r, entry.label] = entry.value
            odm_row_duals(self.s, i, &v[r, 0])
        return zetas, self.beta[np.asarray(some)], duals

    def duals(self):
        """v of all rows (rows x classes)."""
        return self.multipliers()[2][:, :self.n_classes]

    def mean_multiplier(self):
        """Mean of sum_l zeta_il + beta_i over the rows where it is positive; 0 where there are none."""
        cdef index_t i, p, n = 0
        cdef double total = 0
        with nogil:
            for i in range(self.n_rows):
                n += self.s.zeta.count[i] > 0 or self.s.beta[i] > 0
                total += self.s.beta[i]
                for p in range(self.s.zeta.count[i]):
                    total += self.s.zeta.arena[self.s.zeta.start[i] + p].value
        return total / n if n else 0.0

    def set_multipliers(self, const double[:, ::1] zeta, const double[::1] beta):
        """Take over multipliers (rows x classes or more, the rest padding); weights and scores stay."""
        if zeta.shape[0] != self.n_rows or zeta.shape[1] < self.n_classes or beta.shape[0] != self.n_rows:
            raise ValueError(f"multipliers of {zeta.shape[0]} rows and {zeta.shape[1]} classes")
        self.clear()
        self.store(np.arange(self.n_rows), zeta, beta)

    cdef int store(self, const index_t[::1] rows, const double[:, ::1] zeta, beta) except -1:
        cdef index_t r
        cdef bint stored = True
        self.beta[np.asarray(rows)] = beta
        with nogil:
            for r in range(rows.shape[0]):
                stored = stored and odm_store_row(self.s.zeta, rows[r], &zeta[r, 0], self.n_classes)
        return require(stored)

    def point(self):
        """The multipliers and q (or M), to come back to with `return_to`."""
        zeta, beta, _ = self.multipliers()
        return zeta, beta, self.others.copy(), self.references.copy()

    def return_to(self, point):
        """Take over what `point` has returned; weights and scores stay."""
        zeta, beta, self.others[:], self.references[:] = point
        self.wanted[:] = self.others
        self.set_multipliers(zeta, beta)

    def clear(self):
        """No multipliers; weights and scores stay."""
        self.beta[:] = 0
        self.entry_counts[:] = 0
        self.entry_rooms[:] = 0
        self.s.zeta.used = 0  # entries come in the order of the rows from now on

    def begin(self):
        """Take the multipliers and q that the present scores ask for; weights and scores stay."""
        cdef index_t i
        cdef bint stored = True
        with nogil:
            for i in range(self.n_rows):
                odm_mcodm_known_scores(self.s, i, i + 1, self.s.scores)
                stored = stored and self.begin_row(i, self.s.scores)
        require(stored)

    cdef bint begin_row(self, index_t i, double *scores) noexcept nogil:
        """The same for row i, whose scores are lost; False: no memory."""
        cdef index_t l, best = self.s.others[i]
        cdef odm_class_row row
        for l in range(self.n_classes):
            if l != self.s.labels[i] and scores[l] > scores[best]:
                best = l
        self.s.others[i] = self.s.wanted[i] = <int32_t>best
        self.s.references[i] = scores[best]
        if not moves(self.s, i):
            return True
        row = odm_class_row_of(self.s, i, START_CURVATURE * self.s.h[i], True)
        odm_class_block(row, scores, self.n_classes, self.padded, self.s.beta + i)
        return odm_store_row(self.s.zeta, i, scores, self.n_classes)

    def reassign(self, bint at_once=False):
        """Take q_i (frozen: M_i) from the last measurement; returns the rows whose q_i has to wait.

        A row with beta_i > 0 takes its new q_i when it is visited: moved all together, the beta would throw w far
        off. `at_once` is for weights that are not made of the multipliers.
        """
        if self.frozen:
            self.references[:] = self.best_scores
            return np.zeros(0, dtype=np.int64)
        self.wanted[:] = self.best_wrong
        waiting = (self.wanted != self.others) & (self.beta > 0) & (not at_once)
        self.others[~waiting] = self.wanted[~waiting]
        return np.flatnonzero(waiting)

    def measure(self, int threads=1, double[:, ::1] kept=None, const double[::1] errors=None):
        """(J, relaxed primal, gap, misplaced) on all rows; fills `margins`, `best_wrong`, `best_scores` and `gaps`.

        `misplaced` counts the rows with loss above the band whose q_i is not the best wrong class.
        `kept` (rows x padded) takes the scores of all rows. `errors`: by how much each row's scores may be off;
        then `rounding` holds (what rounding may add to the losses, and to the gap; the sum of |x_i| |v_i|).
        """
        cdef index_t n_chunks = (self.n_rows + MEASURED_ROWS - 1) // MEASURED_ROWS, together
        sums, scratch = np.zeros((n_chunks, 7)), aligned_zeros(n_chunks * SCORED_ROWS * self.padded)
        cdef MeasureJob job = MeasureJob(
            &self.s, data_of(scratch), data_of(sums.reshape(-1)), integers_of(self.best_wrong), data_of(self.best_scores),
            data_of(self.margins), data_of(self.gaps), NULL, 0)
        if kept is not None:
            require_shape(kept, self.n_rows, self.padded)
            job.kept = data_of(np.asarray(kept).reshape(-1))
        together = max(threads, int(MEASURE_WORK / (self.values_per_row * self.padded * MEASURED_ROWS)))
        if errors is not None:
            require_length(errors, self.n_rows)
        if errors is not None:
            self.s.errors = data_of(errors)
        try:
            while job.first < n_chunks:
                with nogil:
                    parallel_for(min(together, n_chunks - job.first), threads, measure_chunk, &job)
                PyErr_CheckSignals()
                job.first += together
        finally:
            self.s.errors = NULL
        half, total = self.half_square(), sums.sum(axis=0)
        if errors is not None:
            # the sums over the rows are rounded, too: of a chunk, then of all chunks
            added = (MEASURED_ROWS + n_chunks + 4) * UNIT
            raised, widened = float(total[4]), float(total[5])
            losses = max(float(total[0]), float(total[1]))
            self.rounding = (
                raised + added * (losses + half), widened + added * (abs(float(total[2])) + 2 * widened), float(total[6])
            )
        return half + float(total[0]), half + float(total[1]), float(total[2]), int(total[3])


cdef struct MeasureJob:
    odm_mcodm *s
    double *scratch
    double *sums
    int32_t *best
    double *best_scores
    double *margins
    double *gaps
    double *kept
    index_t first               # chunk


cdef void measure_chunk(void *context, index_t number) noexcept nogil:
    cdef MeasureJob *job = <MeasureJob *>context
    cdef odm_mcodm *s = job.s
    cdef index_t chunk = job.first + number, i, r, n, padded = s.padded
    cdef index_t begin = chunk * MEASURED_ROWS, end = min(begin + MEASURED_ROWS, s.n_rows)
    cdef double *scores = job.scratch + chunk * SCORED_ROWS * padded
    cdef odm_mcodm_sums sums = odm_mcodm_sums(0, 0, 0, 0, 0, 0, 0, 0)
    cdef odm_mcodm_best best
    while begin < end:
        n = min(SCORED_ROWS, end - begin)
        odm_mcodm_known_scores(s[0], begin, begin + n, scores)
        if job.kept != NULL:
            memcpy(job.kept + begin * padded, scores, n * padded * sizeof(double))  # measuring spoils them
        for r in range(n):
            i = begin + r
            if s.lists != NULL and job.kept == NULL:
                list_classes(s[0], i, scores + r * padded)
            job.gaps[i] = mcodm_measure(s[0], i, scores + r * padded, s.zeta.arena + s.zeta.start[i], s.zeta.count[i],
                                        s.beta[i], &sums, &best)
            job.best[i], job.best_scores[i], job.margins[i] = best.label, best.score, best.margin
        begin += n
    cdef double *out = job.sums + 7 * chunk
    out[0], out[1], out[2], out[3] = sums.objective, sums.relaxed, sums.gap, <double>sums.misplaced
    out[4], out[5], out[6] = sums.raised, sums.widened, sums.length


cdef bint moves(const odm_mcodm &s, index_t i) noexcept nogil:
    """Whether a row has weight and values."""
    return s.curvatures[i] > 0 and 1 / s.h[i] > 0


# ---------------------------------------------------------------- linear machines


cdef class LinearState(McodmState):
    """Multipliers and weights. In coordinate ascent w is sum_i x_i v_i' over all rows, up to rounding, which
    `rebuild` removes; Newton's method keeps weights of its own."""

    cdef Rows rows
    cdef readonly index_t n_columns
    cdef readonly object weights        # w[column, class] with its padding
    cdef object lengths, terms          # |x_i|, and the rounding of a sum over the row's values
    cdef object dense, listed           # arrays that only the struct points to
    cdef index_t[::1] items, blocks, order  # rows with weight and values, their blocks, and the epoch's order
    cdef uint8_t[::1] pause, calm       # epochs to skip a row; how often in a row it was found calm
    cdef uint64_t generator
    cdef index_t position
    cdef index_t visits_here
    cdef double violation_sum, mean_violation
    cdef readonly index_t visits

    def __init__(self, problem, seed):
        cdef Rows rows = problem.data
        self.rows = rows
        self.n_columns = rows.n_columns
        self.values_per_row = rows.n_nonzeros / max(1, self.n_rows) + 1
        self.weights = aligned_zeros(self.n_columns, self.padded)
        self.lengths, self.terms = np.sqrt(self.curvatures), 1.01 * UNIT * (rows.row_lengths() + 3)
        self.items = self.movable()
        self.order = np.empty(len(self.items), dtype=np.int64)
        self.blocks = np.arange((len(self.items) + BLOCK - 1) // BLOCK)
        self.pause, self.calm = np.zeros((2, self.n_rows), dtype=np.uint8)
        self.generator = seed
        self.position = self.order.shape[0]
        s = &self.s
        s.n_columns, s.bias, s.starts = rows.n_columns, rows.bias, &rows.indptr[0]
        if rows.n_nonzeros:
            s.columns, s.values = &rows.indices[0], &rows.values[0]
        s.w = data_of(self.weights.reshape(-1))

    def half_square(self):
        """1/2 |w|^2"""
        return 0.5 * inner(self.weights, self.weights)

    def score_errors(self, bint fine=False):
        """Bounds on the rounding of the scores of each row, of all classes: fine ones take a pass over the rows."""
        sizes = math.sqrt(2 * self.half_square()) * self.lengths
        if fine:
            largest = np.abs(self.weights).max(axis=1, initial=0.0)
            sizes = np.minimum(sizes, self.rows.absolute_product(np.ascontiguousarray(largest)))
        return sizes * self.terms

    def fill_rows(self):
        """Keep a second copy of the rows with all columns; many passes pay for it where rows have most of them."""
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
        if self.n_classes < ODM_MOST_IN_SUBSET:
            raise ValueError(f"lists of classes are for {ODM_MOST_IN_SUBSET} classes and more")
        cdef int32_t[::1] lists = np.zeros(self.n_rows * ODM_LISTED, dtype=np.int32)
        cdef uint8_t[::1] visits = np.zeros(self.n_rows, dtype=np.uint8)
        cdef uint8_t[::1] trust = np.full(self.n_rows, ODM_LEAST_TRUST, dtype=np.uint8)
        if self.n_rows:
            self.s.lists, self.s.list_visits, self.s.list_trust = &lists[0], &visits[0], &trust[0]
        self.listed = lists, visits, trust

    def rebuild(self):
        """w anew from the multipliers, which removes what rounding has added."""
        cdef index_t i
        self.weights[:] = 0
        with nogil:
            for i in range(self.n_rows):
                mcodm_add_row(self.s, i)

    def reassign(self, bint at_once=False):
        """As for all machines; and no row pauses any more."""
        self.pause[:] = 0
        self.calm[:] = 0
        return McodmState.reassign(self, at_once)

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
                    odm_mcodm_prefetch(self.s, self.order[self.position + 2 * LOOK_AHEAD - 1],
                                       self.order[self.position + LOOK_AHEAD - 1])
                if lazy and self.pause[i]:
                    self.pause[i] -= 1
                    continue
                violation = mcodm_visit(self.s, i, upper)
                if violation < 0:
                    break
                nonzeros -= self.s.starts[i + 1] - self.s.starts[i] + 8
                self.visits_here += 1
                self.visits += 1
                self.violation_sum += violation
                if violation < calm:
                    self.calm[i] = min(self.calm[i] + 1, 3)
                    self.pause[i] = (1 << self.calm[i]) - 1
                else:
                    self.calm[i] = 0
        require(violation >= 0)
        return self.position >= n


# ---------------------------------------------------------------- kernel machines


cdef class KernelState(McodmState):
    """Multipliers and the scores of all rows, class after class: scores[l, i]. Blocks of rows are solved one by one."""

    cdef RowCache cache
    cdef readonly object scores
    cdef double[:, ::1] F
    cdef int threads
    cdef uint64_t generator
    cdef readonly index_t block_rows, sweeps
    cdef readonly object block          # rows of the open block
    cdef object kernel_memory
    cdef const index_t[::1] rows
    cdef index_t[::1] order
    # of the open block: scores class after class, as a step of one row changes few classes of all the others
    cdef double[:, ::1] local_scores, moved, local_kernel
    cdef vector[void *] pointers        # to its kernel rows

    def __init__(self, problem, RowCache cache, index_t block_rows, int threads, seed):
        if cache.n_columns != self.n_rows:
            raise ValueError(f"a cache of {cache.n_columns} rows for {self.n_rows}")
        self.cache, self.threads, self.generator = cache, threads, seed
        self.values_per_row = 1
        self.scores = np.zeros((self.n_classes, self.n_rows))
        self.F = self.scores
        self.s.class_scores = data_of(self.scores.reshape(-1))
        self.block_rows = max(1, min(block_rows, cache.capacity))
        self.local_scores = np.zeros((self.padded, self.block_rows))
        self.moved = np.zeros((self.block_rows, self.padded))
        self.kernel_memory = np.empty(self.block_rows ** 2)
        self.pointers.resize(self.block_rows)

    def half_square(self):
        """1/2 sum_l |w_l|^2"""
        cdef index_t i, l
        cdef double half = 0
        cdef double *v = self.s.change
        with nogil:
            for i in range(self.n_rows):
                memset(v, 0, self.padded * sizeof(double))
                odm_row_duals(self.s, i, v)
                for l in range(self.n_classes):
                    half += 0.5 * v[l] * self.F[l, i]
        return half

    cdef add_products(self, void **rows, bint wide, const double[:, ::1] changes, double[:, ::1] out, int threads):
        """out[l] += sum_r changes[r, l] rows[r]; what is 0 costs nothing."""
        cdef index_t n = changes.shape[0], l, r, n_used
        cdef double[::1] factors = np.zeros(n)
        cdef vector[void *] used
        used.resize(n)
        with nogil:
            for l in range(self.n_classes):
                n_used = 0
                for r in range(n):
                    if changes[r, l] != 0:
                        used[n_used], factors[n_used] = rows[r], changes[r, l]
                        n_used += 1
                if n_used:
                    odm_add_rows(<const void **>used.data(), wide, &factors[0], n_used, out.shape[1], &out[l, 0], threads)

    cdef int require_block(self, index_t n, index_t n_lines, index_t n_columns) except -1:
        if n > self.block_rows or n_lines != n or n_columns < self.n_classes:
            raise ValueError(f"{n_lines} x {n_columns} values for {n} of at most {self.block_rows} rows")
        return 0

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
        self.require_block(n, n, self.n_classes)
        if n and not 0 <= self.block.min() <= self.block.max() < self.n_rows:
            raise ValueError(f"a block has rows beyond 0 to {self.n_rows - 1}")
        self.order = np.arange(n)
        self.local_kernel = self.kernel_memory[:n * n].reshape(n, n)
        if n == 0:
            return
        with nogil:
            self.cache.fetch(&self.rows[0], n, self.pointers.data())
            for r in range(n):
                for c in range(n):
                    if self.cache.wide:
                        self.local_kernel[r, c] = (<double *>self.pointers[r])[self.rows[c]]
                    else:
                        self.local_kernel[r, c] = (<float *>self.pointers[r])[self.rows[c]]
                for l in range(self.n_classes):
                    self.local_scores[l, r] = self.F[l, self.rows[r]]
                    self.moved[r, l] = 0

    def close_block(self):
        """The scores of all rows follow the open block."""
        self.add_products(self.pointers.data(), self.cache.wide, self.moved[:self.rows.shape[0]], self.F, self.threads)

    def sweep(self, bint upper):
        """An exact step of every row of the open block, in random order; the largest violation found."""
        cdef index_t n = self.rows.shape[0], r, c, i, l, p, n_changed
        cdef int32_t label
        cdef double violation = 0, largest = 0
        with nogil:
            if n:
                shuffle(&self.order[0], n, &self.generator)
            for c in range(n):
                r = self.order[c]
                for l in range(self.padded):
                    self.s.scores[l] = self.local_scores[l, r]
                i = self.rows[r]
                violation = mcodm_solve(self.s, i, odm_all_classes(self.s, i), self.s.scores, self.s.curvatures[i], upper,
                                        &n_changed)
                if violation < 0:
                    break
                if violation > largest:
                    largest = violation
                for p in range(n_changed):  # the block's scores follow the row
                    label = self.s.changed[p]
                    self.moved[r, label] += self.s.change[label]
                    odm_add_multiple(n, self.s.change[label], &self.local_kernel[r, 0], &self.local_scores[label, 0])
        require(violation >= 0)
        self.sweeps += 1
        return largest

    def block_kernel(self):
        """The kernel matrix of the open block."""
        return np.asarray(self.local_kernel)

    def block_times(self, const double[:, ::1] x):
        """The block's kernel matrix times x (rows x padded classes)."""
        cdef index_t n = self.rows.shape[0], r
        cdef vector[void *] lines
        lines.resize(n)
        require_shape(x, n, self.padded)
        for r in range(n):
            lines[r] = &self.local_kernel[r, 0]
        out = np.zeros((self.padded, n))
        self.add_products(lines.data(), True, x, out, 1)
        return np.ascontiguousarray(out.T)

    def block_scores(self):
        """Rows of the open block x padded classes."""
        return np.ascontiguousarray(np.asarray(self.local_scores)[:, :len(self.block)].T)

    def set_block(self, const double[:, ::1] zeta, beta, changes, scores):
        """Other multipliers for the open block: v moves by `changes`, and these are its scores then."""
        cdef index_t n = self.rows.shape[0]
        self.require_block(n, zeta.shape[0], zeta.shape[1])
        self.store(self.rows, zeta, beta)
        np.asarray(self.moved)[:n] += changes
        np.asarray(self.local_scores)[:, :n] = scores.T

    def proximal_block(self, double t, const double[:, ::1] scores, const double[:, ::1] center, double[:, ::1] zeta,
                       double[::1] beta, double[:, ::1] v):
        """Every block row's argmin of conj + <scores, v> + t/2 |v - center|^2: fills zeta, beta and v."""
        cdef index_t n = self.rows.shape[0], r, l, i
        cdef odm_class_row row
        require_shape(scores, n, self.padded)
        require_shape(center, n, self.padded)
        require_shape(zeta, n, self.padded)
        require_shape(v, n, self.padded)
        require_length(beta, n)
        with nogil:
            for r in range(n):
                i = self.rows[r]
                for l in range(self.padded):
                    zeta[r, l] = scores[r, l] - t * center[r, l]
                row = odm_class_row_of(self.s, i, t, True)
                odm_class_block(row, &zeta[r, 0], self.n_classes, self.padded, &beta[r])
                dense_duals(self.s, i, &zeta[r, 0], beta[r], &v[r, 0])

    def measure_block(self, const double[:, ::1] scores, const double[:, ::1] zeta, const double[::1] beta):
        """(sum of the block rows' parts of the gap, sum of their conjugates) at these scores and multipliers."""
        cdef index_t n = self.rows.shape[0], r, l
        cdef int32_t n_entries
        cdef vector[odm_entry] entries = vector[odm_entry](self.n_classes)
        cdef odm_mcodm_sums sums = odm_mcodm_sums(0, 0, 0, 0, 0, 0, 0, 0)
        cdef odm_mcodm_best best
        require_shape(scores, n, self.padded)
        require_shape(zeta, n, self.padded)
        require_length(beta, n)
        with nogil:
            for r in range(n):
                n_entries = 0
                for l in range(self.n_classes):
                    if zeta[r, l] > 0:
                        entries[n_entries].value, entries[n_entries].label = zeta[r, l], <int32_t>l
                        n_entries += 1
                memcpy(self.s.scores, &scores[r, 0], self.padded * sizeof(double))
                mcodm_measure(self.s, self.rows[r], self.s.scores, entries.data(), n_entries, beta[r], &sums, &best)
        return sums.gap, sums.conjugate


# ---------------------------------------------------------------- Newton's method for linear machines


cdef struct RowsJob:
    odm_mcodm *s
    const index_t *starts       # rows of the chunks
    const double *t
    double *scores              # rows x padded: of the weights, minus t times the prox center
    double *changes             # of the scores along the direction searched
    double length               # of the step along it
    double *zeta
    double *beta
    int32_t *n_active
    const double *weights       # of a direction
    double *out                 # per chunk or group
    index_t n_out
    double *scratch             # per chunk, stripes of some rows
    # groups of rows: those of group g begin where g-1 ends
    const index_t *ends
    const int32_t *rows
    const double *factors
    bint failed                 # no memory


cdef class ProximalRows:
    """The rows' proximal steps around the state's multipliers, and their derivatives.

    `scores` (rows x padded) are those of the weights given last, plus what `advance` has added since, minus t times
    the prox center.
    """

    cdef LinearState state
    cdef RowsJob known                  # points to the arrays below
    cdef object t
    cdef const index_t[::1] starts
    cdef readonly object zeta, beta, scores
    cdef object changes, scratch, n_active
    cdef object stripes                 # weights of a direction
    cdef object pairs, matrix           # of hessian
    cdef vector[odm_pair_term] found
    cdef object terms                   # the same, sorted: see sorted_terms
    cdef readonly index_t n_curved      # rows that have any
    cdef index_t n_chunks
    cdef int threads

    def __init__(self, LinearState state, int threads):
        m, padded = state.n_rows, state.padded
        self.state, self.threads = state, threads
        self.starts = state.rows._chunk_starts(state.n_columns * padded)
        self.n_chunks = self.starts.shape[0] - 1
        self.zeta, self.scores, self.changes = (aligned_zeros(m, padded) for _ in range(3))
        self.beta, self.n_active = np.zeros(m), np.zeros(m, dtype=np.int32)
        self.scratch = aligned_zeros(self.n_chunks, SOME_ROWS * padded)
        self.stripes = aligned_zeros(state.n_columns, padded)
        job = &self.known
        job.s, job.starts = &state.s, &self.starts[0]
        job.scores, job.changes = data_of(self.scores.reshape(-1)), data_of(self.changes.reshape(-1))
        job.zeta, job.beta = data_of(self.zeta.reshape(-1)), data_of(self.beta)
        job.scratch, job.weights = data_of(self.scratch.reshape(-1)), data_of(self.stripes.reshape(-1))
        job.n_active = integers_of(self.n_active)

    cdef RowsJob *job(self) except NULL:
        if self.t is None:
            raise ValueError("begin comes first")
        return &self.known

    cdef int run(self, void (*task)(void *, index_t) noexcept nogil, index_t n, double *out, index_t n_out) except -1:
        """The task for all chunks or groups, by all threads."""
        cdef RowsJob *job = self.job()
        job.out, job.n_out = out, n_out
        with nogil:
            parallel_for(n, self.threads, task, job)
        return 0

    cdef int run_groups(self, void (*task)(void *, index_t) noexcept nogil, const index_t[::1] ends, const int32_t[::1] rows,
                        const double[::1] factors, double[:, :, ::1] out) except -1:
        """The same for groups of rows with factors; out[g] belongs to group g."""
        cdef RowsJob *job = self.job()
        if rows.shape[0]:
            job.ends, job.rows, job.factors, job.failed = &ends[0], &rows[0], &factors[0], False
            self.run(task, ends.shape[0], &out[0, 0, 0], out.shape[2])
            if job.failed:
                raise MemoryError("no memory for the Hessian")
        return 0

    def begin(self, t, const double[:, ::1] weights, bint scored=False):
        """The prox center: the state's multipliers, which stay as they are; t: one number per row.

        `scored`: `scores` holds those of the weights already.
        """
        cdef index_t i
        t = np.ascontiguousarray(t, dtype=np.float64)
        require_length(t, self.state.n_rows)
        self.t, self.known.t = t, data_of(t)
        if not scored:
            self.score(weights, self.known.scores)
        cdef RowsJob *job = self.job()
        with nogil:
            for i in range(self.state.n_rows):
                odm_prox_base(job.s[0], i, job.t[i], job.scores + i * job.s.padded)

    def search(self, const double[:, ::1] direction):
        """The direction of the next steps."""
        self.score(direction, self.known.changes)

    cdef score(self, weights, double *out):
        self.stripes[:] = weights
        self.run(scores_chunk, self.n_chunks, out, 0)

    def step(self, double length):
        """Proximal steps at that length along the direction; the slope along it of the sum of the rows' minima."""
        slopes = np.zeros(self.n_chunks)
        self.known.length = length
        self.terms = None
        self.run(step_chunk, self.n_chunks, data_of(slopes), 1)
        return float(slopes.sum())

    def advance(self, double length):
        """Go that far along the direction."""
        cdef RowsJob *job = self.job()
        cdef index_t i
        with nogil:
            for i in range(self.state.n_rows * self.state.padded):
                job.scores[i] += length * job.changes[i]

    def weights(self):
        """sum_i x_i v_i' of the present steps."""
        return self.summed(weights_chunk)

    def hessian_product(self, const double[:, ::1] direction, by_pairs=None):
        """sum_i x_i (J_i direction' x_i)', pair by pair of classes or row by row; None: the faster way."""
        require_shape(direction, self.state.n_columns, self.state.padded)
        if self.pairs_pay() if by_pairs is None else by_pairs:
            return self.pair_product(direction)
        self.stripes[:] = direction
        return self.summed(product_chunk)

    cdef bint pairs_pay(self):
        """A row of two classes meets one vector of columns then, not a stripe of all classes in every column."""
        cdef index_t k = self.state.n_classes, n_sums = k * (k + 1) // 2, d = self.state.n_columns
        if n_sums * d > MOST_PAIR_VALUES:
            return False
        _, rows, _ = self.sorted_terms()
        n_sums += len(rows) // SEGMENT
        return n_sums * d <= MOST_PAIR_VALUES and 6 * len(rows) <= self.n_curved * self.state.padded

    cdef pair_product(self, direction):
        """A row of a pair (l, m), m < l, meets the pair's direction_l - direction_m; (l, l) has direction_l."""
        ends, rows, factors = self.sorted_terms()
        counts = np.diff(ends, prepend=0)
        n_segments = -(-counts // SEGMENT)
        l, m = (np.repeat(labels, n_segments) for labels in np.tril_indices(self.state.n_classes))
        below = m < l
        number = np.arange(1, len(l) + 1) - np.repeat(np.cumsum(n_segments) - n_segments, n_segments)  # within the pair
        last = np.repeat(ends - counts, n_segments) + SEGMENT * number
        along = np.ascontiguousarray(np.asarray(direction).T)
        terms = np.zeros((len(l), 2, self.state.n_columns))  # the pair's direction, and the product
        terms[:, 0] = along[l] - np.where(below[:, None], along[m], 0.0)
        self.run_groups(product_of_group, np.minimum(last, np.repeat(ends, n_segments)), rows, factors, terms)
        total = np.zeros((self.state.padded, self.state.n_columns))
        np.add.at(total, l, terms[:, 1])
        np.subtract.at(total, m[below], terms[below, 1])
        return np.ascontiguousarray(total.T)

    def hessian_diagonal(self):
        """Of columns x padded classes."""
        ends, rows, factors = self.sorted_terms()
        l, m = (np.repeat(labels, np.diff(ends, prepend=0)) for labels in np.tril_indices(self.state.n_classes))
        total = np.zeros((self.state.n_columns, self.state.padded))
        for label in range(self.state.n_classes):
            own = (l == label) | (m == label)
            coefficients = np.bincount(rows[own], factors[own], self.state.n_rows)
            total[:, label] = self.state.rows.hessian_diagonal(coefficients, self.threads)
        return total

    cdef summed(self, void (*task)(void *, index_t) noexcept nogil):
        """Chunks keep sums of their own, added in chunk order: the number of threads changes nothing."""
        partial = aligned_zeros(self.n_chunks, self.state.n_columns, self.state.padded)
        self.run(task, self.n_chunks, data_of(partial.reshape(-1)), self.state.n_columns * self.state.padded)
        total = partial[0]
        for chunk in range(1, self.n_chunks):
            total += partial[chunk]
        return total

    cdef sorted_terms(self):
        """(ends, rows, factors) of all pairs of classes: those of pair p begin where p-1 ends."""
        if self.terms is not None:
            return self.terms
        cdef index_t i, n, n_pairs = self.state.n_classes * (self.state.n_classes + 1) // 2
        cdef int32_t[::1] classes = np.empty(self.state.n_classes, dtype=np.int32)
        cdef bint stored = True
        cdef RowsJob *job = self.job()
        self.found.clear()
        with nogil:
            for i in range(self.state.n_rows):
                stored = stored and odm_row_pair_terms(job.s[0], i, job.t[i], job.n_active[i], job.beta[i],
                                                       job.zeta + i * job.s.padded, &classes[0], &self.found)
        if not stored:
            raise MemoryError("no memory for the Hessian")
        n = self.found.size()
        self.found.resize(n + 1)  # a view has one value at least
        found = np.asarray(<odm_pair_term[:n + 1]>self.found.data())[:n]
        self.n_curved = np.count_nonzero(np.diff(found["row"], prepend=-1))
        pairs = found["pair"].astype(np.min_scalar_type(n_pairs))  # numbers of 16 bits are sorted in no time
        order = np.argsort(pairs, kind="stable")
        ends = np.cumsum(np.bincount(pairs, minlength=n_pairs))
        self.terms = ends, found["row"][order], found["factor"][order]
        return self.terms

    def hessian_blocks(self, index_t every=1):
        """The diagonal blocks of all classes, sum_i J_i[l][l] x_i x_i': (classes x columns or more x the same), of which
        the lower triangles count. `every`: one out of so many rows of a pair stands for all."""
        cdef index_t k = self.state.n_classes, stride = 4 * odm_quad_lines(self.state.n_columns)
        ends, rows, factors = self.sorted_terms()
        blocks, sums = aligned_zeros(k, stride, stride), aligned_zeros(1, stride, stride)
        first, second = np.tril_indices(k)
        for pair in np.flatnonzero(np.diff(ends, prepend=0)):
            PyErr_CheckSignals()  # all of it may take a second
            some = slice(ends[pair - 1] if pair else 0, ends[pair], every)
            chosen = np.ascontiguousarray(rows[some])
            share = (some.stop - some.start) / len(chosen)
            sums[:] = 0
            self.run_groups(outer_products_of_group, np.array([len(chosen)]), chosen, factors[some] * share, sums)
            blocks[first[pair]] += sums[0]
            if second[pair] < first[pair]:
                blocks[second[pair]] += sums[0]
        return blocks

    def hessian(self):
        """sum_i J_i (x) x_i x_i', class-major, lower triangle only; the next call writes over it."""
        cdef index_t k = self.state.n_classes, N = self.state.n_columns * k, stride = 4 * odm_quad_lines(self.state.n_columns)
        if self.pairs is None:
            self.pairs, self.matrix = aligned_zeros(k * (k + 1) // 2, stride, stride), np.empty((N, N))
        ends, rows, factors = self.sorted_terms()
        self.pairs[:] = 0
        self.matrix[:] = 0
        self.run_groups(outer_products_of_group, ends, rows, factors, self.pairs)
        odm_unfold_pairs(self.state.s, data_of(self.pairs.reshape(-1)), data_of(self.matrix.reshape(-1)))
        return self.matrix


cdef void scores_chunk(void *context, index_t chunk) noexcept nogil:
    cdef RowsJob *job = <RowsJob *>context
    all_scores(job.s[0], job.starts[chunk], job.starts[chunk + 1], job.weights,
               job.out + job.starts[chunk] * job.s.padded)


cdef void step_chunk(void *context, index_t chunk) noexcept nogil:
    cdef RowsJob *job = <RowsJob *>context
    cdef index_t i, padded = job.s.padded
    cdef double slope = 0
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if moves(job.s[0], i):
            slope += prox_row(job.s[0], i, job.t[i], job.scores + i * padded, job.changes + i * padded, job.length,
                              job.zeta + i * padded, job.beta + i, job.n_active + i)
    job.out[chunk] = slope


cdef void weights_chunk(void *context, index_t chunk) noexcept nogil:
    cdef RowsJob *job = <RowsJob *>context
    cdef index_t i, padded = job.s.padded
    cdef double *v = job.scratch + SOME_ROWS * chunk * padded
    cdef index_t[4] rows
    cdef index_t n = 0
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if job.n_active[i] or job.beta[i] > 0:
            dense_duals(job.s[0], i, job.zeta + i * padded, job.beta[i], v + n * padded)
            rows[n] = i
            n += 1
            if n == SOME_ROWS:
                add_duals(job.s[0], rows, n, v, job.out + chunk * job.n_out)
                n = 0
    add_duals(job.s[0], rows, n, v, job.out + chunk * job.n_out)


cdef void product_chunk(void *context, index_t chunk) noexcept nogil:
    cdef RowsJob *job = <RowsJob *>context
    cdef index_t i, padded = job.s.padded
    cdef double *d = job.scratch + SOME_ROWS * chunk * padded
    cdef odm_jacobian jacobian
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if odm_jacobian_of(job.s[0], i, job.t[i], job.n_active[i], job.beta[i], &jacobian):
            mcodm_scores(job.s[0], i, job.weights, d)
            odm_jacobian_product(jacobian, job.zeta + i * padded, d, job.s.n_classes, padded)
            mcodm_add(job.s[0], i, d, job.out + chunk * job.n_out)


cdef void product_of_group(void *context, index_t group) noexcept nogil:
    cdef RowsJob *job = <RowsJob *>context
    cdef index_t begin = job.ends[group - 1] if group else 0
    cdef double *sums = job.out + 2 * group * job.n_out
    outer_products_times(job.s[0], job.rows + begin, job.factors + begin, job.ends[group] - begin, sums, sums + job.n_out)


cdef void outer_products_of_group(void *context, index_t group) noexcept nogil:
    """Its rows come in the same order however the groups are shared."""
    cdef RowsJob *job = <RowsJob *>context
    cdef index_t begin = job.ends[group - 1] if group else 0
    cdef index_t n = job.ends[group] - begin
    if n and not odm_add_outer_products(job.s[0], job.rows + begin, job.factors + begin, n,
                                        job.out + group * job.n_out * job.n_out):
        job.failed = True
