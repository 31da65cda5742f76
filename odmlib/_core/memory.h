// Memory that starts at a cache line; Windows has no std::aligned_alloc, and its own needs its own free.
#ifndef ODMLIB_MEMORY_H
#define ODMLIB_MEMORY_H

#include <cstddef>
#include <cstdlib>
#ifdef _WIN32
#include <malloc.h>
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

#endif
