"""Compiled passes of the proximal Newton method; joint_newton.py holds the method's statement."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from libcpp.vector cimport vector

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.types cimport index_t, int32_t
from odmlib.solvers._joint cimport JointState, odm_joint, odm_joint_add, odm_joint_all_scores, odm_joint_scores
from odmlib.solvers._joint import aligned_zeros

cdef extern from "joint_prox.h" nogil:
    ctypedef struct odm_bend:
        pass
    bint odm_bend_of(const odm_joint &s, index_t i, double t, index_t n_active, double beta, odm_bend *bend) noexcept
    double odm_bend_at(const odm_bend &b, index_t l, bint active_l, index_t m, bint active_m) noexcept
    void odm_bend_product(const odm_bend &b, const double *zeta, double *d, index_t n_classes, index_t padded) noexcept
    double odm_prox_row(const odm_joint *s, index_t i, double t, const double *base, const double *change, double length,
                        double *zeta, double *beta, int32_t *n_active, double *along) noexcept
    void odm_prox_base(const odm_joint *s, index_t i, double t, double *scores) noexcept
    const index_t SOME_ROWS "ODM_SOME_ROWS"
    void odm_dense_duals(const odm_joint *s, index_t i, const double *zeta, double beta, double *v) noexcept
    void odm_add_duals(const odm_joint *s, const index_t *rows, index_t n, const double *v, double *weights) noexcept
    ctypedef struct odm_share:
        int32_t place
        int32_t row
        double factor
    bint odm_row_shares(const odm_joint *s, index_t i, double t, index_t n_active, double beta, const double *zeta,
                        int32_t *classes, vector[odm_share] *shares) noexcept
    index_t odm_four_lines(index_t d) noexcept
    const index_t ODM_TRIANGLES
    void odm_add_squares(const odm_joint *s, const int32_t *rows, const double *factors, index_t n, int32_t *fours,
                         double *values, double *P) noexcept
    void odm_squares_product(const odm_joint *s, const int32_t *rows, const double *factors, index_t n, const double *u,
                             double *out) noexcept
    void odm_unfold_pairs(const odm_joint *s, const double *blocks, double *H) noexcept


cdef index_t SEGMENT = 4096             # rows of one pair of classes that a thread multiplies at a time
cdef index_t MOST_PAIR_VALUES = 4000000 # of the sums that segments keep


cdef struct Job:
    odm_joint *s
    const index_t *starts       # rows of the chunks
    const double *t
    double *scores              # rows x padded: of the weights, minus t times the centre
    double *changes             # of the scores along the direction searched
    double length               # of the step along it
    double *zeta
    double *beta
    int32_t *n_active
    const double *weights       # of a direction
    double *out                 # per chunk
    index_t n_out
    double *scratch             # per chunk, stripes of some rows
    # squares of rows, sorted by place
    const index_t *ends
    const int32_t *rows
    const double *factors
    const index_t *segments     # (first, end) of each
    bint failed                 # no memory


cdef class ProximalRows:
    """The rows' proximal steps around the state's multipliers, and their derivatives.

    `scores` (rows x padded) are those of the weights given last, plus what `advance` has added since, minus t times
    the centre.
    """

    cdef JointState state
    cdef const double[::1] t
    cdef const index_t[::1] starts
    cdef readonly object zeta, beta, proximity
    cdef readonly object scores
    cdef double[:, ::1] zeta_view, scores_view, changes, scratch
    cdef double[:, ::1] stripes         # weights of a direction
    cdef double[::1] beta_view
    cdef int32_t[::1] n_active
    cdef object pairs, matrix           # of hessian
    cdef vector[odm_share] found
    cdef object shares                  # the same, sorted: see sorted_shares
    cdef readonly index_t n_bent        # rows that have any
    cdef int threads

    def __init__(self, JointState state, int threads):
        m, padded = state.n_rows, state.padded
        self.state, self.threads = state, threads
        self.zeta, self.beta = aligned_zeros(m, padded), np.zeros(m)
        self.zeta_view, self.beta_view = self.zeta, self.beta
        self.scores, self.changes = aligned_zeros(m, padded), aligned_zeros(m, padded)
        self.scores_view = self.scores
        self.n_active = np.zeros(m, dtype=np.int32)
        self.starts = state.rows._chunk_starts(state.n_columns * padded)
        self.scratch = aligned_zeros(len(self.starts), SOME_ROWS * padded)
        self.stripes = aligned_zeros(state.n_columns, padded)

    cdef Job job(self):
        cdef Job job
        memset(&job, 0, sizeof(Job))
        job.s = &self.state.s
        job.starts = &self.starts[0]
        if self.t is not None:
            job.t = &self.t[0]
        job.scores, job.changes = &self.scores_view[0, 0], &self.changes[0, 0]
        job.zeta, job.beta, job.n_active = &self.zeta_view[0, 0], &self.beta_view[0], &self.n_active[0]
        job.scratch = &self.scratch[0, 0]
        return job

    def begin(self, t, const double[:, ::1] weights, bint scored=False):
        """The centre: the state's multipliers, which stay as they are; t: one number per row.

        `scored`: `scores` holds those of the weights already.
        """
        cdef index_t i
        self.proximity = np.ascontiguousarray(t, dtype=np.float64)
        self.t = self.proximity
        if not scored:
            self.score(weights, False)
        cdef Job job = self.job()
        with nogil:
            for i in range(self.state.n_rows):
                odm_prox_base(job.s, i, job.t[i], job.scores + i * job.s.padded)

    def search(self, const double[:, ::1] direction):
        """The direction of the next steps."""
        self.score(direction, True)

    cdef score(self, const double[:, ::1] weights, bint changes):
        cdef Job job = self.job()
        self.stripes[:] = weights
        job.weights, job.out = &self.stripes[0, 0], job.changes if changes else job.scores
        with nogil:
            parallel_for(self.starts.shape[0] - 1, self.threads, scores_chunk, &job)

    def step(self, double length):
        """Proximal steps at that length along the direction: (sum of the rows' minima, its slope along it)."""
        cdef index_t n_chunks = self.starts.shape[0] - 1
        sums = np.zeros((n_chunks, 2))
        cdef double[:, ::1] out = sums
        cdef Job job = self.job()
        job.length, job.out = length, &out[0, 0]
        self.shares = None
        with nogil:
            parallel_for(n_chunks, self.threads, step_chunk, &job)
        total = sums.sum(axis=0)
        return float(total[0]), float(total[1])

    def advance(self, double length):
        """Go that far along the direction."""
        cdef Job job = self.job()
        cdef index_t i, n = self.state.n_rows * self.state.padded
        with nogil:
            for i in range(n):
                job.scores[i] += length * job.changes[i]

    def weights(self):
        """sum_i x_i v_i' of the present steps."""
        return self.summed(weights_chunk, None)

    def hessian_product(self, const double[:, ::1] direction, by_pairs=None):
        """sum_i x_i (J_i direction' x_i)', pair by pair of classes or row by row; None: the faster way."""
        if self.pairs_pay() if by_pairs is None else by_pairs:
            return self.pair_product(direction)
        return self.summed(product_chunk, direction)

    cdef bint pairs_pay(self):
        """A row of two classes meets one vector of columns then, not a stripe of all classes in every column."""
        cdef index_t k = self.state.n_classes, n_sums = k * (k + 1) // 2, d = self.state.n_columns
        if n_sums * d > MOST_PAIR_VALUES:
            return False
        _, rows, _ = self.sorted_shares()
        n_sums += len(rows) // SEGMENT
        return n_sums * d <= MOST_PAIR_VALUES and 6 * len(rows) <= self.n_bent * self.state.padded

    cdef pair_product(self, const double[:, ::1] direction):
        cdef index_t place, l, m, j, n, first, at = 0, d = self.state.n_columns
        ends, rows, factors = self.sorted_shares()
        cdef index_t n_segments = (-(-np.diff(ends, prepend=0) // SEGMENT)).sum()
        cdef index_t[:, ::1] segments = np.empty((n_segments, 2), dtype=np.int64)
        cdef index_t[:, ::1] classes = np.empty((n_segments, 2), dtype=np.int64)
        cdef double[:, :, ::1] sums = np.zeros((n_segments, 2, d))  # the pair's direction, and the product
        cdef const index_t[::1] ends_view = ends
        cdef const int32_t[::1] rows_view = rows
        cdef const double[::1] factors_view = factors
        total = np.zeros((d, self.state.padded))
        cdef double[:, ::1] out = total
        cdef Job job = self.job()
        if n_segments == 0:
            return total
        job.rows, job.factors, job.segments = &rows_view[0], &factors_view[0], &segments[0, 0]
        job.out, job.n_out = &sums[0, 0, 0], d
        with nogil:
            first = l = m = 0
            for place in range(ends_view.shape[0]):
                while first < ends_view[place]:
                    n = min(SEGMENT, ends_view[place] - first)
                    segments[at, 0], segments[at, 1] = first, first + n
                    classes[at, 0], classes[at, 1] = l, m
                    for j in range(d):
                        sums[at, 0, j] = direction[j, l] - (direction[j, m] if m < l else 0)
                    first += n
                    at += 1
                m += 1
                if m > l:
                    l, m = l + 1, 0
            parallel_for(n_segments, self.threads, product_segment, &job)
            for at in range(n_segments):
                l, m = classes[at, 0], classes[at, 1]
                for j in range(d):
                    out[j, l] += sums[at, 1, j]
                    if m < l:
                        out[j, m] -= sums[at, 1, j]
        return total

    def hessian_diagonal(self):
        return self.summed(diagonal_chunk, None)

    cdef summed(self, void (*task)(void *, index_t) noexcept nogil, const double[:, ::1] direction):
        """Chunks keep sums of their own, added in chunk order: the number of threads changes nothing."""
        cdef index_t n_chunks = self.starts.shape[0] - 1
        partial = aligned_zeros(n_chunks, self.state.n_columns, self.state.padded)
        cdef double[:, :, ::1] out = partial
        cdef Job job = self.job()
        job.out, job.n_out = &out[0, 0, 0], self.state.n_columns * self.state.padded
        if direction is not None:
            self.stripes[:] = direction
            job.weights = &self.stripes[0, 0]
        with nogil:
            parallel_for(n_chunks, self.threads, task, &job)
        total = partial[0]
        for chunk in range(1, n_chunks):
            total += partial[chunk]
        return total

    cdef sorted_shares(self):
        """(ends, rows, factors) of all pairs of classes: those of place p begin where p-1 ends."""
        if self.shares is not None:
            return self.shares
        cdef index_t i, k, at, n, last = -1, n_places = self.state.n_classes * (self.state.n_classes + 1) // 2
        cdef int32_t[::1] classes = np.empty(self.state.n_classes, dtype=np.int32)
        cdef odm_share *shares
        cdef bint stored = True
        cdef Job job = self.job()
        self.found.clear()
        with nogil:
            for i in range(self.state.n_rows):
                stored = stored and odm_row_shares(job.s, i, job.t[i], job.n_active[i], job.beta[i],
                                                   job.zeta + i * job.s.padded, &classes[0], &self.found)
        if not stored:
            raise MemoryError("no memory for the Hessian")
        n, shares = self.found.size(), self.found.data()
        ends, rows, factors = np.zeros(n_places + 1, dtype=np.int64), np.empty(n, dtype=np.int32), np.empty(n)
        cdef index_t[::1] ends_view = ends
        cdef int32_t[::1] rows_view = rows
        cdef double[::1] factors_view = factors
        self.n_bent = 0
        with nogil:
            for k in range(n):
                ends_view[shares[k].place + 1] += 1
                self.n_bent += shares[k].row != last
                last = shares[k].row
            for k in range(n_places):
                ends_view[k + 1] += ends_view[k]
            for k in range(n):
                at = ends_view[shares[k].place]
                ends_view[shares[k].place] = at + 1  # becomes the end of its rows
                rows_view[at] = shares[k].row
                factors_view[at] = shares[k].factor
        self.shares = ends[:n_places], rows, factors
        return self.shares

    def hessian_blocks(self, index_t every=1):
        """The diagonal blocks of all classes, sum_i J_i[l][l] x_i x_i': (classes x columns or more x the same), of which
        the lower triangles count. `every`: one out of so many rows of a pair stands for all."""
        cdef index_t k = self.state.n_classes, stride = 4 * odm_four_lines(self.state.n_columns), size = stride * stride
        cdef index_t e, l = 0, m = 0, begin = 0, end
        ends, rows, factors = self.sorted_shares()
        blocks = aligned_zeros(k, stride, stride)
        cdef double[:, :, ::1] out = blocks
        cdef double[:, ::1] pair = aligned_zeros(stride, stride)
        cdef double *target
        cdef int32_t[:, ::1] fours = np.empty((ODM_TRIANGLES, stride // 4), dtype=np.int32)
        cdef double[:, ::1] values = aligned_zeros(ODM_TRIANGLES, stride)
        cdef const int32_t[::1] some_rows
        cdef const double[::1] some_factors
        for end in ends:
            PyErr_CheckSignals()  # all of it may take a second
            if begin < end:
                some_rows = np.ascontiguousarray(rows[begin:end:every])
                some_factors = factors[begin:end:every] * ((end - begin) / <double>some_rows.shape[0])
                target = &pair[0, 0] if m < l else &out[l, 0, 0]
                with nogil:
                    if m < l:
                        memset(target, 0, size * sizeof(double))
                    odm_add_squares(&self.state.s, &some_rows[0], &some_factors[0], some_rows.shape[0], &fours[0, 0],
                                    &values[0, 0], target)
                    if m < l:
                        for e in range(size):
                            (&out[l, 0, 0])[e] += target[e]
                            (&out[m, 0, 0])[e] += target[e]
            begin = end
            m += 1
            if m > l:
                l, m = l + 1, 0
        return blocks

    def hessian(self):
        """sum_i J_i (x) x_i x_i', class-major, lower triangle only; the next call writes over it."""
        cdef index_t k = self.state.n_classes, d = self.state.n_columns, stride = 4 * odm_four_lines(d)
        cdef index_t n_places = k * (k + 1) // 2
        if self.pairs is None:
            self.pairs, self.matrix = aligned_zeros(n_places, stride, stride), np.empty((d * k, d * k))
        ends, rows, factors = self.sorted_shares()
        self.pairs[:] = 0
        self.matrix[:] = 0
        cdef double[:, :, ::1] pairs = self.pairs
        cdef double[:, ::1] out = self.matrix
        cdef const index_t[::1] ends_view = ends
        cdef const int32_t[::1] rows_view = rows
        cdef const double[::1] factors_view = factors
        cdef Job job = self.job()
        job.out, job.n_out, job.ends = &pairs[0, 0, 0], stride, &ends_view[0]
        if len(rows):
            job.rows, job.factors = &rows_view[0], &factors_view[0]
        with nogil:
            parallel_for(n_places, self.threads, squares_of_pair, &job)
            odm_unfold_pairs(job.s, job.out, &out[0, 0])
        if job.failed:
            raise MemoryError("no memory for the Hessian")
        return self.matrix


cdef void scores_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    odm_joint_all_scores(job.s, job.starts[chunk], job.starts[chunk + 1], job.weights,
                         job.out + job.starts[chunk] * job.s.padded)


cdef bint moves(const odm_joint *s, index_t i) noexcept nogil:
    """Whether a row has weight and values."""
    return s.curvatures[i] > 0 and 1 / s.h[i] > 0


cdef void step_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, padded = job.s.padded
    cdef double value = 0, along = 0
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if moves(job.s, i):
            value += odm_prox_row(job.s, i, job.t[i], job.scores + i * padded, job.changes + i * padded, job.length,
                                  job.zeta + i * padded, job.beta + i, job.n_active + i, &along)
    job.out[2 * chunk] = value
    job.out[2 * chunk + 1] = along


cdef void weights_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, padded = job.s.padded
    cdef double *v = job.scratch + SOME_ROWS * chunk * padded
    cdef index_t[4] rows
    cdef index_t n = 0
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if job.n_active[i] or job.beta[i] > 0:
            odm_dense_duals(job.s, i, job.zeta + i * padded, job.beta[i], v + n * padded)
            rows[n] = i
            n += 1
            if n == SOME_ROWS:
                odm_add_duals(job.s, rows, n, v, job.out + chunk * job.n_out)
                n = 0
    odm_add_duals(job.s, rows, n, v, job.out + chunk * job.n_out)


cdef void product_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, padded = job.s.padded
    cdef double *d = job.scratch + SOME_ROWS * chunk * padded
    cdef odm_bend bend
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if odm_bend_of(job.s[0], i, job.t[i], job.n_active[i], job.beta[i], &bend):
            odm_joint_scores(job.s, i, job.weights, d)
            odm_bend_product(bend, job.zeta + i * padded, d, job.s.n_classes, padded)
            odm_joint_add(job.s, i, d, job.out + chunk * job.n_out)


cdef void product_segment(void *context, index_t segment) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t first = job.segments[2 * segment], end = job.segments[2 * segment + 1]
    cdef double *sums = job.out + 2 * segment * job.n_out
    odm_squares_product(job.s, job.rows + first, job.factors + first, end - first, sums, sums + job.n_out)


cdef void diagonal_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, l, p, padded = job.s.padded
    cdef double *d = job.scratch + SOME_ROWS * chunk * padded
    cdef double *out = job.out + chunk * job.n_out
    cdef const double *zeta
    cdef odm_bend bend
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if odm_bend_of(job.s[0], i, job.t[i], job.n_active[i], job.beta[i], &bend):
            zeta = job.zeta + i * padded
            for l in range(job.s.n_classes):
                d[l] = odm_bend_at(bend, l, zeta[l] > 0, l, zeta[l] > 0)
            for p in range(job.s.starts[i], job.s.starts[i + 1]):
                for l in range(job.s.n_classes):
                    out[job.s.columns[p] * padded + l] += job.s.values[p] * job.s.values[p] * d[l]
            if job.s.bias != 0:
                for l in range(job.s.n_classes):
                    out[(job.s.n_columns - 1) * padded + l] += job.s.bias * job.s.bias * d[l]


cdef void squares_of_pair(void *context, index_t place) noexcept nogil:
    """A pair's block. Its rows come in the same order however the pairs are shared."""
    cdef Job *job = <Job *>context
    cdef index_t begin = job.ends[place - 1] if place else 0
    cdef index_t n = job.ends[place] - begin
    cdef index_t line = job.n_out
    cdef double *values = NULL
    if n == 0:
        return
    if job.s.dense == NULL:
        values = <double *>malloc(ODM_TRIANGLES * line * (sizeof(double) + sizeof(int32_t)))
        if values == NULL:
            job.failed = True
            return
    odm_add_squares(job.s, job.rows + begin, job.factors + begin, n, <int32_t *>(values + ODM_TRIANGLES * line), values,
                    job.out + place * line * line)
    free(values)
