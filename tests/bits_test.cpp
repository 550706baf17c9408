// The bits of a few steps, as they were when expected_bits.txt was written: neither another compiler nor a change that is
// only meant to be faster may give others. Where a change is meant to give others, the message says what to write there.

#include <fstream>
#include <map>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/kernels/cpu/instruction_set.h"

namespace accrue::testing {
namespace {

// "llama fp32 avx2" to the first 16 digits of a hash.
std::map<std::string, std::string> expected_bits() {
    std::ifstream file(std::filesystem::path(ACCRUE_SOURCE_DIR) / "tests/expected_bits.txt");
    std::map<std::string, std::string> bits;
    for (std::string line; std::getline(file, line);) {
        const size_t space = line.rfind(' ');
        bits[line.substr(0, space)] = line.substr(space + 1);
    }
    return bits;
}

class BitsTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(BitsTest, AreTheSameAsEver) {
    using enum cpu::InstructionSet;
    const auto& [model, dtype] = GetParam();
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    Settings settings = small_settings(golden(model), folder / "data.safetensors");
    settings.compute.dtype = dtype;
    std::map<std::string, std::string> expected = expected_bits();
    for (const auto set : {portable, avx2, avx512, avx512_bf16, amx}) {
        if (set > cpu::best_instruction_set()) {
            continue;
        }
        settings.compute.instruction_set = cpu::name_of(set);
        const std::string name = cat(model, " ", dtype, " ", cpu::name_of(set));
        const std::string hash = TestRun(settings, 2).run(3).substr(0, 16);
        EXPECT_EQ(hash, expected[name]) << "If these bits are meant to change, write into tests/expected_bits.txt:\n"
                                        << name << " " << hash;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, BitsTest,
                         ::testing::Combine(::testing::Values("gpt2", "llama", "qwen2", "qwen3"),
                                            ::testing::Values("fp32", "bf16")),
                         [](const auto& row) { return cat(std::get<0>(row.param), "_", std::get<1>(row.param)); });

}  // namespace
}  // namespace accrue::testing
