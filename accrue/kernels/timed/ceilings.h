#pragma once

#include "accrue/base/pool.h"
#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/tensor/dtype.h"

namespace accrue {

// Floating-point operations a second of all threads at once, over some 20 ms: independent chains of the multiply-add
// that products of this dtype use with this instruction set, in registers, with no load and no store. Nothing that
// computes such products can be faster.
[[nodiscard]] double multiply_add_rate(Pool& pool, DType dtype, cpu::InstructionSet set);

// Bytes a second of a[i] = b[i] + s * c[i] over arrays that no cache holds, all threads at once, stores past the caches;
// the best of several rounds. Takes 768 MiB while it runs.
[[nodiscard]] double memory_bandwidth(Pool& pool);

}  // namespace accrue
