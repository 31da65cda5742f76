# Threads for compiled loops; see parallel.h for the promises.
from libc.stdint cimport int64_t

cdef extern from "parallel.h" nogil:
    ctypedef void (*odm_task)(void *context, int64_t chunk) noexcept nogil
    void parallel_for "odm_parallel_for"(int64_t n_chunks, int n_threads, odm_task task, void *context) noexcept
