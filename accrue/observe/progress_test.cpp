#include "accrue/observe/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace accrue {
namespace {

using testing::HasSubstr;

constexpr std::string_view kStartOfLine = "\r\x1b[K";

struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

std::string written_to(const File& file) {
    std::string text(static_cast<size_t>(std::ftell(file.get())), '\0');
    std::rewind(file.get());
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file.get()), text.size());
    return text;
}

ProgressFacts facts_at(int64_t step) {
    return {.step = step,
            .loss = 2.34567,
            .validation_loss = std::nullopt,
            .tokens_per_second = 12345,
            .updates_per_hour = 456,
            .peak_bytes = int64_t{3} << 29,
            .seconds_left = 80};
}

TEST(ProgressTest, APipeGetsOnePlainLinePerReport) {
    const File file(std::tmpfile());
    Progress progress(file.get(), false, 200);
    progress.report(facts_at(50));
    progress.note("a note");
    ProgressFacts evaluated = facts_at(51);
    evaluated.validation_loss = 2.5;
    progress.report(evaluated);
    progress.finish();
    EXPECT_EQ(
        written_to(file),
        "step 50/200  loss 2.3457  1m 20s left  12.3k tokens/s  456 updates/h  peak 1.50 GiB\n"
        "a note\n"
        "step 51/200  loss 2.3457  1m 20s left  validation 2.5000  12.3k tokens/s  456 updates/h  peak 1.50 GiB\n");
}

TEST(ProgressTest, ATerminalGetsOneLineThatIsDrawnAgain) {
    const File file(std::tmpfile());
    Progress progress(file.get(), true, 200);
    progress.report(facts_at(50));
    progress.report(facts_at(100));
    progress.finish();
    const std::string text = written_to(file);
    EXPECT_TRUE(text.starts_with(kStartOfLine));
    EXPECT_TRUE(text.ends_with("\n"));
    EXPECT_EQ(text.find('\n'), text.size() - 1);
    const size_t second = text.find(kStartOfLine, 1);
    ASSERT_NE(second, std::string::npos);
    EXPECT_THAT(text.substr(0, second), HasSubstr("step 50/200 ["));
    EXPECT_THAT(text.substr(second), HasSubstr("step 100/200 ["));
}

TEST(ProgressTest, ATerminalKeepsTheLastValidationLoss) {
    const File file(std::tmpfile());
    Progress progress(file.get(), true, 200);
    progress.first_validation(5.5);
    progress.report(facts_at(1));
    ProgressFacts evaluated = facts_at(2);
    evaluated.validation_loss = 2.5;
    progress.report(evaluated);
    progress.report(facts_at(3));
    const std::string text = written_to(file);
    EXPECT_TRUE(text.starts_with("validation loss before the first step: 5.5000\n"));
    const size_t second = text.find("step 2/200");
    const size_t third = text.find("step 3/200");
    EXPECT_THAT(text.substr(0, second), HasSubstr("validation 5.5000"));
    EXPECT_THAT(text.substr(second, third - second), HasSubstr("validation 2.5000"));
    EXPECT_THAT(text.substr(third), HasSubstr("validation 2.5000"));
}

TEST(ProgressTest, APipeHasTheFirstValidationLossInALineOfItsOwn) {
    const File file(std::tmpfile());
    Progress progress(file.get(), false, 200);
    progress.first_validation(5.5);
    progress.report(facts_at(1));
    EXPECT_EQ(written_to(file),
              "validation loss before the first step: 5.5000\n"
              "step 1/200  loss 2.3457  1m 20s left  12.3k tokens/s  456 updates/h  peak 1.50 GiB\n");
}

