#pragma once

#include <cstdint>

#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/tensor/dtype.h"

namespace accrue::cpu {

// How packed values lie in 32-bit words: one float, or two bf16 neighbours along the sum for the bf16 dot product.
enum class Packing { floats, pairs };

// bf16 stays bf16 where the processor multiplies it; elsewhere it is widened, which loses nothing.
[[nodiscard]] inline Packing packing_of(DType dtype, InstructionSet set) {
    return dtype == DType::bf16 && set >= InstructionSet::avx512_bf16 ? Packing::pairs : Packing::floats;
}

// What multiplies packed words: tiles take pairs, as the bf16 dot product does.
struct Multiplier {
    Packing packing = Packing::floats;
    bool tiles = false;
};

[[nodiscard]] inline Multiplier multiplier_of(DType dtype, InstructionSet set) {
    return {.packing = packing_of(dtype, set), .tiles = dtype == DType::bf16 && set == InstructionSet::amx};
}

// The words that hold `depth` values of one lane.
[[nodiscard]] inline int64_t words_of(int64_t depth, Packing packing) {
    return packing == Packing::pairs ? (depth + 1) / 2 : depth;
}

// Which neighbours of an operand lie next to each other in memory.
enum class Contiguous { depth, lanes };

// One side of a product. A lane is a row of the left side or a column of the right one; the depth is what is summed
// over. Value (lane, k) is data[lane * stride + k] where the depth is contiguous, data[k * stride + lane] where lanes
// are.
struct Operand {
    const void* data = nullptr;
    DType dtype = DType::fp32;
    int64_t stride = 0;
    Contiguous contiguous = Contiguous::depth;
    bool rounded = false;  // fp32 values that become bf16 while they are packed
};

// A rectangle of an operand.
struct OperandBlock {
    int64_t first_lane = 0;
    int64_t lanes = 0;
    int64_t first_depth = 0;
    int64_t depth = 0;
};

// Whether a tile's sums start at zero or go on from what the tile holds.
enum class Chain { start, go_on };

}  // namespace accrue::cpu
