#include "accrue/kernels/cpu/instruction_set.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <cpuid.h>
#include <hwy/targets.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue::cpu {
namespace {

struct Names {
    InstructionSet set;
    std::string_view name;
    std::string_view title;
};

constexpr std::array<Names, 5> kNames = {{{InstructionSet::portable, "portable", "no vector instructions"},
                                          {InstructionSet::avx2, "avx2", "AVX2"},
                                          {InstructionSet::avx512, "avx512", "AVX-512"},
                                          {InstructionSet::avx512_bf16, "avx512-bf16", "AVX-512 with bf16"},
                                          {InstructionSet::amx, "amx", "AVX-512 with bf16, AMX"}}};

constexpr const char* kTestLimit = "ACCRUE_TEST_INSTRUCTION_SET";

// Whether the processor has tiles with bf16 and the system lets this process use them: it asks on the first call.
bool may_use_tiles() {
    constexpr unsigned kFeatures = 7;
    constexpr unsigned kBf16 = 1U << 22U;
    constexpr unsigned kTiles = 1U << 24U;
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of arch_prctl(2)
    constexpr long kTileData = 18;
    static const bool may = [] {
        unsigned a = 0;
        unsigned b = 0;
        unsigned c = 0;
        unsigned d = 0;
        return __get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTiles) != 0 &&
               syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
    }();
    return may;
}

// Highway says whether all is there that it compiles for, not only what it names its targets after.
bool processor_has(InstructionSet set) {
    const bool avx512 = (hwy::SupportedTargets() & HWY_AVX3) != 0;
    switch (set) {
        case InstructionSet::portable:
            return true;
        case InstructionSet::avx2:
            return (hwy::SupportedTargets() & HWY_AVX2) != 0;
        case InstructionSet::avx512:
            return avx512;
        case InstructionSet::avx512_bf16:
            return avx512 && __builtin_cpu_supports("avx512bf16") != 0;
        case InstructionSet::amx:
            return avx512 && __builtin_cpu_supports("avx512bf16") != 0 && may_use_tiles();
    }
    return false;
}

std::string names_up_to(InstructionSet best) {
    std::string names;
    for (const Names& entry : kNames) {
        if (entry.set <= best) {
            names += cat(names.empty() ? "" : ", ", entry.name);
        }
    }
    return names;
}

}  // namespace

InstructionSet best_instruction_set() {
    static const InstructionSet best = [] {
        const char* const limit = std::getenv(kTestLimit);
        return best_instruction_set(limit == nullptr ? "" : limit, processor_has);
    }();
    return best;
}

InstructionSet best_instruction_set(std::string_view test_limit, bool (*has)(InstructionSet set)) {
    const InstructionSet most = kNames.back().set;
    const auto* const limit =
        std::find_if(kNames.begin(), kNames.end(), [&](const Names& entry) { return entry.name == test_limit; });
    if (limit == kNames.end() && !test_limit.empty()) {
        throw Error(cat(kTestLimit, " in the environment is \"", test_limit,
                        "\", but there is no such instruction set. ", "It is for tests alone and takes ",
                        names_up_to(most), "; unset it otherwise."));
    }
    InstructionSet best = InstructionSet::portable;
    for (const Names& entry : kNames) {
        if (entry.set <= (test_limit.empty() ? most : limit->set) && has(entry.set)) {
            best = entry.set;
        }
    }
    if (!test_limit.empty() && best != limit->set) {
        throw Error(cat(kTestLimit, " in the environment is \"", test_limit,
                        "\", but this processor lacks it. It has: ", names_up_to(best), "."));
    }
    return best;
}

InstructionSet instruction_set_named(const std::string& name) {
    const InstructionSet best = best_instruction_set();
    if (name.empty()) {
        return best;
    }
    for (const Names& entry : kNames) {
        if (entry.name == name) {
            if (entry.set > best) {
                throw Error(cat("the instruction set \"", name,
                                "\" was asked for, but this processor lacks it. It has: ", names_up_to(best), "."));
            }
            return entry.set;
        }
    }
    throw Error(cat("there is no instruction set \"", name, "\". This processor has: ", names_up_to(best), "."));
}

std::string_view name_of(InstructionSet set) {
    return kNames[static_cast<size_t>(set)].name;
}

std::string_view title_of(InstructionSet set) {
    return kNames[static_cast<size_t>(set)].title;
}

}  // namespace accrue::cpu
