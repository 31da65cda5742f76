// Memory that starts at a cache line; Windows has no std::aligned_alloc, and its own needs its own free.
#ifndef ODMLIB_MEMORY_H
#define ODMLIB_MEMORY_H

#include <cstddef>
#include <cstdlib>
#if defined(_WIN32) || defined(__GLIBC__)
#include <malloc.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

// `size` must be a multiple of `alignment`; NULL when there is no memory.
static inline void *odm_aligned_alloc(size_t alignment, size_t size) noexcept
{
#ifdef _WIN32
    return _aligned_malloc(size, alignment);
#else
    return std::aligned_alloc(alignment, size);
#endif
}

static inline void odm_aligned_free(void *memory) noexcept
{
#ifdef _WIN32
    _aligned_free(memory);
#else
    std::free(memory);
#endif
}

// Memory that is used from end to end: large pages, which Linux clears and maps in a tenth of the steps.
static inline void odm_prefer_large_pages(void *memory, size_t size) noexcept
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    madvise(memory, size, MADV_HUGEPAGE);  // what it refuses stays as it is
#else
    (void)memory;
    (void)size;
#endif
}

// After much was freed: glibc keeps it for the thread that had asked for it, and the next cache, filled by another
// thread, would come on top of it.
static inline void odm_return_freed_memory() noexcept
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

#endif
