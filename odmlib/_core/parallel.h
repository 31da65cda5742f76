// parallel_for: run task(context, chunk) for chunk = 0 .. n_chunks-1 on a few threads.
//
// Threads are made per call (tens of microseconds) and joined before it returns: nothing lives on
// between calls, so a fork, a nested call or an interpreter shutdown finds no pool in a bad state.
// Chunks are handed out by an atomic counter. A result that must not depend on the number of
// threads is written per chunk and summed in chunk order by the caller.
#ifndef ODMLIB_PARALLEL_H
#define ODMLIB_PARALLEL_H

#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

typedef void (*odm_task)(void *context, int64_t chunk);

static inline void odm_parallel_for(int64_t n_chunks, int n_threads, odm_task task, void *context) noexcept
{
    if (n_threads > n_chunks) n_threads = static_cast<int>(n_chunks);
    if (n_threads <= 1) {
        for (int64_t chunk = 0; chunk < n_chunks; ++chunk) task(context, chunk);
        return;
    }
    std::atomic<int64_t> next(0);
    auto work = [&]() {
        for (int64_t chunk; (chunk = next.fetch_add(1)) < n_chunks;) task(context, chunk);
    };
    std::vector<std::thread> helpers;
    try {
        helpers.reserve(n_threads - 1);
        for (int k = 1; k < n_threads; ++k) helpers.emplace_back(work);
    } catch (const std::exception &) {
        // No more threads to be had: the caller does the rest alone.
    }
    work();
    for (auto &helper : helpers) helper.join();
}

#endif
