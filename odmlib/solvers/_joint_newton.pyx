"""Compiled passes of the proximal Newton method; joint_newton.py holds the method's statement."""

from libc.string cimport memset

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.types cimport index_t, int32_t
from odmlib.solvers._joint cimport JointState, odm_joint, odm_joint_add, odm_joint_scores

cdef extern from "joint_prox.h" nogil:
    ctypedef struct odm_bend:
        pass
    bint odm_bend_of(const odm_joint &s, index_t i, double t, index_t n_active, double beta, odm_bend *bend) noexcept
    double odm_bend_at(const odm_bend &b, index_t l, bint active_l, index_t m, bint active_m) noexcept
    void odm_bend_product(const odm_bend &b, const double *zeta, double *d, index_t n_classes, index_t padded) noexcept
    double odm_dense_duals(const odm_joint &s, index_t i, const double *zeta, double beta, double *v) noexcept
    double odm_prox_row(const odm_joint &s, index_t i, double t, const double *f, const double *centre_zeta,
                        double centre_beta, double *zeta, double *beta, double *scratch, double *moved) noexcept
    void odm_add_square(const odm_joint &s, index_t i, double factor, bint lower, double *M, index_t stride) noexcept
    void odm_add_bend(const odm_joint &s, index_t i, const odm_bend &bend, const double *zeta, index_t l,
                      double *H) noexcept


cdef struct Job:
    odm_joint *s
    const index_t *starts       # rows of the chunks
    const double *t
    const double *f             # scores, rows x padded
    const double *centre_zeta
    const double *centre_beta
    double *zeta
    double *beta
    int32_t *n_active
    const double *weights       # of a direction
    double *out                 # per chunk
    index_t n_out
    double *scratch             # per chunk, three stripes


