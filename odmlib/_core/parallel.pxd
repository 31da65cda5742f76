# Threads for compiled loops; thread_pool.h says what they promise.
from libc.stdint cimport int64_t

ctypedef void (*odm_task)(void *context, int64_t chunk) noexcept nogil

cdef void parallel_for(int64_t n_chunks, int n_threads, odm_task task, void *context) noexcept nogil

cdef extern from "parallel.h" nogil:
    ctypedef void (*odm_pool)(int64_t n_chunks, int n_threads, odm_task task, void *context) noexcept
    # for a module whose C++ loops use threads: `odm_use_pool(parallel_for)` when it is imported
    void odm_use_pool(odm_pool pool) noexcept
