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
    for (const char* name : {"portable", "avx2", "avx512", "avx512-bf16", "amx"}) {
        const std::string text = error_of([&] { EXPECT_EQ(name_of(instruction_set_named(name)), name); });
        EXPECT_TRUE(text == "no error" || text.find("this processor lacks it. It has: portable") != std::string::npos)
            << text;
    }
}

}  // namespace
}  // namespace accrue::cpu
