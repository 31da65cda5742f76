// Loops compiled more than once: for every processor, and on x86-64 again for AVX2 and FMA, chosen when the
// program runs (ODMLIB_BASELINE=1 in the environment keeps to the former).
//
// A header of loops is included once per variant, with ODM_VARIANT naming it, ODM_TARGET in front of every
// function and ODM_VECTOR_BYTES the width of its vectors; ODM_NAME(loop) is then the name of the variant's loop.
// each_variant.h does that for loops of one type; ODM_CALL(loop, ...) calls the one that suits this processor.
#ifndef ODMLIB_INSTRUCTIONS_H
#define ODMLIB_INSTRUCTIONS_H

#include <cstdlib>

#define ODM_JOIN_(a, b) a##_##b
#define ODM_JOIN(a, b) ODM_JOIN_(a, b)
#define ODM_NAME(name) ODM_JOIN(name, ODM_VARIANT)

#if defined(__x86_64__) && defined(__GNUC__)
#define ODM_HAS_AVX2_VARIANT 1
#define ODM_AVX2_TARGET __attribute__((target("avx2,fma")))
#endif

static inline bool odm_use_avx2() noexcept
{
#ifdef ODM_HAS_AVX2_VARIANT
    static const bool use = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                            && std::getenv("ODMLIB_BASELINE") == nullptr;
    return use;
#else
    return false;
#endif
}

#ifdef ODM_HAS_AVX2_VARIANT
#define ODM_CHOOSE(name) (odm_use_avx2() ? name##_avx2 : name##_plain)
#else
#define ODM_CHOOSE(name) name##_plain
#endif
#define ODM_CALL(name, ...) (ODM_CHOOSE(name)(__VA_ARGS__))

#endif
