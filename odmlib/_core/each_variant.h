// Includes the header of loops that ODM_LOOPS names once per variant of instructions.h: `loop_plain`, `loop_avx2`.
#define ODM_TARGET
#define ODM_VECTOR_BYTES 16
#define ODM_VARIANT plain
#include ODM_LOOPS
#undef ODM_TARGET
#undef ODM_VECTOR_BYTES
#undef ODM_VARIANT

#ifdef ODM_HAS_AVX2_VARIANT
#define ODM_TARGET ODM_AVX2_TARGET
#define ODM_VECTOR_BYTES 32
#define ODM_VARIANT avx2
#include ODM_LOOPS
#undef ODM_TARGET
#undef ODM_VECTOR_BYTES
#undef ODM_VARIANT
#endif
#undef ODM_LOOPS
