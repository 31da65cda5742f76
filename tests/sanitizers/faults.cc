// Deliberate faults, one per sanitizer: the control that shows that `make test-asan` and `make test-tsan` would see ours.
#include <atomic>
#include <cstdlib>
#include <thread>

extern "C" int read_behind(int n)
{
    char *memory = static_cast<char *>(std::malloc(n));
    memory[0] = 1;
    int found = static_cast<volatile char *>(memory)[n];  // AddressSanitizer: heap-buffer-overflow
    std::free(memory);
    return found;
}

extern "C" int add_one(int n) { return n + 1; }  // UndefinedBehaviorSanitizer: signed integer overflow

static volatile int shared_count = 0;

extern "C" int count_twice()
{
    std::atomic<int> here{0};
    auto count = [&here] {
        here.fetch_add(1, std::memory_order_relaxed);
        while (here.load(std::memory_order_relaxed) < 2) std::this_thread::yield();  // no order between the two
        for (int k = 0; k < 100000; ++k) shared_count = shared_count + 1;            // ThreadSanitizer: data race
    };
    std::thread other(count);
    count();
    other.join();
    return shared_count;
}

#ifdef FAULTS_MAIN
int main() { return count_twice() == 0; }
#endif
