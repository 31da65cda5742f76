// The thread pool behind parallel_for: run task(context, chunk) for chunk = 0 .. n_chunks-1 on a few threads.
//
// parallel.pyx is the only module that includes this file, so the process has one pool.
//
// Chunks are handed out by an atomic counter. A result that must not depend on the number of threads is written
// per chunk and summed in chunk order by the caller.
//
// Making a thread costs as much as a small job (0.2 ms on a virtual machine), so helpers are kept: they look out for
// the next job for a moment, then sleep. A job is open to helpers until its last chunk is handed out; one
// that wakes up late finds it closed and nobody waits for it. The helpers serve one job at a time: a call from
// another thread, or from inside a task, makes threads of its own for its job. After a fork the child finds no
// helpers and makes new ones. Nothing is taken down at the end of the process: sleeping threads do no harm.
#ifndef ODMLIB_THREAD_POOL_H
#define ODMLIB_THREAD_POOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include "parallel.h"

#if defined(__x86_64__) || defined(__i386__)
#define ODM_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define ODM_PAUSE() __asm__ __volatile__("yield")
#else
#define ODM_PAUSE() std::this_thread::yield()
#endif

struct odm_job {
    odm_task task;
    void *context;
    int64_t n_chunks;
    std::atomic<int64_t> next{0};

    odm_job(odm_task task, void *context, int64_t n_chunks) : task(task), context(context), n_chunks(n_chunks) {}

    void work() noexcept
    {
        for (int64_t chunk; (chunk = next.fetch_add(1)) < n_chunks;) task(context, chunk);
    }
};

class odm_helpers {
public:
    static const int LOOK_OUT = 2000;  // turns of some 20 ns before a helper sleeps, or the caller lets others run

    // False when the helpers are at work for somebody else.
    bool run(odm_job &job, int n_helpers) noexcept
    {
        if (busy_.test_and_set()) return false;
        hire(n_helpers);
        {
            std::lock_guard<std::mutex> guard(mutex_);
            job_ = &job;
            seats_ = n_helpers;
            jobs_.fetch_add(1);
        }
        wake_.notify_all();
        job.work();
        {
            std::lock_guard<std::mutex> guard(mutex_);
            job_ = nullptr;
        }
        for (int turn = 0; at_work_.load() > 0; ++turn) {
            if (turn < LOOK_OUT) ODM_PAUSE();
            else std::this_thread::yield();
        }
        busy_.clear();
        return true;
    }

    // The helpers of this process; NULL when there is no memory for them.
    static odm_helpers *here() noexcept
    {
        odm_helpers *found = place().load();
        if (found) return found;
        static std::once_flag once;
        try {
            std::call_once(once, [] {
#if defined(__unix__) || defined(__APPLE__)
                // the parent's threads are not in the child; what they held is left as it is
                pthread_atfork(nullptr, nullptr, [] { place().store(nullptr); });
#endif
            });
        } catch (const std::exception &) {
            return nullptr;
        }
        odm_helpers *made = new (std::nothrow) odm_helpers;
        if (!made) return nullptr;
        if (place().compare_exchange_strong(found, made)) return made;
        delete made;  // another thread was faster
        return found;
    }

private:
    static std::atomic<odm_helpers *> &place() noexcept
    {
        static std::atomic<odm_helpers *> helpers{nullptr};
        return helpers;
    }

    void hire(int n_helpers) noexcept
    {
        try {
            for (; n_hired_ < n_helpers; ++n_hired_) std::thread([this] { help(); }).detach();
        } catch (const std::exception &) {
            // no more threads to be had: the caller does the rest alone
        }
    }

    void help() noexcept
    {
        uint64_t seen = 0;
        for (;;) {
            for (int turn = 0; turn < LOOK_OUT && jobs_.load() == seen; ++turn) ODM_PAUSE();
            odm_job *job = nullptr;
            {
                std::unique_lock<std::mutex> guard(mutex_);
                wake_.wait(guard, [&] { return jobs_.load() != seen; });
                seen = jobs_.load();
                if (job_ && seats_ > 0) {
                    job = job_;
                    --seats_;
                    at_work_.fetch_add(1);
                }
            }
            if (job) {
                job->work();
                at_work_.fetch_sub(1);
            }
        }
    }

    std::atomic_flag busy_ = ATOMIC_FLAG_INIT;  // set for the length of a job; a task may ask again, so no mutex
    std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<uint64_t> jobs_{0};  // so far
    std::atomic<int> at_work_{0};
    odm_job *job_ = nullptr;  // open to helpers
    int seats_ = 0;
    int n_hired_ = 0;
};

static void odm_run_in_pool(int64_t n_chunks, int n_threads, odm_task task, void *context) noexcept
{
    odm_job job(task, context, n_chunks);
    if (n_threads > n_chunks) n_threads = static_cast<int>(n_chunks);
    if (n_threads <= 1) {
        job.work();
        return;
    }
    odm_helpers *helpers = odm_helpers::here();
    if (helpers && helpers->run(job, n_threads - 1)) return;
    std::vector<std::thread> own;
    try {
        own.reserve(n_threads - 1);
        for (int k = 1; k < n_threads; ++k) own.emplace_back([&job] { job.work(); });
    } catch (const std::exception &) {
        // no more threads to be had: the caller does the rest alone
    }
    job.work();
    for (auto &thread : own) thread.join();
}

#endif