cdef class ProximalRows:
    """The rows' proximal steps around the state's multipliers, and their derivatives."""

    cdef JointState state
    cdef const double[::1] t
    cdef const index_t[::1] starts
    cdef readonly object zeta, beta, proximity
    cdef double[:, ::1] zeta_view, centre_zeta, scratch
    cdef double[::1] beta_view, centre_beta
    cdef int32_t[::1] n_active
    cdef int threads

    def __init__(self, JointState state, int threads):
        m, padded = state.n_rows, state.padded
        self.state, self.threads = state, threads
        self.zeta, self.beta = np.zeros((m, padded)), np.zeros(m)
        self.zeta_view, self.beta_view = self.zeta, self.beta
        self.n_active = np.zeros(m, dtype=np.int32)
        self.starts = state.rows._chunk_starts(state.n_columns * padded)
        self.scratch = np.zeros((max(len(self.starts), state.n_classes + 1), 3 * padded))

    def centre(self, t):
        """The present multipliers of the state become the centre; t: one number per row."""
        zeta = np.zeros((self.state.n_rows, self.state.padded))
        zeta[:, :self.state.n_classes] = self.state.zeta()
        self.proximity = np.ascontiguousarray(t, dtype=np.float64)
        self.t, self.centre_zeta, self.centre_beta = self.proximity, zeta, self.state.beta.copy()

    cdef Job job(self):
        cdef Job job
        memset(&job, 0, sizeof(Job))
        job.s = &self.state.s
        job.starts, job.t = &self.starts[0], &self.t[0]
        job.centre_zeta, job.centre_beta = &self.centre_zeta[0, 0], &self.centre_beta[0]
        job.zeta, job.beta, job.n_active = &self.zeta_view[0, 0], &self.beta_view[0], &self.n_active[0]
        job.scratch = &self.scratch[0, 0]
        return job

    def scores(self, const double[:, ::1] weights):
        """Scores of all rows under weights (columns x padded classes)."""
        result = np.empty((self.state.n_rows, self.state.padded))
        cdef double[:, ::1] out = result
        cdef Job job = self.job()
        job.weights, job.out = &weights[0, 0], &out[0, 0]
        with nogil:
            parallel_for(self.starts.shape[0] - 1, self.threads, scores_chunk, &job)
        return result

    def step(self, const double[:, ::1] scores):
        """Proximal steps from the scores: (sum of the rows' minima, sum of t/2 |v - centre|^2)."""
        cdef index_t n_chunks = self.starts.shape[0] - 1
        sums = np.zeros((n_chunks, 2))
        cdef double[:, ::1] out = sums
        cdef Job job = self.job()
        job.f, job.out = &scores[0, 0], &out[0, 0]
        with nogil:
            parallel_for(n_chunks, self.threads, step_chunk, &job)
        total = sums.sum(axis=0)
        return float(total[0]), float(total[1])

    def weights(self):
        """sum_i x_i v_i' of the present steps."""
        return self.summed(weights_chunk, None)

    def hessian_product(self, const double[:, ::1] direction):
        """sum_i x_i (J_i direction' x_i)'"""
        return self.summed(product_chunk, direction)

    def hessian_diagonal(self):
        return self.summed(diagonal_chunk, None)

    cdef summed(self, void (*task)(void *, index_t) noexcept nogil, const double[:, ::1] direction):
        """Chunks keep sums of their own, added in chunk order: the number of threads changes nothing."""
        cdef index_t n_chunks = self.starts.shape[0] - 1
        partial = np.zeros((n_chunks, self.state.n_columns, self.state.padded))
        cdef double[:, :, ::1] out = partial
        cdef Job job = self.job()
        job.out, job.n_out = &out[0, 0, 0], self.state.n_columns * self.state.padded
        if direction is not None:
            job.weights = &direction[0, 0]
        with nogil:
            parallel_for(n_chunks, self.threads, task, &job)
        total = partial[0]
        for chunk in range(1, n_chunks):
            total += partial[chunk]
        return total

    def hessian_block(self, index_t l, index_t stride=1):
        """The diagonal block of class l: sum_i J_i[l][l] x_i x_i', lower triangle only.

        `stride`: every so many of the rows stand for all.
        """
        cdef index_t n, i, d = self.state.n_columns
        matrix = np.zeros((d, d))
        cdef double[:, ::1] out = matrix
        cdef Job job = self.job()
        cdef const double *zeta
        cdef odm_bend bend
        with nogil:
            for n in range((job.s.n_rows + stride - 1) // stride):
                i = n * stride
                zeta = job.zeta + i * job.s.padded
                if bends(&job, i, l) and odm_bend_of(job.s[0], i, job.t[i], job.n_active[i], job.beta[i], &bend):
                    odm_add_square(job.s[0], i, stride * odm_bend_at(bend, l, zeta[l] > 0, l, zeta[l] > 0), True,
                                   &out[0, 0], d)
        return matrix

    def hessian(self):
        """sum_i J_i (x) x_i x_i', class-major, lower triangle only."""
        cdef index_t n = self.state.n_columns * self.state.n_classes
        cdef index_t n_groups = min(self.threads, self.state.n_classes)
        matrix = np.zeros((n, n))
        cdef double[:, ::1] out = matrix
        cdef Job job = self.job()
        job.out, job.n_out = &out[0, 0], n_groups
        with nogil:
            parallel_for(n_groups, self.threads, hessian_of_classes, &job)
        return matrix


cdef void scores_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, padded = job.s.padded
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        odm_joint_scores(job.s, i, job.weights, job.out + i * padded)


cdef bint moves(const odm_joint *s, index_t i) noexcept nogil:
    """Whether a row has weight and values."""
    return s.curvatures[i] > 0 and 1 / s.h[i] > 0


cdef void step_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, l, padded = job.s.padded
    cdef int32_t n
    cdef double value = 0, moved = 0
    cdef double *zeta
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if not moves(job.s, i):
            continue
        zeta = job.zeta + i * padded
        value += odm_prox_row(job.s[0], i, job.t[i], job.f + i * padded, job.centre_zeta + i * padded,
                              job.centre_beta[i], zeta, job.beta + i, job.scratch + 3 * chunk * padded, &moved)
        n = 0
        for l in range(padded):
            n += zeta[l] > 0
        job.n_active[i] = n
    job.out[2 * chunk] = value
    job.out[2 * chunk + 1] = moved


cdef void weights_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, padded = job.s.padded
    cdef double *v = job.scratch + 3 * chunk * padded
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if job.n_active[i] or job.beta[i] > 0:
            odm_dense_duals(job.s[0], i, job.zeta + i * padded, job.beta[i], v)
            odm_joint_add(job.s, i, v, job.out + chunk * job.n_out)


cdef void product_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, padded = job.s.padded
    cdef double *d = job.scratch + 3 * chunk * padded
    cdef odm_bend bend
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if odm_bend_of(job.s[0], i, job.t[i], job.n_active[i], job.beta[i], &bend):
            odm_joint_scores(job.s, i, job.weights, d)
            odm_bend_product(bend, job.zeta + i * padded, d, job.s.n_classes, padded)
            odm_joint_add(job.s, i, d, job.out + chunk * job.n_out)


cdef void diagonal_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, l, p, padded = job.s.padded
    cdef double *d = job.scratch + 3 * chunk * padded
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


cdef bint bends(const Job *job, index_t i, index_t l) noexcept nogil:
    """Whether line l of J_i may be other than 0."""
    return (job.zeta[i * job.s.padded + l] > 0 or job.s.labels[i] == l
            or (job.beta[i] > 0 and job.s.others[i] == l))


cdef void hessian_of_classes(void *context, index_t group) noexcept nogil:
    """The blocks of every n_out-th class. Rows come in the same order however the classes are shared."""
    cdef Job *job = <Job *>context
    cdef index_t i, l, padded = job.s.padded
    cdef odm_bend bend
    for i in range(job.s.n_rows):
        if not odm_bend_of(job.s[0], i, job.t[i], job.n_active[i], job.beta[i], &bend):
            continue
        l = group
        while l < job.s.n_classes:
            if bends(job, i, l):
                odm_add_bend(job.s[0], i, bend, job.zeta + i * padded, l, job.out)
            l += job.n_out
