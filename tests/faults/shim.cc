// Calls of the system that fail on demand: preloaded, this stands between Python and the C library.
//
// arm(calls, nth, fault): from now on count the calls of the kinds in the mask `calls`, and let the nth have a fault. A
// positive fault is the error to report instead of doing the work. HALF writes half of the bytes. KILL_BEFORE and
// KILL_AFTER end the process as kill -9 does. seen() tells how many calls were counted.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

enum { OPEN = 1, WRITE = 2, FSYNC = 4, RENAME = 8, MODE = 16, CLOSE = 32, UNLINK = 64, ALLOCATE = 128 };
enum { HALF = 0, KILL_BEFORE = -1, KILL_AFTER = -2 };

static int armed_calls = 0, armed_fault = 0;
static long armed_nth = 0;
static std::atomic<long> n_seen{0};

extern "C" void arm(int calls, long nth, int fault)
{
    armed_calls = 0;
    n_seen = 0;
    armed_nth = nth;
    armed_fault = fault;
    armed_calls = calls;
}

extern "C" long seen() { return n_seen; }

static bool is_due(int call) { return (armed_calls & call) && ++n_seen == armed_nth; }

template <class Call>
static Call next(const char *name, Call)
{
    return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

// The call that is due: its fault instead of it, or behind it.
template <class Work>
static auto with_fault(Work work) -> decltype(work())
{
    if (armed_fault == KILL_BEFORE) kill(getpid(), SIGKILL);
    if (armed_fault > 0) {
        errno = armed_fault;
        return -1;
    }
    auto result = work();
    if (armed_fault == KILL_AFTER) kill(getpid(), SIGKILL);
    return result;
}

template <class Work>
static auto faulty(int call, Work work) -> decltype(work())
{
    return is_due(call) ? with_fault(work) : work();
}

static int opened(const char *path, int flags, mode_t mode)
{
    static auto real = next("open", static_cast<int (*)(const char *, int, ...)>(nullptr));
    return faulty(OPEN, [&] { return real(path, flags, mode); });
}

extern "C" int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return opened(path, flags, mode);
}

extern "C" int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return opened(path, flags, mode);
}

extern "C" ssize_t write(int file, const void *data, size_t size)
{
    static auto real = next("write", static_cast<ssize_t (*)(int, const void *, size_t)>(nullptr));
    if (file <= 2) return real(file, data, size);
    if (!is_due(WRITE)) return real(file, data, size);
    return with_fault([&] { return real(file, data, armed_fault == HALF ? (size + 1) / 2 : size); });
}

extern "C" int fsync(int file)
{
    static auto real = next("fsync", static_cast<int (*)(int)>(nullptr));
    return faulty(FSYNC, [&] { return real(file); });
}

extern "C" int rename(const char *from, const char *to)
{
    static auto real = next("rename", static_cast<int (*)(const char *, const char *)>(nullptr));
    return faulty(RENAME, [&] { return real(from, to); });
}

extern "C" int fchmod(int file, mode_t mode)
{
    static auto real = next("fchmod", static_cast<int (*)(int, mode_t)>(nullptr));
    return faulty(MODE, [&] { return real(file, mode); });
}

extern "C" int close(int file)
{
    static auto real = next("close", static_cast<int (*)(int)>(nullptr));
    // a close that fails has closed the file all the same, as Linux does
    if (is_due(CLOSE)) {
        if (armed_fault == KILL_BEFORE) kill(getpid(), SIGKILL);
        int result = real(file);
        if (armed_fault == KILL_AFTER) kill(getpid(), SIGKILL);
        if (armed_fault > 0) {
            errno = armed_fault;
            return -1;
        }
        return result;
    }
    return real(file);
}

extern "C" int unlink(const char *path)
{
    static auto real = next("unlink", static_cast<int (*)(const char *)>(nullptr));
    return faulty(UNLINK, [&] { return real(path); });
}

// glibc's own names for its allocator: dlsym would itself allocate
extern "C" void *__libc_malloc(size_t);
extern "C" void *__libc_calloc(size_t, size_t);
extern "C" void *__libc_realloc(void *, size_t);
extern "C" void *__libc_memalign(size_t, size_t);

// Only what compiled modules of odmlib ask for, themselves or by C++'s `new`: numpy does not survive this everywhere.
static bool is_refused(const void *caller)
{
    if (!(armed_calls & ALLOCATE)) return false;
    Dl_info place;
    if (!dladdr(caller, &place) || !place.dli_fname) return false;
    if (!strstr(place.dli_fname, "/odmlib/") && !strstr(place.dli_fname, "libstdc++")) return false;
    if (!is_due(ALLOCATE)) return false;
    errno = ENOMEM;
    return true;
}

#define REFUSED is_refused(__builtin_return_address(0))

extern "C" void *malloc(size_t size) { return REFUSED ? nullptr : __libc_malloc(size); }
extern "C" void *calloc(size_t n, size_t size) { return REFUSED ? nullptr : __libc_calloc(n, size); }
extern "C" void *realloc(void *memory, size_t size) { return REFUSED ? nullptr : __libc_realloc(memory, size); }
extern "C" void *aligned_alloc(size_t by, size_t size) { return REFUSED ? nullptr : __libc_memalign(by, size); }
extern "C" int posix_memalign(void **place, size_t by, size_t size)
{
    if (REFUSED) return ENOMEM;
    *place = __libc_memalign(by, size);
    return *place ? 0 : ENOMEM;
}
