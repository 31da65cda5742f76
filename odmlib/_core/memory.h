// Memory for large tables that are used all over: in huge pages where the system has them, so that first use costs
// fewer faults and reads across it fewer look-ups of addresses.
#ifndef ODMLIB_MEMORY_H
#define ODMLIB_MEMORY_H

#include <cstddef>
#include <cstdlib>
#if defined(__linux__)
#include <sys/mman.h>
#endif

// Freed by free(); NULL when there is none.
static inline void *odm_allocate(std::size_t n_bytes) noexcept
{
    const std::size_t huge = std::size_t(2) << 20;
    const std::size_t alignment = n_bytes >= 2 * huge ? huge : 64;
    void *memory = std::aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (memory && alignment == huge) madvise(memory, n_bytes / huge * huge, MADV_HUGEPAGE);  // a wish, no more
#endif
    return memory;
}

#endif
