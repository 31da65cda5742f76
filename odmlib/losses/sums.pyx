"""A loss over all rows: values, totals, slopes and curvatures, duality gap, and the line search's sums.

Totals are taken per chunk of fixed size and then in order: the same for any number of threads.
"""

from libc.math cimport fabs, fmax
from libc.string cimport memset
from libcpp.vector cimport vector

from odmlib._core.parallel cimport odm_task, parallel_for
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t
from odmlib._core.views cimport data_of, target_of, targets_data
from odmlib.losses.loss cimport MarginLoss

import numpy as np

cdef index_t CHUNK_ROWS = 1 << 14


cdef struct Job:
    void *loss
    index_t n_rows
    const double *margins
    const double *directions
    const double *duals
    const double *costs
    double step
    double *slopes
    double *curvatures
    double *totals          # two per chunk


cdef Job new_job(MarginLoss loss, const double[::1] margins, const double[::1] costs) except *:
    cdef Job job
    if margins.shape[0] != costs.shape[0]:
        raise ValueError("a loss over rows: margins and costs of different lengths")
    job.loss = <void *>loss
    job.n_rows = margins.shape[0]
    job.margins = data_of(margins)
    job.costs = data_of(costs)
    return job


cdef tuple chunk_totals(Job *job, odm_task task, int threads):
    cdef index_t n_chunks = (job.n_rows + CHUNK_ROWS - 1) // CHUNK_ROWS
    cdef index_t chunk
    cdef double first = 0, second = 0
    cdef vector[double] totals
    with nogil:
        totals.resize(2 * n_chunks)
        job.totals = totals.data()
        parallel_for(n_chunks, threads, task, job)
        for chunk in range(n_chunks):
            first += totals[2 * chunk]
            second += totals[2 * chunk + 1]
    return first, second


def slopes_and_curvatures(MarginLoss loss, const double[::1] margins, const double[::1] costs, int threads=1):
    """(sum of losses, slope of every row, curvature of every row)"""
    cdef Job job = new_job(loss, margins, costs)
    slopes, curvatures = np.empty(job.n_rows), np.empty(job.n_rows)
    job.slopes = data_of(slopes)
    job.curvatures = data_of(curvatures)
    total, _ = chunk_totals(&job, slopes_chunk, threads)
    return total, slopes, curvatures


def values(MarginLoss loss, const double[::1] margins, const double[::1] costs):
    """The loss of every row."""
    cdef Job job = new_job(loss, margins, costs)
    result = np.empty(job.n_rows)
    cdef double[::1] out = result
    cdef index_t i
    with nogil:
        for i in range(job.n_rows):
            out[i] = loss.value(job.margins[i], job.costs[i])
    return result


def steepest_slopes(MarginLoss loss, const double[::1] margins, const double[::1] errors, const double[::1] costs):
    """The largest slope of each row's loss, without its sign, where its margin may be: the loss is convex."""
    cdef Job job = new_job(loss, margins, costs)
    if errors.shape[0] != margins.shape[0]:
        raise ValueError("steepest_slopes: margins and errors of different lengths")
    result = np.empty(job.n_rows)
    cdef double[::1] out = result
    cdef index_t i
    with nogil:
        for i in range(job.n_rows):
            out[i] = fmax(fabs(loss.slope(margins[i] + errors[i], costs[i])),
                          fabs(loss.slope(margins[i] - errors[i], costs[i])))
    return result


def gaps(MarginLoss loss, const double[::1] duals, const double[::1] margins, const double[::1] costs):
    """The duality gap of every row."""
    cdef Job job = new_job(loss, margins, costs)
    if duals.shape[0] != margins.shape[0]:
        raise ValueError("gaps: duals and margins of different lengths")
    result = np.empty(job.n_rows)
    cdef double[::1] out = result
    cdef index_t i
    with nogil:
        for i in range(job.n_rows):
            out[i] = loss.gap(duals[i], job.margins[i], job.costs[i])
    return result


def along_line(MarginLoss loss, const double[::1] margins, const double[::1] directions, double step,
               const double[::1] costs, int threads=1):
    """First and second derivative in t of the sum of losses at margins + t directions, at t = step."""
    cdef Job job = new_job(loss, margins, costs)
    if directions.shape[0] != margins.shape[0]:
        raise ValueError("along_line: margins and directions of different lengths")
    job.directions = data_of(directions)
    job.step = step
    return chunk_totals(&job, line_chunk, threads)


