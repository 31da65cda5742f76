// Includes the header of loops that ODM_LOOPS names once per variant of instructions.h: `loop_plain`, `loop_avx2`.
//
// In that header VEC is a vector of LANES doubles, AT and READ are the vector at a place of an array, and LOOP
// stands in front of every function.
#define VEC ODM_NAME(odm_vec)
#define LANES (static_cast<int64_t>(sizeof(VEC) / sizeof(double)))
#define AT(array, place) (*reinterpret_cast<VEC *>((array) + (place)))
#define READ(array, place) (*reinterpret_cast<const VEC *>((array) + (place)))
#define LOOP ODM_TARGET static inline

#define ODM_TARGET
#define ODM_VARIANT plain
#include ODM_LOOPS
#undef ODM_TARGET
#undef ODM_VARIANT

#ifdef ODM_HAS_AVX2_VARIANT
#define ODM_TARGET ODM_AVX2_TARGET
#define ODM_VARIANT avx2
#include ODM_LOOPS
#undef ODM_TARGET
#undef ODM_VARIANT
#endif
#undef ODM_LOOPS

#undef VEC
#undef LANES
#undef AT
#undef READ
#undef LOOP
