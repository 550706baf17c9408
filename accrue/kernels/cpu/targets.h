#pragma once

// Which instruction sets Highway compiles for. Include before any Highway header. The namespaces are then always
// N_SCALAR, N_AVX2 and N_AVX3, whatever the compiler's flags, so that a caller can name the one it wants
// (instruction_set.h).
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
