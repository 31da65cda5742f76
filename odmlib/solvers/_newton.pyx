"""One pass over the rows for all that a Newton step of a linear machine asks of a point w.

Row by row: margin z = y <w, x>, loss, slope and curvature at z, and slope y x added to the gradient of the
losses, while the row is still in the cache. Sums are taken per chunk and then in chunk order: the same for any
number of threads.
"""

from odmlib._core.parallel cimport parallel_for
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t
from odmlib._core.views cimport data_of
from odmlib.losses.loss cimport MarginLoss

from libc.string cimport memset

import numpy as np


cdef struct Job:
    void *rows
    void *loss
    const index_t *starts
    index_t n_columns
    const double *w
    const double *y
    const double *costs
    double *margins
    double *curvatures
    double *gradients       # one of the losses per chunk
    double *totals          # of the losses, one per chunk


cdef void evaluate_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef double *gradient = job.gradients + chunk * job.n_columns
    cdef double total = 0.0, margin, slope = 0.0
    cdef index_t i
    memset(gradient, 0, job.n_columns * sizeof(double))
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        margin = job.y[i] * (<Rows>job.rows).dot(i, job.w)
        job.margins[i] = margin
        total += (<MarginLoss>job.loss).expand(margin, job.costs[i], &slope, job.curvatures + i)
        if slope != 0:
            (<Rows>job.rows).add(i, job.y[i] * slope, gradient)
    job.totals[chunk] = total


def evaluate(Rows rows, const double[::1] y, const double[::1] costs, MarginLoss loss, const double[::1] w,
             double[::1] margins, double[::1] curvatures, int threads=1):
    """(sum of losses, its gradient in w); fills margin and curvature of every row."""
    assert w.shape[0] == rows.n_columns and y.shape[0] == costs.shape[0] == rows.n_rows
    assert margins.shape[0] == curvatures.shape[0] == rows.n_rows
    cdef const index_t[::1] starts = rows._chunk_starts(rows.n_columns)
    cdef index_t n_chunks = starts.shape[0] - 1
    gradients, totals = np.empty((n_chunks, rows.n_columns)), np.empty(n_chunks)
    cdef Job job
    job.rows, job.loss, job.starts, job.n_columns = <void *>rows, <void *>loss, &starts[0], rows.n_columns
    job.w, job.y, job.costs = data_of(w), data_of(y), data_of(costs)
    job.margins, job.curvatures = data_of(margins), data_of(curvatures)
    job.gradients, job.totals = data_of(gradients.reshape(-1)), data_of(totals)
    with nogil:
        parallel_for(n_chunks, threads, evaluate_chunk, &job)
    gradient = gradients[0]
    for chunk in range(1, n_chunks):
        gradient += gradients[chunk]
    return float(totals.sum()), gradient
