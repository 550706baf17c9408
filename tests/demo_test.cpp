// `accrue demo`, shortened.

#include <set>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/kernels/gpus.h"

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
    // Workers compute on processors only, and only there have all ways the same bits.
    const bool has_workers = result.output.find("2 workers, one of them killed") != std::string::npos;
    EXPECT_EQ(has_workers, gpus_of_machine().found.empty() && usual_device().kind != DeviceKind::cuda);
    EXPECT_EQ(hashes.size(), has_workers ? 6U : 5U) << result.output;
    EXPECT_EQ(std::set<std::string>(hashes.begin(), hashes.end()).size(), 1U) << result.output;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is left behind";
}

TEST(DemoTest, RefusesTooFewSteps) {
    EXPECT_EQ(run_program({"demo", "--steps", "1"}).exit_code, 2);
}

}  // namespace
}  // namespace accrue::testing
