// Loops compiled more than once: for every processor, and on x86-64 again for AVX2 and FMA, chosen when the
// module is imported (ODMLIB_BASELINE=1 in the environment keeps to the former). Kernel values (kernels/panel.h)
// have a third variant for AVX-512, which ODMLIB_BASELINE=avx2 prevents.
//
// A header of loops is included once per variant, with ODM_VARIANT naming it and ODM_TARGET in front of every
// function; ODM_NAME(loop) is then the name of the variant's loop. each_variant.h does that for loops over
// doubles; ODM_CALL(loop, ...) calls the one that suits this processor.
#ifndef ODMLIB_INSTRUCTIONS_H
#define ODMLIB_INSTRUCTIONS_H

#include <cstdlib>
#include <cstring>

#define ODM_JOIN_(a, b) a##_##b
#define ODM_JOIN(a, b) ODM_JOIN_(a, b)
#define ODM_NAME(name) ODM_JOIN(name, ODM_VARIANT)

typedef double odm_vec_plain __attribute__((vector_size(16), may_alias, aligned(8)));
typedef double odm_vec_avx2 __attribute__((vector_size(32), may_alias, aligned(8)));

#if defined(__x86_64__) && defined(__GNUC__)
#define ODM_HAS_AVX2_VARIANT 1
#define ODM_AVX2_TARGET __attribute__((target("avx2,fma")))
#define ODM_AVX512_TARGET __attribute__((target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")))
#endif

#ifdef ODM_HAS_AVX2_VARIANT
static inline bool odm_detect_avx2() noexcept
{
    __builtin_cpu_init();
    const char *most = std::getenv("ODMLIB_BASELINE");
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
           && (most == nullptr || std::strcmp(most, "avx2") == 0);
}

static const bool odm_use_avx2 = odm_detect_avx2();  // chosen when the module is imported

// VNNI came after the processors that slow down for vectors of 64 bytes.
static inline bool odm_detect_avx512() noexcept
{
    return odm_detect_avx2() && std::getenv("ODMLIB_BASELINE") == nullptr && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
           && __builtin_cpu_supports("avx512vnni");
}

#define ODM_CHOOSE(name) (odm_use_avx2 ? name##_avx2 : name##_plain)
#else
#define ODM_CHOOSE(name) name##_plain
#endif
#define ODM_CALL(name, ...) (ODM_CHOOSE(name)(__VA_ARGS__))

#endif
