// The thread pool under ThreadSanitizer: what parallel.pyx does, without Python, whose own locks the sanitizer does not
// know. Eight threads ask for the pool at once, with jobs of all sizes, jobs inside of jobs, and one writer per chunk.
// `thread_pool fork` also forks between jobs. Prints the number of chunks that ran; exit 1 where one is lost or runs twice.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "thread_pool.h"

static const int CALLERS = 8;
static const int ROUNDS = 60;

struct Work {
    std::vector<int> runs;  // of each chunk; plain on purpose: two threads at one chunk would be a race
    int depth;              // jobs inside of jobs
    int n_threads;
};

static bool run(int n_chunks, int n_threads, int depth);

static void task(void *context, int64_t chunk)
{
    Work *work = static_cast<Work *>(context);
    work->runs[chunk] += 1;
    if (work->depth > 0 && !run(5, work->n_threads, work->depth - 1)) work->runs[chunk] += 1000;
}

static std::atomic<long> n_run{0};

static bool run(int n_chunks, int n_threads, int depth)
{
    Work work{std::vector<int>(n_chunks, 0), depth, n_threads};
    odm_run_in_pool(n_chunks, n_threads, task, &work);
    n_run += n_chunks;
    for (int runs : work.runs)
        if (runs != 1) return false;
    return true;
}

static bool all_sizes(int n_threads)
{
    bool right = true;
    for (int n_chunks : {0, 1, 2, 7, 64, 1000}) right = run(n_chunks, n_threads, 0) && right;
    right = run(6, n_threads, 1) && right;
    return run(3, n_threads, 2) && right;
}

static bool by_many_callers(int rounds)
{
    std::atomic<bool> right{true};
    std::vector<std::thread> callers;
    for (int k = 0; k < CALLERS; ++k)
        callers.emplace_back([&, k] {
            for (int round = 0; round < rounds; ++round)
                if (!all_sizes(1 + (k + round) % CALLERS)) right = false;
        });
    for (auto &caller : callers) caller.join();
    return right;
}

// The child has none of the parent's threads and must make its own.
static bool in_a_child()
{
    const pid_t child = fork();
    if (child == 0) _exit(all_sizes(CALLERS) ? 0 : 1);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int n_arguments, char **arguments)
{
    const bool forks = n_arguments > 1 && std::strcmp(arguments[1], "fork") == 0;
    bool right = by_many_callers(ROUNDS);
    for (int k = 0; forks && k < 5; ++k) right = in_a_child() && all_sizes(CALLERS) && right;
    std::printf("%ld\n", n_run.load());
    return right ? 0 : 1;
}
