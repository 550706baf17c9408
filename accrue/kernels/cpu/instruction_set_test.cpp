#include "accrue/kernels/cpu/instruction_set.h"

#include <string>

#include "accrue/kernels/cpu/product_testing.h"

namespace accrue::cpu {
namespace {

TEST(InstructionSetTest, AnUnknownNameListsTheKnownOnes) {
    const std::string text = error_of([] { (void)instruction_set_named("sse9"); });
    EXPECT_NE(text.find("there is no instruction set \"sse9\". This processor has: portable"), std::string::npos)
        << text;
}

TEST(InstructionSetTest, EveryNameIsTakenOrRefusedByWhatTheProcessorHas) {
    EXPECT_EQ(instruction_set_named(""), best_instruction_set());
    using enum InstructionSet;
    for (const InstructionSet set : {portable, avx2, avx512, avx512_bf16, amx}) {
        const std::string name(name_of(set));
        const std::string text = error_of([&] { EXPECT_EQ(instruction_set_named(name), set); });
        if (set <= best_instruction_set()) {
            EXPECT_EQ(text, "no error");
        } else {
            EXPECT_NE(text.find("this processor lacks it. It has: portable"), std::string::npos) << text;
        }
    }
}

// A processor with everything, that may only be asked about what a test is limited to.
bool has_what_it_may_be_asked(InstructionSet set) {
    EXPECT_LE(set, InstructionSet::avx2) << "to ask about tiles is to ask the system for permission";
    return true;
}

TEST(InstructionSetTest, ATestCanBeAsOnAProcessorThatHasLess) {
    EXPECT_EQ(best_instruction_set("avx2", has_what_it_may_be_asked), InstructionSet::avx2);
    EXPECT_EQ(best_instruction_set("portable", has_what_it_may_be_asked), InstructionSet::portable);
    EXPECT_EQ(best_instruction_set("", [](InstructionSet) { return true; }), InstructionSet::amx);
    EXPECT_EQ(best_instruction_set("", [](InstructionSet set) { return set <= InstructionSet::avx512; }),
              InstructionSet::avx512);
}

TEST(InstructionSetTest, ATestThatAsksForWhatIsNotThereIsToldSo) {
    const auto only_avx2 = [](InstructionSet set) { return set <= InstructionSet::avx2; };
    EXPECT_EQ(
        error_of([&] { (void)best_instruction_set("sse9", only_avx2); }),
        "ACCRUE_TEST_INSTRUCTION_SET in the environment is \"sse9\", but there is no such instruction set. It is for "
        "tests alone and takes portable, avx2, avx512, avx512-bf16, amx; unset it otherwise.");
    EXPECT_EQ(
        error_of([&] { (void)best_instruction_set("avx512", only_avx2); }),
        "ACCRUE_TEST_INSTRUCTION_SET in the environment is \"avx512\", but this processor lacks it. It has: portable, "
        "avx2.");
}

}  // namespace
}  // namespace accrue::cpu
