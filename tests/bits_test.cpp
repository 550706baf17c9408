// The bits of a few steps, as they were when expected_bits.txt was written: neither another compiler nor a change that is
// only meant to be faster may give others. Where a change is meant to give others, the message says what to write there.

#include <algorithm>
#include <fstream>
#include <map>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/test_places.h"
#include "accrue/kernels/cpu/instruction_set.h"

namespace accrue::testing {
namespace {

// "llama fp32 avx2" to the first 16 digits of a hash.
std::map<std::string, std::string> expected_bits() {
    std::ifstream file(source_folder() / "tests/expected_bits.txt");
    std::map<std::string, std::string> bits;
    for (std::string line; std::getline(file, line);) {
        const size_t space = line.rfind(' ');
        bits[line.substr(0, space)] = line.substr(space + 1);
    }
    return bits;
}

using cpu::InstructionSet;

class BitsTest : public ::testing::TestWithParam<std::tuple<std::string, DType, InstructionSet>> {};

TEST_P(BitsTest, AreTheSameAsEver) {
    const auto& [model, dtype, set] = GetParam();
    if (set > cpu::best_instruction_set()) {
        GTEST_SKIP() << "this processor lacks " << cpu::name_of(set);
    }
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    Settings settings = small_settings(golden(model), folder / "data.safetensors");
    settings.compute.dtype = dtype;
    settings.compute.instruction_set = cpu::name_of(set);
    const std::string name = cat(model, " ", name_of(dtype), " ", cpu::name_of(set));
    const std::string hash = TestRun(settings, 2).run(3).substr(0, 16);
    EXPECT_EQ(hash, expected_bits()[name]) << "If these bits are meant to change, write into tests/expected_bits.txt:\n"
                                           << name << " " << hash;
}

std::string bits_name(const ::testing::TestParamInfo<BitsTest::ParamType>& info) {
    const auto& [model, dtype, set] = info.param;
    std::string name = cat(model, "_", name_of(dtype), "_", cpu::name_of(set));
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Models, BitsTest,
                         ::testing::Combine(::testing::Values("gpt2", "llama", "qwen2", "qwen3"),
                                            ::testing::Values(DType::fp32, DType::bf16),
                                            ::testing::Values(InstructionSet::portable, InstructionSet::avx2,
                                                              InstructionSet::avx512, InstructionSet::avx512_bf16,
                                                              InstructionSet::amx)),
                         bits_name);

}  // namespace
}  // namespace accrue::testing
