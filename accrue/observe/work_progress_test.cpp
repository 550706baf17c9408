#include "accrue/observe/work_progress.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

// Reports into a file, with a clock that the test moves.
class WorkProgressTest : public testing::Test {
protected:
    ~WorkProgressTest() override { std::fclose(file_); }

    [[nodiscard]] WorkProgress progress(bool is_terminal, const std::string& unit = "bytes") {
        return {file_, is_terminal, "tokenizing", unit, [this] { return now_; }};
    }
    [[nodiscard]] std::string written() const {
        std::string text(static_cast<size_t>(std::ftell(file_)), '\0');
        std::rewind(file_);
        EXPECT_EQ(std::fread(text.data(), 1, text.size(), file_), text.size());
        return text;
    }

    std::FILE* file_ = std::tmpfile();
    double now_ = 1000;
};

TEST_F(WorkProgressTest, APipeGetsALineAfterASecondAndThenEveryFive) {
    WorkProgress bytes = progress(false);
    for (int64_t tick = 0; tick <= 22; ++tick) {  // half a second each
        now_ = 1000 + static_cast<double>(tick) / 2;
        bytes.report(tick * kMiB, 40 * kMiB);
    }
    bytes.finish();
    EXPECT_EQ(written(),
              "tokenizing 5%  2.00 MiB of 40.00 MiB  19s left  2.1 MB/s\n"
              "tokenizing 30%  12.00 MiB of 40.00 MiB  14s left  2.1 MB/s\n"
              "tokenizing 55%  22.00 MiB of 40.00 MiB  9s left  2.1 MB/s\n");
}

TEST_F(WorkProgressTest, ShortWorkLeavesNoLineInAPipe) {
    WorkProgress bytes = progress(false);
    for (int64_t tick = 0; tick <= 3; ++tick) {
        bytes.report(tick, 4);
        now_ += 0.25;
    }
    EXPECT_DOUBLE_EQ(bytes.seconds(), 1);
    bytes.finish();
    EXPECT_EQ(written(), "");
}

TEST_F(WorkProgressTest, ATerminalGetsABarThatGoesAway) {
    WorkProgress bytes = progress(true);
    bytes.report(0, 4 * kMiB);
    EXPECT_THAT(written(), HasSubstr("tokenizing 0% [")) << "from the start, before any of it is done";
    now_ += 1;
    bytes.report(kMiB, 4 * kMiB);
    now_ += 0.01;
    bytes.report(2 * kMiB, 4 * kMiB);  // too soon to be drawn
    now_ += 1;
    bytes.report(3 * kMiB, 4 * kMiB);
    bytes.finish();
    const std::string text = written();
    EXPECT_THAT(text, HasSubstr("tokenizing 25% ["));
    EXPECT_THAT(text, HasSubstr("tokenizing 75% ["));
    EXPECT_EQ(text.find("50%"), std::string::npos);
    EXPECT_TRUE(text.ends_with("\r\x1b[K"));
    EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(WorkProgressTest, OtherThingsThanBytesAreCountedToo) {
    WorkProgress samples = progress(false, "samples");
    samples.report(0, 40);
    now_ += 2;
    samples.report(10, 40);
    EXPECT_EQ(written(), "tokenizing 25%  10 of 40 samples  6s left\n");
}

TEST_F(WorkProgressTest, ABarGoesAwayWithWhoeverDrewIt) {
    { progress(true).report(1, 2); }
    EXPECT_TRUE(written().ends_with("\r\x1b[K"));
}

TEST_F(WorkProgressTest, FilesWithoutBytesBreakNothing) {
    WorkProgress bytes = progress(false);
    bytes.report(0, 0);
    now_ += 6;
    bytes.report(0, 0);
    EXPECT_EQ(written(), "tokenizing 0%  0 B of 0 B  ? left  0.0 MB/s\n");
}

}  // namespace
}  // namespace accrue
