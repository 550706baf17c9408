// `accrue demo`, shortened.

#include <set>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DemoTest, ShowsOneHashForEveryWayAndAKilledRun) {
    TemporaryFolder folder;
    const ProgramResult result = run_program({"demo", "--steps", "2"}, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("... kill -9 "), HasSubstr("same file, bit for bit"),
                      HasSubstr("its gradient would be off by"), Not(HasSubstr("off by 0.0%")), Not(HasSubstr("\r"))));
    std::istringstream lines(result.output);
    std::multiset<std::string> hashes;
    for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(line.size(), 80U) << line;
        if (line.ends_with("...")) {
            hashes.insert(line.substr(line.size() - 19, 16));
        }
    }
    EXPECT_EQ(hashes.size(), 6U) << result.output;
    EXPECT_EQ(std::set<std::string>(hashes.begin(), hashes.end()).size(), 1U) << result.output;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is left behind";
}

TEST(DemoTest, RefusesTooFewSteps) {
    EXPECT_EQ(run_program({"demo", "--steps", "1"}).exit_code, 2);
}

}  // namespace
}  // namespace accrue::testing