def value_and_gap(MarginLoss loss, const double[::1] duals, const double[::1] margins,
                  const double[::1] costs, int threads=1):
    """(sum of losses, duality gap) of a pair of dual variables and the margins of w(duals)."""
    cdef Job job = new_job(loss, margins, costs)
    if duals.shape[0] != margins.shape[0]:
        raise ValueError("value_and_gap: duals and margins of different lengths")
    job.duals = data_of(duals)
    return chunk_totals(&job, gap_chunk, threads)


cdef void slopes_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    cdef double total = 0.0
    for i in range(chunk * CHUNK_ROWS, min(job.n_rows, (chunk + 1) * CHUNK_ROWS)):
        total += (<MarginLoss>job.loss).value(job.margins[i], job.costs[i])
        job.slopes[i] = (<MarginLoss>job.loss).slope(job.margins[i], job.costs[i])
        job.curvatures[i] = (<MarginLoss>job.loss).curvature(job.margins[i], job.costs[i])
    job.totals[2 * chunk] = total


cdef void line_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    cdef double margin, first = 0.0, second = 0.0
    for i in range(chunk * CHUNK_ROWS, min(job.n_rows, (chunk + 1) * CHUNK_ROWS)):
        margin = job.margins[i] + job.step * job.directions[i]
        first += (<MarginLoss>job.loss).slope(margin, job.costs[i]) * job.directions[i]
        second += (<MarginLoss>job.loss).curvature(margin, job.costs[i]) * job.directions[i] * job.directions[i]
    job.totals[2 * chunk] = first
    job.totals[2 * chunk + 1] = second


cdef void gap_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    cdef double total = 0.0, gap = 0.0
    for i in range(chunk * CHUNK_ROWS, min(job.n_rows, (chunk + 1) * CHUNK_ROWS)):
        total += (<MarginLoss>job.loss).value(job.margins[i], job.costs[i])
        gap += (<MarginLoss>job.loss).gap(job.duals[i], job.margins[i], job.costs[i])
    job.totals[2 * chunk] = total
    job.totals[2 * chunk + 1] = gap


cdef struct PointJob:
    void *rows
    void *loss
    const index_t *starts
    index_t n_columns
    const double *w
    const double *y
    const double *costs
    const double *targets   # NULL: all 0
    double *margins
    double *curvatures
    double *gradients       # one of the losses per chunk
    double *totals          # of the losses, one per chunk


cdef void evaluate_chunk(void *context, index_t chunk) noexcept nogil:
    cdef PointJob *job = <PointJob *>context
    cdef double *gradient = job.gradients + chunk * job.n_columns
    cdef double total = 0.0, margin, slope = 0.0
    cdef index_t i
    if job.n_columns > 0:  # memset may not be given NULL
        memset(gradient, 0, job.n_columns * sizeof(double))
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        margin = job.y[i] * (<Rows>job.rows).dot(i, job.w) - target_of(job.targets, i)
        job.margins[i] = margin
        total += (<MarginLoss>job.loss).expand(margin, job.costs[i], &slope, job.curvatures + i)
        if slope != 0:
            (<Rows>job.rows).add(i, job.y[i] * slope, gradient)
    job.totals[chunk] = total


def evaluate(Rows rows, const double[::1] y, const double[::1] costs, MarginLoss loss, const double[::1] w,
             double[::1] margins, double[::1] curvatures, int threads=1, const double[::1] targets=None):
    """(sum of losses, its gradient in w) of a linear machine; fills margin and curvature of every row.

    One pass: a row is added to the gradient while it is still in the processor's cache.
    """
    if not (w.shape[0] == rows.n_columns and y.shape[0] == costs.shape[0] == rows.n_rows
            and margins.shape[0] == curvatures.shape[0] == rows.n_rows):
        raise ValueError("evaluate: arrays of different lengths")
    cdef const index_t[::1] starts = rows._chunk_starts(rows.n_columns)
    cdef index_t n_chunks = starts.shape[0] - 1
    gradients, totals = np.empty((n_chunks, rows.n_columns)), np.empty(n_chunks)
    cdef PointJob job
    job.rows, job.loss, job.starts, job.n_columns = <void *>rows, <void *>loss, &starts[0], rows.n_columns
    job.w, job.y, job.costs = data_of(w), data_of(y), data_of(costs)
    job.targets = targets_data(targets, rows.n_rows)
    job.margins, job.curvatures = data_of(margins), data_of(curvatures)
    job.gradients, job.totals = data_of(gradients.reshape(-1)), data_of(totals)
    with nogil:
        parallel_for(n_chunks, threads, evaluate_chunk, &job)
    gradient = gradients[0]
    for chunk in range(1, n_chunks):
        gradient += gradients[chunk]
    return float(totals.sum()), gradient
