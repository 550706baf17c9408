#pragma once

#include <string>
#include <string_view>

#include "accrue/base/pool.h"
#include "accrue/tensor/arena.h"
#include "accrue/tensor/dtype.h"

namespace accrue::cpu {

// The vector instructions in use, each including those before it.
enum class InstructionSet { portable, avx2, avx512, avx512_bf16, amx };

// The best this processor has. Tests, and nobody else, may set ACCRUE_TEST_INSTRUCTION_SET in the environment to the name of a
// set: all is then as on a processor that has no more. A run says compute.instruction_set instead.
[[nodiscard]] InstructionSet best_instruction_set();

// The same by the value of that variable ("" = no limit) on a processor that has what `has` says, which is not
// asked about anything beyond. An error where the name is unknown or the processor lacks the set.
[[nodiscard]] InstructionSet best_instruction_set(std::string_view test_limit, bool (*has)(InstructionSet set));

// The set of that name ("portable", "avx2", "avx512", "avx512-bf16", "amx"; "" = the best); an error where the name is unknown
// or the processor lacks it.
[[nodiscard]] InstructionSet instruction_set_named(const std::string& name);

// The name as in settings, and the one for people: "avx512-bf16", "AVX-512 with bf16".
[[nodiscard]] std::string_view name_of(InstructionSet set);
[[nodiscard]] std::string_view title_of(InstructionSet set);

// What every CPU kernel is given: who works, where scratch comes from, and which instructions may be used.
struct Context {
    Pool& pool;
    Arena& arena;
    InstructionSet set;
};

// Of three compilations of one function, the one for this set: pick(set, N_SCALAR::f, N_AVX2::f, N_AVX3::f).
// Chosen by hand and not by Highway's own dispatch, because a run may ask for less than the processor has.
template <class Function>
[[nodiscard]] Function* pick(InstructionSet set, Function* portable, Function* avx2, Function* avx512) {
    switch (set) {
        case InstructionSet::portable:
            return portable;
        case InstructionSet::avx2:
            return avx2;
        default:
            return avx512;
    }
}

}  // namespace accrue::cpu
