#include "accrue/observe/byte_progress.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

// Reports into a file, with a clock that the test moves.
class ByteProgressTest : public testing::Test {
protected:
    ~ByteProgressTest() override { std::fclose(file_); }

    [[nodiscard]] ByteProgress progress(bool is_terminal) {
        return {file_, is_terminal, "tokenizing", [this] { return now_; }};
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

TEST_F(ByteProgressTest, APipeGetsALineEveryFiveSeconds) {
    ByteProgress bytes = progress(false);
    for (int64_t tick = 0; tick <= 22; ++tick) {  // half a second each
        now_ = 1000 + static_cast<double>(tick) / 2;
        bytes.report(tick * kMiB, 40 * kMiB);
    }
    bytes.finish();
    EXPECT_EQ(written(),
              "tokenizing 25%  10.00 MiB of 40.00 MiB  15s left  2.1 MB/s\n"
              "tokenizing 50%  20.00 MiB of 40.00 MiB  10s left  2.1 MB/s\n");
}

TEST_F(ByteProgressTest, ShortWorkLeavesNoLineInAPipe) {
    ByteProgress bytes = progress(false);
    for (int64_t tick = 0; tick <= 4; ++tick) {
        now_ += 1;
        bytes.report(tick, 4);
    }
    EXPECT_DOUBLE_EQ(bytes.seconds(), 4);
    bytes.finish();
    EXPECT_EQ(written(), "");
}

TEST_F(ByteProgressTest, ATerminalGetsABarThatGoesAway) {
    ByteProgress bytes = progress(true);
    bytes.report(0, 4 * kMiB);
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

TEST_F(ByteProgressTest, FilesWithoutBytesBreakNothing) {
    ByteProgress bytes = progress(false);
    bytes.report(0, 0);
    now_ += 6;
    bytes.report(0, 0);
    EXPECT_EQ(written(), "tokenizing 0%  0 B of 0 B  ? left  0.0 MB/s\n");
}

}  // namespace
}  // namespace accrue
