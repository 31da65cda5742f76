// What loops need to run in threads: the kind of a task, and the way to the one pool of the process.
//
// The pool belongs to parallel.pyx. A module whose loops use threads is given it once, when it is imported:
// `odm_use_pool(parallel_for)`.
#ifndef ODMLIB_PARALLEL_H
#define ODMLIB_PARALLEL_H

#include <atomic>
#include <cstdint>

typedef void (*odm_task)(void *context, int64_t chunk);
typedef void (*odm_pool)(int64_t n_chunks, int n_threads, odm_task task, void *context);

static odm_pool odm_parallel_for = nullptr;

static inline void odm_use_pool(odm_pool pool) noexcept { odm_parallel_for = pool; }

#endif
