"""A loss over all rows: totals, slopes and curvatures, duality gap, and the line search's sums.

Totals are taken per chunk of fixed size and then in order: the same for any number of threads.
"""

from odmlib._core.parallel cimport odm_task, parallel_for
from odmlib._core.rows cimport address
from odmlib._core.types cimport index_t
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
    assert margins.shape[0] == costs.shape[0]
    job.loss = <void *>loss
    job.n_rows = margins.shape[0]
    job.margins = address(margins)
    job.costs = address(costs)
    return job


cdef tuple chunk_totals(Job *job, odm_task task, int threads):
    cdef index_t n_chunks = (job.n_rows + CHUNK_ROWS - 1) // CHUNK_ROWS
    totals = np.zeros((n_chunks, 2))
    cdef double[:, ::1] view = totals
    if n_chunks:
        job.totals = &view[0, 0]
    with nogil:
        parallel_for(n_chunks, threads, task, job)
    return tuple(totals.sum(axis=0).tolist())


def slopes_and_curvatures(MarginLoss loss, const double[::1] margins, const double[::1] costs, int threads=1):
    """(sum of losses, slope of every row, curvature of every row)"""
    cdef Job job = new_job(loss, margins, costs)
    slopes, curvatures = np.empty(job.n_rows), np.empty(job.n_rows)
    job.slopes = address(slopes)
    job.curvatures = address(curvatures)
    total, _ = chunk_totals(&job, slopes_chunk, threads)
    return total, slopes, curvatures


def along_line(MarginLoss loss, const double[::1] margins, const double[::1] directions, double step,
               const double[::1] costs, int threads=1):
    """First and second derivative in t of the sum of losses at margins + t directions, at t = step."""
    cdef Job job = new_job(loss, margins, costs)
    assert directions.shape[0] == margins.shape[0]
    job.directions = address(directions)
    job.step = step
    return chunk_totals(&job, line_chunk, threads)


def value_and_gap(MarginLoss loss, const double[::1] duals, const double[::1] margins,
                  const double[::1] costs, int threads=1):
    """(sum of losses, duality gap) of a pair of dual variables and the margins of w(duals)."""
    cdef Job job = new_job(loss, margins, costs)
    assert duals.shape[0] == margins.shape[0]
    job.duals = address(duals)
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