TEST(ProgressTest, LongWorkTakesTheBarsPlaceAndGivesItBack) {
    const File file(std::tmpfile());
    Progress progress(file.get(), true, 200);
    progress.report(facts_at(50));
    progress.work("writing checkpoint", "bytes").report(0, 100);
    progress.report(facts_at(51));
    const std::string text = written_to(file);
    const size_t work = text.find(std::string(kStartOfLine) + "writing checkpoint 0% [");
    ASSERT_NE(work, std::string::npos);
    EXPECT_THAT(text.substr(work), HasSubstr(std::string(kStartOfLine) + std::string(kStartOfLine) + "step 51/200 ["));
    EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(ProgressTest, ANoteStandsAboveTheBar) {
    const File file(std::tmpfile());
    Progress progress(file.get(), true, 200);
    progress.note("before");
    progress.report(facts_at(50));
    progress.note("after");
    progress.finish();
    progress.finish();
    const std::string text = written_to(file);
    EXPECT_TRUE(text.starts_with("before\n"));
    const size_t note = text.find(std::string(kStartOfLine) + "after\n");
    ASSERT_NE(note, std::string::npos);
    EXPECT_THAT(text.substr(note), HasSubstr("step 50/200 ["));
    EXPECT_TRUE(text.ends_with("\n") && !text.ends_with("\n\n"));
}

TEST(ProgressTest, TheBarGrowsWithTheSteps) {
    const auto bar_at = [](int64_t step) {
        const File file(std::tmpfile());
        Progress(file.get(), true, 100).report(facts_at(step));
        const std::string text = written_to(file);
        const size_t begin = text.find(" [") + 2;
        return text.substr(begin, text.find(']') - begin);
    };
    const std::string none = bar_at(0);
    const std::string all = bar_at(100);
    EXPECT_EQ(none, std::string(none.size(), ' '));
    EXPECT_EQ(all, std::string(all.size(), '='));
    EXPECT_EQ(bar_at(200), all) << "more steps than planned do not break the bar";
    const std::string half = bar_at(50);
    EXPECT_EQ(half.find('>'), half.size() / 2 - 1);
}

TEST(ProgressTest, NumbersAreShort) {
    const auto line = [](double tokens_per_second, double seconds) {
        const File file(std::tmpfile());
        ProgressFacts facts = facts_at(1);
        facts.tokens_per_second = tokens_per_second;
        facts.seconds_left = seconds;
        Progress(file.get(), false, 2).report(facts);
        return written_to(file);
    };
    EXPECT_THAT(line(999, 59), HasSubstr("59s left  999 tokens/s"));
    EXPECT_THAT(line(4'560'000, 7260), HasSubstr("2h 01m left  4.56M tokens/s"));
    EXPECT_THAT(line(1, INFINITY), HasSubstr("  ? left"));
    EXPECT_THAT(line(1, -1), HasSubstr("  ? left"));
}

// A terminal of our own, as wide as we like.
class Terminal {
public:
    explicit Terminal(unsigned short columns) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
        if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) {
            return;
        }
        winsize size{};
        size.ws_col = columns;
        ioctl(master_, TIOCSWINSZ, &size);
        const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
        if (slave >= 0) {
            termios raw{};
            tcgetattr(slave, &raw);
            cfmakeraw(&raw);
            tcsetattr(slave, TCSANOW, &raw);
            file_.reset(fdopen(slave, "w"));
        }
    }
    ~Terminal() {
        file_.reset();
        if (master_ >= 0) {
            close(master_);
        }
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    [[nodiscard]] std::FILE* file() const { return file_.get(); }
    // What has been shown so far; at least one byte must have been.
    [[nodiscard]] std::string shown() const {
        std::string text(4096, '\0');
        text.resize(static_cast<size_t>(std::max<ssize_t>(read(master_, text.data(), text.size()), 0)));
        return text;
    }

private:
    int master_ = -1;
    File file_;
};

TEST(ProgressTest, TheLineFitsTheTerminal) {
    for (const unsigned short columns : {10, 40, 60, 80, 120, 300}) {
        const Terminal terminal(columns);
        if (terminal.file() == nullptr) {
            GTEST_SKIP() << "no terminal can be opened here";
        }
        Progress(terminal.file(), true, 200).report(facts_at(50));
        std::string text = terminal.shown();
        ASSERT_TRUE(text.starts_with(kStartOfLine));
        text.erase(0, kStartOfLine.size());
        EXPECT_LT(text.size(), std::max<size_t>(columns, 40)) << text;
        EXPECT_THAT(text, HasSubstr("step 50/200 ["));
        EXPECT_EQ(text.find("peak") != std::string::npos, columns >= 120) << text;
    }
}

}  // namespace
}  // namespace accrue
