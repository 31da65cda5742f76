// Kernel values in blocks.
//
// Up to PANEL_BYTES / sizeof(REAL) rows (64 floats or 32 doubles) are written side by side into a panel
// [column][row]; the other rows stay compressed and stream by. One nonzero of a streaming row is one
// multiply-add with a line of the panel, so the same loop serves dense and sparse data, and every sum runs
// over ascending columns: k(i, j) and k(j, i) agree bit for bit. Tiles of scalar products then go through
// the elementwise map of the kernel and are either stored as rows (odm_kernel_block) or summed
// with coefficients on the fly (odm_kernel_sums).
//
// panel_loops.h holds the loops. It is compiled for float and for double, and on x86-64 again for
// processors with AVX2 and FMA and for those with AVX-512, chosen when the program runs (ODMLIB_BASELINE=1 in
// the environment prevents that). Results do not depend on the number of threads.
#ifndef ODMLIB_PANEL_H
#define ODMLIB_PANEL_H

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "instructions.h"
#include "memory.h"
#include "panel_jobs.h"
#include "parallel.h"

static const int64_t ODM_PANEL_BYTES = 256;  // one line: as much as eight 32-byte registers hold
static const int64_t ODM_TILE_ROWS = 64;     // streaming rows per tile: a tile is 16 kB, half of a first-level cache
static const int64_t ODM_CHUNK_ROWS = 512;   // streaming rows per unit of threaded work
static const int64_t ODM_DIRECT_COLUMNS = 4096;  // beyond, a panel holds only the columns its rows use
static const int64_t ODM_GROUP_BYTES = 1 << 20;  // panels that are prepared together

#define ODM_TARGET
#define ODM_VECTOR_BYTES 16
#define ODM_REAL float
#define ODM_WORD int32_t
#define ODM_VARIANT f32
#define ODM_RAISE raise_f32
#include "panel_loops.h"
#define ODM_REAL double
#define ODM_WORD int64_t
#define ODM_VARIANT f64
#define ODM_RAISE raise_f32
#include "panel_loops.h"
#undef ODM_TARGET
#undef ODM_VECTOR_BYTES

#ifdef ODM_HAS_AVX2_VARIANT
#define ODM_TARGET ODM_AVX2_TARGET
#define ODM_VECTOR_BYTES 32
#define ODM_REAL float
#define ODM_WORD int32_t
#define ODM_VARIANT f32_avx2
#define ODM_RAISE raise_f32_avx2
#include "panel_loops.h"
#define ODM_REAL double
#define ODM_WORD int64_t
#define ODM_VARIANT f64_avx2
#define ODM_RAISE raise_f32_avx2
#include "panel_loops.h"
#undef ODM_TARGET
#undef ODM_VECTOR_BYTES

#define ODM_TARGET ODM_AVX512_TARGET
#define ODM_VECTOR_BYTES 64
#define ODM_REAL float
#define ODM_WORD int32_t
#define ODM_VARIANT f32_avx512
#define ODM_RAISE raise_f32_avx512
#include "panel_loops.h"
#define ODM_REAL double
#define ODM_WORD int64_t
#define ODM_VARIANT f64_avx512
#define ODM_RAISE raise_f32_avx512
#include "panel_loops.h"
#undef ODM_TARGET
#undef ODM_VECTOR_BYTES
#endif

#ifdef ODM_HAS_AVX2_VARIANT
static const bool odm_use_avx512 = odm_detect_avx512();
#define ODM_CHOOSE_PANEL(name) (odm_use_avx512 ? name##_avx512 : odm_use_avx2 ? name##_avx2 : name)
#else
#define ODM_CHOOSE_PANEL(name) name
#endif

// 0, or -1 when memory ran out. `precise`: products and sums in double, from double values.
static inline int odm_kernel_block(const odm_block_job *job, bool precise) noexcept
{
    return precise ? ODM_CHOOSE_PANEL(block_f64)(job) : ODM_CHOOSE_PANEL(block_f32)(job);
}

static inline int odm_kernel_sums(odm_sums_job *job) noexcept
{
    std::atomic<bool> failed(false);
    job->failed = &failed;
    ODM_CHOOSE_PANEL(sums_f64)(job);
    return failed ? -1 : 0;
}

static inline int odm_kernel_symmetric(odm_symmetric_job *job) noexcept
{
    std::atomic<bool> failed(false);
    job->failed = &failed;
    ODM_CHOOSE_PANEL(symmetric_f64)(job);
    return failed ? -1 : 0;
}

#endif
