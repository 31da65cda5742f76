"""The one thread pool of the process; all compiled loops run in it through `parallel_for`."""

from libc.stdint cimport int64_t

cdef extern from "thread_pool.h" nogil:
    void odm_run_in_pool(int64_t n_chunks, int n_threads, odm_task task, void *context) noexcept


cdef void parallel_for(int64_t n_chunks, int n_threads, odm_task task, void *context) noexcept nogil:
    odm_run_in_pool(n_chunks, n_threads, task, context)
