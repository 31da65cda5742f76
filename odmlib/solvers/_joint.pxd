# JointState: weights and multipliers of a linear multi-class machine; declarations of joint.h.
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, int32_t, uint8_t, uint64_t
from odmlib.losses.class_block cimport odm_class_row

cdef extern from "joint.h" nogil:
    ctypedef struct odm_entry:
        double value
        int32_t label

    ctypedef struct odm_entries:
        index_t *start
        int32_t *count
        int32_t *room
        odm_entry *arena
        index_t used
        index_t size

    ctypedef struct odm_joint:
        index_t n_rows, n_columns, n_classes, padded
        const index_t *starts
        const int32_t *columns
        const double *values
        double bias
        const double *dense
        index_t dense_stride
        const int32_t *labels
        const double *h
        const double *curvatures
        double nu, theta
        int frozen
        double *w
        odm_entries zeta
        double *beta
        double *references
        int32_t *others
        int32_t *wanted
        int32_t *lists
        uint8_t *narrow
        uint8_t *trust
        double *scores
        double *change
        int32_t *changed

    ctypedef struct odm_joint_sums:
        double objective, relaxed, gap
        index_t misplaced

    odm_class_row odm_class_row_of(const odm_joint &s, index_t i, double curvature, bint upper) noexcept
    bint odm_store_row(odm_entries &zeta, index_t i, const double *stripe, index_t n_classes) noexcept
    double odm_row_duals(const odm_joint &s, index_t i, double *v) noexcept
    void odm_joint_expect(const odm_joint *s, index_t far, index_t near) noexcept
    double odm_joint_visit(odm_joint *s, index_t i, int upper) noexcept
    void odm_joint_scores(const odm_joint *s, index_t i, const double *weights, double *out) noexcept
    void odm_joint_all_scores(const odm_joint *s, index_t begin, index_t end, const double *weights, double *out) noexcept
    const index_t ODM_LISTED, ODM_MOST_LOOKED_AT
    const uint8_t ODM_LEAST_TRUST
    void odm_joint_add_row(odm_joint *s, index_t i) noexcept
    void odm_joint_list(const odm_joint *s, index_t i, const double *scores) noexcept
    void odm_joint_add(const odm_joint *s, index_t i, const double *v, double *weights) noexcept
    double odm_joint_solve(odm_joint *s, index_t i, double *f, double curvature, int upper,
                           index_t *n_changed) noexcept
    double odm_joint_measure(const odm_joint *s, index_t i, double *scores, odm_joint_sums *sums, int32_t *best,
                           double *best_score, double *margin) noexcept


# Multipliers and what a measurement finds, for linear and kernel machines.
cdef class JointMultipliers:
    cdef odm_joint s
    cdef readonly index_t n_rows, n_classes, padded
    # arrays that Python sees: beta, q, the next q, M, and of the last measurement
    cdef readonly object beta, others, wanted, references, margins, best_wrong, best_scores
    cdef object kept, dense, listed     # arrays that only the struct points to

    cdef bint begin_row(self, index_t i, double *scores) noexcept nogil


cdef class JointState(JointMultipliers):
    cdef Rows rows
    cdef readonly index_t n_columns
    cdef readonly object weights        # w[column, class] with its padding
    cdef index_t[::1] items, blocks, order  # rows with weight and values, their blocks, and the epoch's order
    cdef uint8_t[::1] pause, calm       # epochs to skip a row; how often in a row it was found calm
    cdef uint64_t generator
    cdef index_t position
    cdef index_t visits_here
    cdef double violation_sum, mean_violation
    cdef readonly double largest_violation
    cdef readonly index_t visits
